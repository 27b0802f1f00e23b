// SPDX-License-Identifier: Apache-2.0
// How a convolution of a network is cut: between two reads of a filter come those of all other
// layers, so that no cache near a worker has it.
#pragma once

#include "megaconv/tiling.hpp"

namespace megaconv {

/// What make_tiling() chooses for a convolution by itself; but direct sums on a CPU where cold
/// filters make Winograd slower.
Tiling make_tiling_in_network(const ConvProblem& problem, const TilingOptions& options,
                              const Target& target);

}  // namespace megaconv
