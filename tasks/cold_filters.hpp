// SPDX-License-Identifier: Apache-2.0
// Convolutions whose filters come from no cache near a worker: where few tiles share them, reading
// them takes longer than multiplying by them.
#pragma once

#include "megaconv/tiling.hpp"

namespace megaconv {

/// What make_tiling() chooses for a convolution by itself; but direct sums, or F(2x2), on a CPU
/// where cold filters make these faster. Between two reads of a filter come those of all others.
Tiling make_tiling_in_network(const ConvProblem& problem, const TilingOptions& options,
                              const Target& target);

/// `options` for a convolution by itself; with direct sums or F(2x2) on a CPU that reads filters
/// from an L3 behind a mesh, where that makes these faster. The same for any number of workers.
TilingOptions options_behind_mesh(const ConvProblem& problem, const TilingOptions& options,
                                  const Target& target);

}  // namespace megaconv
