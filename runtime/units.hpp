// SPDX-License-Identifier: Apache-2.0
// Traces count nanoseconds; what users read is in microseconds.
#pragma once

namespace megaconv {

inline constexpr double kNsPerUs = 1000;

}  // namespace megaconv
