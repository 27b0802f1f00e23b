// SPDX-License-Identifier: Apache-2.0
// What a CUDA pooling task is given: host code fills it, device code reads it.
#pragma once

#include <cstdint>

#include "megaconv/pooling.hpp"
#include "tasks/cuda/places.hpp"

namespace megaconv::cuda {

struct PoolTaskArgs {
  // Device pointers, of a network's node places; layout and storage type of the problem.
  const void* x;
  void* y;
  // PoolProblem, in 32 bits.
  std::int32_t c, h, w, p, q, r, s;
  std::int32_t pad_h, pad_w, stride_h, stride_w;
  // PoolCut.
  std::int32_t rows_per_group, cols_per_group, channels_per_task;
  PoolMode mode;
  Layout layout;
};

/// Throws as derive_counts() does, and Error(unsupported) for a padded input of 2^31 rows or
/// columns, or tasks of more than 2^30 outputs.
PoolTaskArgs node_args(const PoolCut& cut, const NodePlaces& places);

/// Of convolutions whose tasks pool their outputs.
SecondOutput second_output(const PoolCut& cut, const NodePlaces& places,
                           std::int64_t first_channel);

}  // namespace megaconv::cuda
