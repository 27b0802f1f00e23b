// SPDX-License-Identifier: Apache-2.0
// The truth that tests compare pixelwise operations with.
#pragma once

#include <span>
#include <vector>

#include "megaconv/pixelwise.hpp"

namespace megaconv {

/// y of x and b in [N][C][H][W], whatever the problem's layout; b is empty, or [N][C][H][W], or
/// [N][C].
std::vector<double> reference_pixelwise(const PixelwiseProblem& problem, std::span<const double> x,
                                        std::span<const double> b);

}  // namespace megaconv
