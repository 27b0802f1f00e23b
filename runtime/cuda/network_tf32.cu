// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/network_kernel.cuh"

namespace megaconv::cuda {

NetworkKernels network_kernels_tf32(bool others) {
  return others ? make_network_kernels<Tf32Products, true>("network_tf32")
                : make_network_kernels<Tf32Products, false>("network_tf32_convolutions");
}

}  // namespace megaconv::cuda
