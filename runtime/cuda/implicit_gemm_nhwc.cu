// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/implicit_gemm_set.cuh"

namespace megaconv::cuda {

KernelSet implicit_gemm_nhwc_kernels(const Tiling& tiling) {
  return tiling.arithmetic == Arithmetic::split_f16
             ? implicit_gemm_kernels<SplitNumbers, Layout::nhwc>(tiling)
             : implicit_gemm_kernels<RoundedNumbers, Layout::nhwc>(tiling);
}

}  // namespace megaconv::cuda
