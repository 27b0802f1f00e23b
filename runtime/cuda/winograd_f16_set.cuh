// SPDX-License-Identifier: Apache-2.0
// The Winograd kernels of one product on Hopper's tensor cores. The multiplied numbers are FP16
// whatever the tensors hold.
#pragma once

#include <cuda_bf16.h>

#include "runtime/cuda/winograd_tensor_set.cuh"
#include "tasks/cuda/wgmma_tile.cuh"

namespace megaconv::cuda {

/// Operand: V and U.
template <Layout kLayout, class Operand>
KernelSet winograd_f16_kernels(const Tiling& tiling) {
  constexpr Points kPoints = Points::low_error;
  switch (tiling.problem.dtype) {
    case DataType::f16:
      return winograd_tensor_kernels<WgmmaTile, 4, kPoints, kLayout, Operand, __half>(tiling);
    case DataType::bf16:
      return winograd_tensor_kernels<WgmmaTile, 4, kPoints, kLayout, Operand, __nv_bfloat16>(
          tiling);
    default:
      return winograd_tensor_kernels<WgmmaTile, 4, kPoints, kLayout, Operand, float>(tiling);
  }
}

}  // namespace megaconv::cuda
