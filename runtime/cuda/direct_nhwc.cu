// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/direct_set.cuh"

namespace megaconv::cuda {

KernelSet direct_nhwc_kernels(const Tiling& tiling) { return direct_kernels<Layout::nhwc>(tiling); }

}  // namespace megaconv::cuda
