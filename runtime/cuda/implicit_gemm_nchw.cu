// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/implicit_gemm_set.cuh"

namespace megaconv::cuda {

KernelSet implicit_gemm_nchw_kernels(const Tiling& tiling) {
  return tiling.arithmetic == Arithmetic::split_f16
             ? implicit_gemm_kernels<SplitNumbers, Layout::nchw>(tiling)
             : implicit_gemm_kernels<RoundedNumbers, Layout::nchw>(tiling);
}

}  // namespace megaconv::cuda
