// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/direct_set.cuh"

namespace megaconv::cuda {

KernelSet direct_nchw_kernels(const Tiling& tiling) { return direct_kernels<Layout::nchw>(tiling); }

}  // namespace megaconv::cuda
