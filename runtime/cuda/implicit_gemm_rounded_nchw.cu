// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/implicit_gemm_set.cuh"

namespace megaconv::cuda {

KernelSet implicit_gemm_rounded_nchw_kernels(const Tiling& tiling) {
  return implicit_gemm_kernels<RoundedNumbers, Layout::nchw>(tiling);
}

}  // namespace megaconv::cuda
