// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/network_kernel.cuh"

namespace megaconv::cuda {

NetworkKernels network_kernels_pairs() {
  return make_network_kernels<PairTensorProducts, false>("network_tf32_pairs");
}

}  // namespace megaconv::cuda
