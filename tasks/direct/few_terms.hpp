// SPDX-License-Identifier: Apache-2.0
// How long direct tasks of sums of few terms take on tensor cores
// (tasks/direct/cuda/direct_mma.cuh).
#pragma once

#include "megaconv/tiling.hpp"

namespace megaconv {

/// Microseconds of a problem by itself that runs again and again, cut like this.
double few_terms_us(const ConvProblem& problem, const DirectCut& cut, const Target& target);

}  // namespace megaconv
