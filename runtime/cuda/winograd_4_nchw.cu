// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/winograd_set.cuh"

namespace megaconv::cuda {

KernelSet winograd_4_nchw_kernels(const Tiling& tiling) {
  return tiling.tiles()->points == Points::low_error
             ? winograd_kernels<4, Points::low_error, Layout::nchw>(tiling)
             : winograd_kernels<4, Points::integer, Layout::nchw>(tiling);
}

}  // namespace megaconv::cuda
