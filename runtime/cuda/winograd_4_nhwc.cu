// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/winograd_set.cuh"

namespace megaconv::cuda {

KernelSet winograd_4_nhwc_kernels(const Tiling& tiling) {
  return tiling.tiles()->points == Points::low_error
             ? winograd_kernels<4, Points::low_error, Layout::nhwc>(tiling)
             : winograd_kernels<4, Points::integer, Layout::nhwc>(tiling);
}

}  // namespace megaconv::cuda
