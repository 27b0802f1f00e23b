// SPDX-License-Identifier: Apache-2.0
// What the other files of mapping/ need of the tiling beyond the public header.
#pragma once

#include <concepts>
#include <string>

#include "megaconv/mapping.hpp"

namespace megaconv {

template <std::integral Int>
constexpr Int ceil_div(Int dividend, Int divisor) {
  return dividend / divisor + (dividend % divisor != 0 ? 1 : 0);
}

/// What keeps Winograd from computing the problem ("winograd: stride 2x2, must be 1x1"); empty when
/// nothing does.
std::string winograd_obstacle(const ConvProblem& problem);

/// Checks the fields of a tiling that are chosen, and computes those that follow from them (tile
/// counts, NG, NF, SI, SG, SO). The window is clamped to NG slots; 0 slots mean NG.
/// Throws Error(invalid_argument) for a field out of range, Error(unsupported) for a storage type
/// that has no tasks yet or too many groups.
void derive_counts(Tiling& tiling);

/// NF + NG (SI + SG + SO).
std::uint64_t num_tasks(const Tiling& tiling);

const char* to_string(Algorithm algorithm) noexcept;  ///< "automatic", "direct", "winograd"
const char* to_string(Points points) noexcept;        ///< "low_error", "integer"
const char* to_string(FilterMode filters) noexcept;   ///< "every_run", "prepared"

}  // namespace megaconv
