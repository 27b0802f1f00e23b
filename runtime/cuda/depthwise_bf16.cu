// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

#include "runtime/cuda/depthwise_set.cuh"

namespace megaconv::cuda {

KernelSet depthwise_bf16_kernels(const Tiling& tiling) {
  return depthwise_kernels<__nv_bfloat16>(direct_bf16_nhwc_kernels(tiling), tiling);
}

}  // namespace megaconv::cuda
