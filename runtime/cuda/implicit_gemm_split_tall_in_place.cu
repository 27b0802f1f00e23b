// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/implicit_gemm_in_place_set.cuh"

namespace megaconv::cuda {

KernelSet implicit_gemm_split_tall_in_place_kernels(const Tiling& tiling) {
  return implicit_gemm_in_place_kernels<SplitNumbers, Operands::split_tall>(tiling);
}

}  // namespace megaconv::cuda
