// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/opencnn_set.cuh"

namespace megaconv::cuda {

KernelSet opencnn_nchw_kernels(const Tiling& tiling) {
  return opencnn_kernels<Layout::nchw>(tiling);
}

}  // namespace megaconv::cuda
