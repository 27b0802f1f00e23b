// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/implicit_gemm_set.cuh"

namespace megaconv::cuda {

KernelSet implicit_gemm_split_64_nhwc_kernels(const Tiling& tiling) {
  return implicit_gemm_kernels_of<SplitNumbers, 64, Layout::nhwc>(tiling);
}

}  // namespace megaconv::cuda
