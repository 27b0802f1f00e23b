// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/network_kernel.cuh"

namespace megaconv::cuda {

NetworkKernels network_kernels_f32() { return make_network_kernels<PairProducts>("network_f32"); }

}  // namespace megaconv::cuda
