// SPDX-License-Identifier: Apache-2.0
// In place of the kernels of compute capability 9.0, in a build for other architectures only.
#include "megaconv/error.hpp"
#include "runtime/cuda/kernels.hpp"

namespace megaconv::cuda {

namespace {

[[noreturn]] KernelSet not_in_this_build() {
  throw Error(Status::unsupported,
              "kernels of compute capability 9.0 are not in this build: "
              "MEGACONV_CUDA_ARCHITECTURES must have 90-real");
}

}  // namespace

#define MEGACONV_LACKS_fma(name)
#define MEGACONV_LACKS_mma(name)
#define MEGACONV_LACKS_wgmma(name) \
  KernelSet name##_kernels(const Tiling&) { not_in_this_build(); }
#define MEGACONV_LACKS(name, algorithm, layout, isa, condition) MEGACONV_LACKS_##isa(name)
MEGACONV_CUDA_VARIANTS(MEGACONV_LACKS)

}  // namespace megaconv::cuda
