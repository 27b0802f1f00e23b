// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/network_kernel.cuh"

namespace megaconv::cuda {

NetworkKernels network_kernels_f16() { return make_network_kernels<HalfProducts>("network_f16"); }

}  // namespace megaconv::cuda
