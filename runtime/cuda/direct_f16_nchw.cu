// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>

#include "runtime/cuda/direct_set.cuh"

namespace megaconv::cuda {

KernelSet direct_f16_nchw_kernels(const Tiling& tiling) {
  return direct_kernels<Layout::nchw, __half>(tiling);
}

}  // namespace megaconv::cuda
