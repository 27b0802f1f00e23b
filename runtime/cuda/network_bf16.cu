// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/network_kernel.cuh"

namespace megaconv::cuda {

NetworkKernels network_kernels_bf16(bool others) {
  return others ? make_network_kernels<Bfloat16Products, true>("network_bf16")
                : make_network_kernels<Bfloat16Products, false>("network_bf16_convolutions");
}

}  // namespace megaconv::cuda
