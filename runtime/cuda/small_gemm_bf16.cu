// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/small_gemm_set.cuh"

namespace megaconv::cuda {

KernelSet small_gemm_bf16_kernels(const Tiling& tiling) {
  return small_gemm_kernel_set<Bfloat16Products>(tiling, "bf16");
}

}  // namespace megaconv::cuda
