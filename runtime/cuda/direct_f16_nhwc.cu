// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>

#include "runtime/cuda/direct_set.cuh"

namespace megaconv::cuda {

KernelSet direct_f16_nhwc_kernels(const Tiling& tiling) {
  return direct_kernels<Layout::nhwc, __half>(tiling);
}

}  // namespace megaconv::cuda
