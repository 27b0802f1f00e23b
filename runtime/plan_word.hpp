// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace megaconv {

/// What says of a workspace that it holds the counters of another plan of this process: even, the
/// same in its upper half for all plans of the process, and unlike what memory holds by chance.
std::uint64_t new_plan_word();

}  // namespace megaconv
