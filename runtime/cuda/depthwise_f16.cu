// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>

#include "runtime/cuda/depthwise_set.cuh"

namespace megaconv::cuda {

KernelSet depthwise_f16_kernels(const Tiling& tiling) {
  return depthwise_kernels<__half>(direct_f16_nhwc_kernels(tiling), tiling);
}

}  // namespace megaconv::cuda
