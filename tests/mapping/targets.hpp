// SPDX-License-Identifier: Apache-2.0
// GPUs that mapping tests choose tilings and launches for.
#pragma once

#include "megaconv/lowering.hpp"

namespace megaconv::test {

/// An H200, tensor cores included.
inline const Target kHopper{.backend = Backend::cuda,
                            .workers = 264,
                            .cache_bytes_per_worker = 96 << 10,
                            .split_f16 = true,
                            .multiprocessors = 132};
/// A GPU without our tasks for tensor cores.
inline const Target kAmpere{.backend = Backend::cuda, .workers = 432};
/// The same with those of a warp's tensor cores: Winograd's, none of implicit GEMM.
inline const Target kAmpereMma{.backend = Backend::cuda, .workers = 216, .split_f16 = true};

}  // namespace megaconv::test
