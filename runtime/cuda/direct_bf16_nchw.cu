// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>

#include "runtime/cuda/direct_set.cuh"

namespace megaconv::cuda {

KernelSet direct_bf16_nchw_kernels(const Tiling& tiling) {
  return direct_kernels<Layout::nchw, __nv_bfloat16>(tiling);
}

}  // namespace megaconv::cuda
