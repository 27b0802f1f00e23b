// SPDX-License-Identifier: Apache-2.0
// Scales of inputs are guesses, so that nobody has to read x before the tasks do. Tasks note the
// largest magnitudes that they met; a kernel behind every run looks at these and computes again
// what a guess did not suit.
#pragma once

#include "runtime/cuda/megakernel.cuh"

namespace megaconv::cuda {

/// Kernel::redo(args, tasks, num_tasks, num_groups, shared): by all blocks of the grid.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, Kernel::kBlocksPerSm)
    redo_kernel(const TaskArgs args, const Task* tasks, std::uint32_t num_tasks,
                std::uint32_t num_groups) {
  extern __shared__ __align__(16) std::byte shared[];
  wait_for_kernel_before();
  Kernel::redo(args, tasks, num_tasks, num_groups, shared);
}

}  // namespace megaconv::cuda
