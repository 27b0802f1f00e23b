// SPDX-License-Identifier: Apache-2.0
// Instantiates the kernel behind a run that computes again what a guess did not suit.
#pragma once

#include "runtime/cuda/redo.cuh"
#include "tasks/cuda/tensor_copy.cuh"

namespace megaconv::cuda {

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, Kernel::kBlocksPerSm)
    redo_kernel(const __grid_constant__ TaskArgs args, const Task* tasks, std::uint32_t num_tasks,
                std::uint32_t num_groups) {
  extern __shared__ __align__(kSwizzleSpan) std::byte shared[];
  check_and_redo<Kernel>(args, tasks, num_tasks, num_groups, shared);
}

}  // namespace megaconv::cuda
