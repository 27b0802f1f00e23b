// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/winograd_tensor_set.cuh"
#include "tasks/cuda/wgmma_tile.cuh"

namespace megaconv::cuda {

KernelSet winograd_split_2_nchw_kernels(const Tiling& tiling) {
  // Both sets of points are the same here.
  return winograd_tensor_kernels<WgmmaTile, 2, Points::low_error, Layout::nchw, TensorOperand<2>>(
      tiling);
}

}  // namespace megaconv::cuda
