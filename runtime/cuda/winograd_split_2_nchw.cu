// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/winograd_split_set.cuh"

namespace megaconv::cuda {

KernelSet winograd_split_2_nchw_kernels(const Tiling& tiling) {
  // Both sets of points are the same here.
  return winograd_split_kernels<2, Points::low_error, Layout::nchw>(tiling);
}

}  // namespace megaconv::cuda
