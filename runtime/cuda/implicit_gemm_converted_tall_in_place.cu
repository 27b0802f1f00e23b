// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/implicit_gemm_in_place_set.cuh"

namespace megaconv::cuda {

KernelSet implicit_gemm_converted_tall_in_place_kernels(const Tiling& tiling) {
  return implicit_gemm_in_place_kernels<RoundedNumbers, Operands::converted_tall>(tiling);
}

}  // namespace megaconv::cuda
