// SPDX-License-Identifier: Apache-2.0
// Tensor maps: how Hopper's copy engine finds its way through tensors of 16-bit numbers whose
// channels lie side by side (CUDA driver API, "Tensor Map Object Management").
#pragma once

#include <cuda.h>

#include "mapping/stripes.hpp"
#include "megaconv/problem.hpp"

namespace megaconv::cuda {

// All throw Error(invalid_argument) for an address that is no multiple of 16.

/// x of a problem in NHWC, or what was made of it.
struct Pixels {
  const void* x;
  std::int64_t channels;  ///< of a pixel
  bool floats;            ///< or 16-bit numbers
};
/// `places` pixels in the order of the places of the `stripe`-th stripe (mapping/stripes.hpp), gaps
/// included, in a slab of 64 or 128 bytes of channels.
CUtensorMap pixel_tensor(const ConvProblem& problem, const Pixels& pixels, const Stripes& stripes,
                         int stripe, int slab_channels, int places);

/// w of a problem in NHWC, or what was made of it, with so many 16-bit numbers a tap: a tap of
/// `filters` filters, in a slab of 32 or 64 channels.
CUtensorMap filter_tensor(const ConvProblem& problem, const void* w, std::int64_t tap_numbers,
                          int slab_channels, int filters);

/// y of a problem in NHWC, whose pixels are whole vectors of 16 bytes: `cols` columns of a row, of
/// each the filters in 128 bytes.
CUtensorMap output_tensor(const ConvProblem& problem, const void* y, int cols);

}  // namespace megaconv::cuda
