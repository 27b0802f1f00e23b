// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/winograd_split_set.cuh"

namespace megaconv::cuda {

KernelSet winograd_split_4_nhwc_kernels(const Tiling& tiling) {
  return tiling.points == Points::low_error
             ? winograd_split_kernels<4, Points::low_error, Layout::nhwc>(tiling)
             : winograd_split_kernels<4, Points::integer, Layout::nhwc>(tiling);
}

}  // namespace megaconv::cuda
