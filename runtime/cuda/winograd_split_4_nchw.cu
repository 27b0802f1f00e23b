// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/winograd_tensor_set.cuh"
#include "tasks/cuda/wgmma_tile.cuh"

namespace megaconv::cuda {

KernelSet winograd_split_4_nchw_kernels(const Tiling& tiling) {
  return tiling.tiles()->points == Points::low_error
             ? winograd_tensor_kernels<WgmmaTile, 4, Points::low_error, Layout::nchw,
                                       TensorOperand<2>>(tiling)
             : winograd_tensor_kernels<WgmmaTile, 4, Points::integer, Layout::nchw,
                                       TensorOperand<2>>(tiling);
}

}  // namespace megaconv::cuda
