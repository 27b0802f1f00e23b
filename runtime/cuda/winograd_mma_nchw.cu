// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/winograd_mma_set.cuh"

namespace megaconv::cuda {

KernelSet winograd_mma_nchw_kernels(const Tiling& tiling) {
  return winograd_mma_kernels<Layout::nchw>(tiling);
}

}  // namespace megaconv::cuda
