// SPDX-License-Identifier: Apache-2.0
// What a CUDA pixelwise task is given: host code fills it, device code reads it.
#pragma once

#include <cstdint>

#include "megaconv/pixelwise.hpp"
#include "tasks/cuda/places.hpp"

namespace megaconv::cuda {

struct PixelwiseArgs {
  // Device pointers, of a network's node places; tensors in the problem's storage type.
  // b: what is multiplied by, or null.
  const void *x, *b;
  void* y;
  std::int32_t c, h, w;
  std::int32_t rows_per_group;
  std::int32_t before, behind;  ///< channels of a window beside its own
  float alpha, beta, bias;      ///< of local_response_norm, alpha is divided by the window's size
  PixelFunction function;
  bool per_channel;
  bool vectors;  ///< channels come in 16 bytes
};

/// Throws as derive_counts() does, and Error(unsupported) for another layout than nhwc or an image
/// of 2^31 numbers.
PixelwiseArgs node_args(const PixelwiseCut& cut, const NodePlaces& places);

}  // namespace megaconv::cuda
