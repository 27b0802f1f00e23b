// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/implicit_gemm_set.cuh"

namespace megaconv::cuda {

KernelSet implicit_gemm_split_128_nchw_kernels(const Tiling& tiling) {
  return implicit_gemm_kernels_of<SplitNumbers, 128, Layout::nchw>(tiling);
}

}  // namespace megaconv::cuda
