// SPDX-License-Identifier: Apache-2.0
// What a CUDA elementwise task is given: host code fills it, device code reads it.
#pragma once

#include <cstdint>
#include <vector>

#include "megaconv/elementwise.hpp"
#include "tasks/cuda/places.hpp"

namespace megaconv::cuda {

/// A tensor x, and its channels of y.
struct ElementwiseInput {
  const void* x;
  std::int32_t first_channel, channels;
};

struct ElementwiseArgs {
  // Device pointers, of a network's node places, as in its table; tensors in the problem's storage
  // type. Those that it does not have: null.
  const void* residual;
  void* y;
  const float *scale, *bias;
  const ElementwiseInput* inputs;  ///< the table: by step of channels, the tensor that has them
  std::int32_t channel_step;       ///< no tensor begins within a step
  std::int32_t h, w, c;            ///< of y
  // ElementwiseCut.
  std::int32_t rows_per_group, channels_per_task;
  std::int32_t older_channels, older_chunks, last_chunks;
  std::uint32_t older_tasks;
  float least, most;
  bool vectors;  ///< channels of all tensors come in 16 bytes
};

/// Throws as derive_counts() does, and Error(unsupported) for another layout than nhwc.
ElementwiseArgs node_args(const ElementwiseCut& cut, const NodePlaces& places);
/// What a convolution stores that makes the tensor which begins at this channel of y.
SecondOutput second_output(const ElementwiseCut& cut, const NodePlaces& places,
                           std::int64_t first_channel);
std::vector<ElementwiseInput> node_table(const ElementwiseCut& cut, const NodePlaces& places);

}  // namespace megaconv::cuda
