// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

#include "runtime/cuda/direct_set.cuh"

namespace megaconv::cuda {

KernelSet direct_bf16_nhwc_kernels(const Tiling& tiling) {
  return direct_kernels<Layout::nhwc, __nv_bfloat16>(tiling);
}

}  // namespace megaconv::cuda
