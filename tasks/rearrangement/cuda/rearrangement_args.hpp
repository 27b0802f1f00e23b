// SPDX-License-Identifier: Apache-2.0
// What a CUDA task of a rearrangement is given: host code fills it, device code reads it.
#pragma once

#include <cstdint>

#include "megaconv/rearrangement.hpp"
#include "tasks/cuda/places.hpp"

namespace megaconv::cuda {

struct RearrangementArgs {
  // Device pointers, of a network's node places; in the problem's storage type.
  const void* x;
  void* y;
  std::int32_t h, w;     ///< of x
  std::int32_t k, p, q;  ///< of y
  std::int32_t first_channel, groups, repeat_h, repeat_w, top, left;
  std::int32_t rows_per_group;
  std::uint32_t fill;  ///< bits of the number; one of 16 bits twice
  // Distances in numbers.
  std::int64_t x_image, y_image;
  std::int32_t x_channel, x_pixel, y_channel, y_pixel;
  bool vectors;  ///< channels come in 16 bytes, in x and in y
};

/// Throws as derive_counts() does, and Error(unsupported) for an image of 2^31 numbers.
RearrangementArgs node_args(const RearrangementCut& cut, const NodePlaces& places);

}  // namespace megaconv::cuda
