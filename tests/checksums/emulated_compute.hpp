// SPDX-License-Identifier: Apache-2.0
// CUDA's tasks without a GPU (tests/emulated_cuda).
#pragma once

#include <vector>

#include "tests/checksums/data.hpp"

namespace megaconv::checksums {

/// The compute capability that this program is compiled for.
EmulatedCode emulated_code();

/// y. Tensors are f32. Throws Error for what there are no kernels for.
std::vector<float> compute_emulated(const ConvProblem& problem, const PlanOptions& options,
                                    const Data& data);

}  // namespace megaconv::checksums
