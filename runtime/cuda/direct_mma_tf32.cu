// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/direct_mma_set.cuh"

namespace megaconv::cuda {

KernelSet direct_mma_tf32_kernels(const Tiling& tiling) {
  return direct_mma_kernels<float>(tiling);
}

}  // namespace megaconv::cuda
