// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/winograd_f16_set.cuh"

namespace megaconv::cuda {

KernelSet winograd_f16_4_nhwc_kernels(const Tiling& tiling) {
  return winograd_f16_kernels<Layout::nhwc, RowOperand>(tiling);
}

}  // namespace megaconv::cuda
