// SPDX-License-Identifier: Apache-2.0
// How long direct tasks of sums of few terms take on tensor cores
// (tasks/direct/cuda/direct_mma.cuh).
#pragma once

#include <cstdint>

#include "megaconv/tiling.hpp"

namespace megaconv {

/// What a task has: pixels of an image, and parts of the filters (mma_filter_parts()).
struct MmaTaskSize {
  std::uint32_t rows, cols, parts;
};
/// Microseconds of a problem by itself, that runs again and again in tasks of this size.
double few_terms_us(const ConvProblem& problem, const MmaTaskSize& size, const Target& target);

}  // namespace megaconv
