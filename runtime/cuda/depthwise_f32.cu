// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/depthwise_set.cuh"

namespace megaconv::cuda {

KernelSet depthwise_f32_kernels(const Tiling& tiling) {
  return depthwise_kernels<float>(direct_nhwc_kernels(tiling), tiling);
}

}  // namespace megaconv::cuda
