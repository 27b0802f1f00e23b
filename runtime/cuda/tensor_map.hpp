// SPDX-License-Identifier: Apache-2.0
// Tensor maps: how Hopper's copy engine finds its way through tensors of 16-bit numbers whose
// channels lie side by side (CUDA driver API, "Tensor Map Object Management").
#pragma once

#include <cuda.h>

#include "megaconv/problem.hpp"

namespace megaconv::cuda {

/// Throws Error(invalid_argument) for an address that is no multiple of 16.
void check_whole_octets(const char* name, const void* address);

/// x of a problem in NHWC: `places` pixels in the order of the places of a stripe with all columns
/// (mapping/stripes.hpp), gaps included, in a slab of 32 channels. Throws as check_whole_octets.
CUtensorMap input_tensor(const ConvProblem& problem, const void* x, int places);

/// w of a problem in NHWC: a tap of `filters` filters, in a slab of 32 channels. Throws as
/// check_whole_octets.
CUtensorMap filter_tensor(const ConvProblem& problem, const void* w, int filters);

}  // namespace megaconv::cuda
