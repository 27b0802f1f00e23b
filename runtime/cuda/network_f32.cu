// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/network_kernel.cuh"

namespace megaconv::cuda {

NetworkKernels network_kernels_f32(bool others) {
  return others ? make_network_kernels<PairProducts, true>("network_f32")
                : make_network_kernels<PairProducts, false>("network_f32_convolutions");
}

}  // namespace megaconv::cuda
