// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/winograd_mma_set.cuh"

namespace megaconv::cuda {

KernelSet winograd_mma_nhwc_kernels(const Tiling& tiling) {
  return winograd_mma_kernels<Layout::nhwc>(tiling);
}

}  // namespace megaconv::cuda
