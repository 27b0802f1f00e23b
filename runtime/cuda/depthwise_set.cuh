// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution whose stages have boxes of x loaded by TMA, put together for the executors.
// sm_90.
#pragma once

#include <string>

#include "runtime/cuda/kernel_set.cuh"
#include "tasks/direct/cuda/depthwise_boxes.cuh"

namespace megaconv::cuda {

/// `set`: the kernels of tasks that load x themselves.
template <class Stored>
KernelSet depthwise_kernels(KernelSet set, const Tiling& tiling) {
  const ConvProblem& a = tiling.problem;
  const DepthwiseBox box = depthwise_box(a, std::get<DirectCut>(tiling.cut));
  if (box.stages == 0) return set;
  const auto take = [&]<int kTaps, int kStride>() {
    if (a.r != kTaps || a.stride_h != kStride) return;
    set.name += ", boxes of " + std::to_string(box.rows) + " x " + std::to_string(box.cols) +
                " x " + std::to_string(box.channels);
    replace_direct_stage<DepthwiseBoxes<Stored, kTaps, kStride>>(set, box.shared_bytes());
    set.loads_boxes = true;
  };
  take.template operator()<3, 1>();
  take.template operator()<3, 2>();
  take.template operator()<5, 1>();
  take.template operator()<5, 2>();
  take.template operator()<7, 1>();
  take.template operator()<7, 2>();
  return set;
}

}  // namespace megaconv::cuda
