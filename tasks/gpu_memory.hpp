// SPDX-License-Identifier: Apache-2.0
// Which tensors a GPU's L2 has room for, as far as tilings depend on it.
#pragma once

#include "megaconv/problem.hpp"

namespace megaconv {

/// Tensors of as many bytes together pass through memory (H100, whose L2 has 50 MB).
inline constexpr double kBytesInL2 = 45e6;

/// Whether x and y do.
inline bool pass_through_memory(const ConvProblem& a) {
  return static_cast<double>(a.x_size() + a.y_size()) * static_cast<double>(size_of(a.dtype)) >=
         kBytesInL2;
}

}  // namespace megaconv
