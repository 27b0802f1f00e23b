// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>

#include "runtime/cuda/direct_mma_set.cuh"

namespace megaconv::cuda {

KernelSet direct_mma_f16_kernels(const Tiling& tiling) {
  return direct_mma_kernels<__half>(tiling);
}

}  // namespace megaconv::cuda
