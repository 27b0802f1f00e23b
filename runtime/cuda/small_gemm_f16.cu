// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/small_gemm_set.cuh"

namespace megaconv::cuda {

KernelSet small_gemm_f16_kernels(const Tiling& tiling) {
  return small_gemm_kernel_set<HalfProducts>(tiling, "f16");
}

}  // namespace megaconv::cuda
