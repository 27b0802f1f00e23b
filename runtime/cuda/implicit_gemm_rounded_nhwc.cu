// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/implicit_gemm_set.cuh"

namespace megaconv::cuda {

KernelSet implicit_gemm_rounded_nhwc_kernels(const Tiling& tiling) {
  return implicit_gemm_kernels<RoundedNumbers, Layout::nhwc>(tiling);
}

}  // namespace megaconv::cuda
