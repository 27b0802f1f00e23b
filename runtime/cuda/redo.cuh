// SPDX-License-Identifier: Apache-2.0
// Scales of inputs and filters are guesses, so that nobody has to read x and w before the tasks do.
// Tasks note the largest magnitudes that they met; a kernel behind every run looks at these and
// computes again what a guess did not suit.
#pragma once

#include "runtime/cuda/megakernel.cuh"
#include "tasks/cuda/scale_guess.cuh"

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

/// Called with every filter task of a run, not with those that are computed again.
__device__ inline void prepare_redo(const Task& task, FilterFooter& footer) {
  if (task.block == 0 && threadIdx.x == 0) footer.tasks_taken = footer.tasks_redone = 0;
}

/// All filter tasks once more, if there were any and the guess was wrong: whether it was. A block
/// that waits for the others waits for tasks only that they have begun.
template <class Kernel>
__device__ inline bool redo_filters(TaskArgs a, FilterFooter& footer, ScaleGuess guess,
                                    std::byte* shared) {
  if (a.w == nullptr) return false;
  const int down = (a.k_padded + a.filters_per_filter_task - 1) / a.filters_per_filter_task;
  const auto num_tasks = static_cast<std::uint32_t>(down * a.filter_channel_chunks);
  const float scale = corrected_scale<Kernel::kThreads>(guess, footer.most, num_tasks);
  if (scale == 0.0f) return false;
  a.w_scale = scale;
  __shared__ std::uint32_t taken;
  for (;;) {
    if (threadIdx.x == 0) taken = DeviceSync::fetch_add_relaxed(footer.tasks_taken, 1);
    __syncthreads();
    const std::uint32_t block = taken;
    if (block >= num_tasks) break;
    Kernel::template run_once<TaskKind::filter_transform>(
        a, Task{.kind = TaskKind::filter_transform, .block = block}, shared);
    __syncthreads();
    if (threadIdx.x == 0) DeviceSync::add_release(footer.tasks_redone, 1);
  }
  if (threadIdx.x == 0) {
    while (DeviceSync::load_acquire(footer.tasks_redone) < num_tasks) __nanosleep(100);
  }
  __syncthreads();
  return true;
}

}  // namespace megaconv::cuda
