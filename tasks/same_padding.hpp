// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "megaconv/problem.hpp"

namespace megaconv {

/// Sets the padding to "same", d (r-1) / 2: with an odd filter and stride 1, y is as large as x.
/// Throws Error(invalid_argument) for a filter or a dilation out of range.
void pad_same(ConvProblem& problem);

}  // namespace megaconv
