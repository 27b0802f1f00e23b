// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

#include "runtime/cuda/direct_mma_set.cuh"

namespace megaconv::cuda {

KernelSet direct_mma_bf16_kernels(const Tiling& tiling) {
  return direct_mma_kernels<__nv_bfloat16>(tiling);
}

}  // namespace megaconv::cuda
