// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/kernels.hpp"

#include "megaconv/error.hpp"

namespace megaconv::cuda {

KernelSet kernels_for(const Tiling& tiling) {
  if (tiling.algorithm != Algorithm::winograd) {
    throw Error(Status::unsupported, "cuda: direct tasks are not part of this build");
  }
  const bool nchw = tiling.problem.layout == Layout::nchw;
  switch (tiling.m) {
    case 2:
      return nchw ? winograd_2_nchw_kernels(tiling) : winograd_2_nhwc_kernels(tiling);
    case 4:
      return nchw ? winograd_4_nchw_kernels(tiling) : winograd_4_nhwc_kernels(tiling);
    default:
      return nchw ? winograd_6_nchw_kernels(tiling) : winograd_6_nhwc_kernels(tiling);
  }
}

}  // namespace megaconv::cuda
