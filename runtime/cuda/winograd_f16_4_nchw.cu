// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/winograd_f16_set.cuh"

namespace megaconv::cuda {

KernelSet winograd_f16_4_nchw_kernels(const Tiling& tiling) {
  return winograd_f16_kernels<Layout::nchw, TensorOperand<1>>(tiling);
}

}  // namespace megaconv::cuda
