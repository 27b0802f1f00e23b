// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/network_kernel.cuh"

namespace megaconv::cuda {

NetworkKernels network_kernels_f16(bool others) {
  return others ? make_network_kernels<HalfProducts, true>("network_f16")
                : make_network_kernels<HalfProducts, false>("network_f16_convolutions");
}

}  // namespace megaconv::cuda
