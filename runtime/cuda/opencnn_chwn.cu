// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/opencnn_set.cuh"

namespace megaconv::cuda {

KernelSet opencnn_chwn_kernels(const Tiling& tiling) {
  return opencnn_kernels<Layout::chwn>(tiling);
}

}  // namespace megaconv::cuda
