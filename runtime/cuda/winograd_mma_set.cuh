// SPDX-License-Identifier: Apache-2.0
// The Winograd kernels on tensor cores that a warp uses by itself, sm_80 and later.
#pragma once

#include <cuda_bf16.h>

#include "runtime/cuda/winograd_tensor_set.cuh"
#include "tasks/cuda/mma_tile.cuh"

namespace megaconv::cuda {

template <Layout kLayout>
KernelSet winograd_mma_kernels(const Tiling& tiling) {
  constexpr Points kLowError = Points::low_error, kInteger = Points::integer;
  if (tiling.arithmetic == Arithmetic::f16) {
    switch (tiling.problem.dtype) {
      case DataType::f16:
        return winograd_tensor_kernels<MmaTile, 4, kLowError, kLayout, TensorOperand<1>, __half>(
            tiling);
      case DataType::bf16:
        return winograd_tensor_kernels<MmaTile, 4, kLowError, kLayout, TensorOperand<1>,
                                       __nv_bfloat16>(tiling);
      default:
        return winograd_tensor_kernels<MmaTile, 4, kLowError, kLayout, TensorOperand<1>>(tiling);
    }
  }
  const WinogradTiles& tiles = *tiling.tiles();
  if (tiles.m == 2)
    return winograd_tensor_kernels<MmaTile, 2, kLowError, kLayout, TensorOperand<2>>(tiling);
  return tiles.points == kLowError
             ? winograd_tensor_kernels<MmaTile, 4, kLowError, kLayout, TensorOperand<2>>(tiling)
             : winograd_tensor_kernels<MmaTile, 4, kInteger, kLayout, TensorOperand<2>>(tiling);
}

}  // namespace megaconv::cuda
