// SPDX-License-Identifier: Apache-2.0
// Shares as people read them.
#pragma once

#include <spdlog/fmt/fmt.h>

#include <string>

namespace megaconv::cli {

/// "12.3%" for 0.123.
inline std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

}  // namespace megaconv::cli
