// SPDX-License-Identifier: Apache-2.0
// The truth that tests compare rearrangements with.
#pragma once

#include <span>
#include <vector>

#include "megaconv/rearrangement.hpp"

namespace megaconv {

/// y of x, both in [N][C][H][W], whatever the problem's layout: each part by itself.
std::vector<double> reference_rearrangement(const RearrangementProblem& problem,
                                            std::span<const double> x);

}  // namespace megaconv
