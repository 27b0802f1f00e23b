// SPDX-License-Identifier: Apache-2.0
// What a CUDA elementwise task is given: host code fills it, device code reads it.
#pragma once

#include <cstdint>
#include <vector>

#include "megaconv/elementwise.hpp"

namespace megaconv::cuda {

/// A tensor x: where it is, whatever that means to who runs the task, and its channels of y.
struct ElementwiseInput {
  std::uint64_t x;
  std::int32_t first_channel, channels;
};

struct ElementwiseArgs {
  // Device pointers; tensors in the problem's storage type. Those that it does not have: null.
  const void* residual;
  void* y;
  const float *scale, *bias;
  const ElementwiseInput* inputs;  ///< in the order of their channels
  std::int32_t num_inputs;
  std::int32_t h, w, c;  ///< of y
  std::int32_t rows_per_group;
  float least, most;
  bool vectors;  ///< channels of all tensors come in 16 bytes
};

/// All but the pointers, which are null, and the inputs' channels. Throws as derive_counts() does,
/// and Error(unsupported) for another layout than nhwc.
ElementwiseArgs make_elementwise_args(const ElementwiseCut& cut);
std::vector<ElementwiseInput> make_elementwise_inputs(const ElementwiseCut& cut);

}  // namespace megaconv::cuda
