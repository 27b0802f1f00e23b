// SPDX-License-Identifier: Apache-2.0
// Scales of inputs and filters are guesses, so that nobody has to read x and w before the tasks do.
// Tasks note the largest magnitudes that they met; a kernel behind every run checks these and
// computes again what a guess did not suit.
#pragma once

#include "runtime/cuda/device_sync.cuh"
#include "tasks/cuda/scale_guess.cuh"
#include "tasks/cuda/task_args.hpp"

namespace megaconv::cuda {

__device__ inline std::uint32_t num_filter_tasks(const TaskArgs& a) {
  const int down = (a.k_padded + a.filters_per_filter_task - 1) / a.filters_per_filter_task;
  return static_cast<std::uint32_t>(down * a.filter_channel_chunks);
}

/// Called with every task of a kind that makes operands, not with those that are computed again.
__device__ inline void prepare_redo(const Task& task, OperandFooter& footer) {
  if (task.group == 0 && task.block == 0 && threadIdx.x == 0) {
    footer.tasks_taken = footer.tasks_redone = 0;
  }
}

/// What filter tasks noted in Kernel's footer and others in a.x_magnitudes.
template <class Kernel>
__device__ inline NotedMagnitudes noted_of_run(const TaskArgs& a, std::uint32_t num_groups) {
  return {Kernel::footer(a).most, a.x_magnitudes, a.w != nullptr ? num_filter_tasks(a) : 0,
          num_groups * Kernel::noted_of_group(a)};
}

/// The scales with which a run is to be computed again; 0 where the guess was right.
struct CorrectedScales {
  float filters, inputs;
  __device__ bool differ() const { return filters != 0.0f || inputs != 0.0f; }
};
template <class Kernel>
__device__ inline CorrectedScales corrected_scales(const LargestNoted& most) {
  return {corrected_scale(Kernel::kFilterGuess, most.filters),
          corrected_scale(Kernel::kInputGuess, most.inputs)};
}

/// All tasks of a kind that makes operands once more, with the scales of `a`. A block that waits
/// for the others waits for tasks only that they have begun.
template <class Kernel, TaskKind kKind>
__device__ inline void redo_tasks(const TaskArgs& a, OperandFooter& footer, std::uint32_t num_tasks,
                                  std::byte* shared) {
  __shared__ std::uint32_t taken;
  for (;;) {
    if (threadIdx.x == 0) taken = DeviceSync::fetch_add_relaxed(footer.tasks_taken, 1);
    __syncthreads();
    const std::uint32_t block = taken;
    if (block >= num_tasks) break;
    Kernel::template run_once<kKind>(a, Task{.kind = id_of(kKind), .block = block}, shared);
    __syncthreads();
    if (threadIdx.x == 0) DeviceSync::add_release(footer.tasks_redone, 1);
  }
  if (threadIdx.x == 0) {
    while (DeviceSync::load_acquire(footer.tasks_redone) < num_tasks) __nanosleep(100);
  }
  __syncthreads();
}

/// All filter tasks once more, with another scale, which `a` has then.
template <class Kernel>
__device__ inline void redo_filters(TaskArgs& a, OperandFooter& footer, float scale,
                                    std::byte* shared) {
  a.w_scale = scale;
  redo_tasks<Kernel, TaskKind::filter_transform>(a, footer, num_filter_tasks(a), shared);
}

/// If a guess did not suit what the tasks of a run noted, Kernel::redo(args, scales, tasks,
/// num_tasks, num_groups, shared), by all blocks of a grid. Kernel::footer(args) is that of U, and
/// Kernel::noted_of_group(args) how many magnitudes of x a group has.
template <class Kernel>
__device__ __forceinline__ void check_and_redo(const TaskArgs& args, const Task* tasks,
                                               std::uint32_t num_tasks, std::uint32_t num_groups,
                                               std::byte* shared) {
  CorrectedScales scales{};
  // The first block starts while the last ones of the kernel before still run. It runs the check
  // once on no magnitudes, to bring its code into the L2 before all others need it.
#pragma unroll 1
  for (std::uint32_t check = blockIdx.x == 0 ? 0 : 1; check < 2; ++check) {
    if (check == 1) {
      __syncthreads();  // the first block's threads have read what the check on nothing gave
      wait_for_kernel_before();
      let_next_start();
    }
    NotedMagnitudes noted = noted_of_run<Kernel>(args, num_groups);
    noted.num_filters *= check, noted.num_inputs *= check;
    scales = corrected_scales<Kernel>(largest_of<Kernel::kThreads>(noted));
  }
  if (scales.differ()) Kernel::redo(args, scales, tasks, num_tasks, num_groups, shared);
}

}  // namespace megaconv::cuda
