// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/network_kernel.cuh"

namespace megaconv::cuda {

NetworkKernels network_kernels_bf16() {
  return make_network_kernels<Bfloat16Products>("network_bf16");
}

}  // namespace megaconv::cuda
