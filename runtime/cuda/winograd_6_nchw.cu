// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/winograd_set.cuh"

namespace megaconv::cuda {

KernelSet winograd_6_nchw_kernels(const Tiling& tiling) {
  // Both sets of points are the same here.
  return winograd_kernels<6, Points::low_error, Layout::nchw>(tiling);
}

}  // namespace megaconv::cuda
