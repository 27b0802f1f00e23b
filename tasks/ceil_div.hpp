// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>

namespace megaconv {

/// Of numbers that are not negative.
template <std::integral Int>
constexpr Int ceil_div(Int dividend, Int divisor) {
  return dividend / divisor + (dividend % divisor != 0 ? 1 : 0);
}

}  // namespace megaconv
