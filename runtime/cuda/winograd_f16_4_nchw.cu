// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

#include "runtime/cuda/winograd_tensor_set.cuh"
#include "tasks/cuda/wgmma_tile.cuh"

namespace megaconv::cuda {

// The multiplied numbers are FP16 whatever the tensors hold.
KernelSet winograd_f16_4_nchw_kernels(const Tiling& tiling) {
  constexpr Points kPoints = Points::low_error;
  switch (tiling.problem.dtype) {
    case DataType::f16:
      return winograd_tensor_kernels<WgmmaTile, 4, kPoints, Layout::nchw, 1, __half>(tiling);
    case DataType::bf16:
      return winograd_tensor_kernels<WgmmaTile, 4, kPoints, Layout::nchw, 1, __nv_bfloat16>(tiling);
    default:
      return winograd_tensor_kernels<WgmmaTile, 4, kPoints, Layout::nchw, 1, float>(tiling);
  }
}

}  // namespace megaconv::cuda
