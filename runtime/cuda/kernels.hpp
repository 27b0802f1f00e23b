// SPDX-License-Identifier: Apache-2.0
// The compiled kernels behind one table entry per variant, so that only kernels*.cu need
// instantiate them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "megaconv/plan.hpp"
#include "runtime/cuda/device_run.hpp"
#include "tasks/cuda/task_args.hpp"

namespace megaconv::cuda {

/// All kernels of one variant of one algorithm. Arrays are by TaskKind.
struct KernelSet {
  const char* name;        ///< "winograd F(4x4,3x3), tasks of 128 tiles x 128 filters"
  const void* persistent;  ///< megakernel, by Dispatch
  const void* one_task;
  const void* raw_index;
  const void* stage[kNumTaskKinds];  ///< null where the algorithm has no such task
  int shared_bytes[kNumTaskKinds];   ///< dynamic shared memory, for the layout asked for
  int most_shared_bytes;             ///< of a megakernel
};

/// The variant that runs this tiling. Throws Error(unsupported) for a tiling that none was compiled
/// for.
KernelSet kernels_for(const Tiling& tiling);

}  // namespace megaconv::cuda
