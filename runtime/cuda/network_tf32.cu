// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/network_kernel.cuh"

namespace megaconv::cuda {

NetworkKernels network_kernels_tf32() { return make_network_kernels<Tf32Products>("network_tf32"); }

}  // namespace megaconv::cuda
