// SPDX-License-Identifier: Apache-2.0
// Layers as real networks have them, drawn at random: what a heuristic is measured on that nobody
// tuned it for.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/verbs/problem_selection.hpp"

namespace megaconv::cli {

/// So many layers, which the seed decides. Filters, strides and conv groups come in the proportions
/// of 21 networks (1,593 layers; random_layers.cpp). Batches are 1 to 128, images 7 to 512 rows and
/// columns, one in three not square, channels 3 to 1,536. No tensor has more than 2^27 elements, no
/// layer more than 2^37 multiply-adds.
std::vector<NamedProblem> random_layers(std::int64_t count, std::uint64_t seed);

}  // namespace megaconv::cli
