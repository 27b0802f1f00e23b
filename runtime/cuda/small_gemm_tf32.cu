// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/small_gemm_set.cuh"

namespace megaconv::cuda {

KernelSet small_gemm_tf32_kernels(const Tiling& tiling) {
  return small_gemm_kernel_set<Tf32Products>(tiling, "tf32");
}

}  // namespace megaconv::cuda
