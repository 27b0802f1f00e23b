// SPDX-License-Identifier: Apache-2.0
// The kernels of one compute capability, compiled for this CPU once for all that runs them.
#pragma once

#include "runtime/cuda/kernels.hpp"

namespace megaconv::test {

/// Throws Error(unsupported) for what is not emulated.
cuda::KernelSet emulated_kernels(const Tiling& tiling);

}  // namespace megaconv::test
