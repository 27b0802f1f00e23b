// SPDX-License-Identifier: Apache-2.0
// The scale check: whether the guessed scales of x and w suited the numbers, and what to do if not.
//
// FP32 numbers are scaled before they become FP16. Measuring x and w first would read them once
// more, so the scales are guesses (tasks/cuda/scale_guess.cuh). Tasks that convert note the largest
// magnitude that they met. After the run these notes are compared with the guesses. If a guess was
// wrong, the run is computed again with a scale that is right. That of x is the guess of the runs
// that are enqueued from then on (right_scales.hpp).
#pragma once

#include "runtime/cuda/device_sync.cuh"
#include "tasks/cuda/scale_guess.cuh"
#include "tasks/cuda/task_args.hpp"

namespace megaconv::cuda {

/// NF, the filter tasks of a run.
__device__ inline std::uint32_t num_filter_tasks(const TaskArgs& a) {
  const int down = (a.k_padded + a.filters_per_filter_task - 1) / a.filters_per_filter_task;
  return static_cast<std::uint32_t>(down * a.filter_channel_chunks);
}

/// Clears the counters of redo_tasks(). Called by every task that converts x or w, in its first
/// computation, not when it is computed again.
__device__ inline void prepare_redo(const Task& task, OperandFooter& footer) {
  if (task.group == 0 && task.block == 0 && threadIdx.x == 0) {
    footer.tasks_taken = footer.tasks_redone = 0;
  }
}

/// The notes of a run: of w one per filter task, in the footer behind U; of x in a.x_magnitudes.
template <class Kernel>
__device__ inline NotedMagnitudes noted_of_run(const TaskArgs& a, std::uint32_t num_groups) {
  return {Kernel::footer(a).most, a.x_magnitudes, a.w != nullptr ? num_filter_tasks(a) : 0,
          num_groups * Kernel::noted_of_group(a)};
}

/// Scales to compute a run again with. 0: the guess was right.
struct CorrectedScales {
  float filters, inputs;
  __device__ bool differ() const { return filters != 0.0f || inputs != 0.0f; }
};
template <class Kernel>
__device__ inline CorrectedScales corrected_scales(const TaskArgs& a, const LargestNoted& most) {
  constexpr ScaleGuess kInputGuess = Kernel::kInputGuess;
  return {corrected_scale(Kernel::kFilterGuess, most.filters),
          corrected_scale({a.x_scale, kInputGuess.least, kInputGuess.most}, most.inputs)};
}

/// For runs to come. Called by all threads of a grid, or of blocks that compute again by
/// themselves.
__device__ inline void leave_right_scale(const TaskArgs& a, const CorrectedScales& scales) {
  if (threadIdx.x == 0 && scales.inputs != 0.0f) {
    *a.right_x_scale = scales.inputs;
  }
}

/// Computes all tasks of one kind again, with the scales in `a`: filter tasks or input tasks. The
/// blocks of the grid share them out through footer.tasks_taken. A block returns when all tasks are
/// done. It then waits only for tasks that a running block has taken, so this cannot deadlock.
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

/// Computes all filter tasks again. Sets a.w_scale to `scale`.
template <class Kernel>
__device__ inline void redo_filters(TaskArgs& a, OperandFooter& footer, float scale,
                                    std::byte* shared) {
  a.w_scale = scale;
  redo_tasks<Kernel, TaskKind::filter_transform>(a, footer, num_filter_tasks(a), shared);
}

/// The scale check. Called by all blocks of a grid. If a guess was wrong, it calls
/// Kernel::redo(args, scales, tasks, num_tasks, num_groups, shared), which computes the run again.
/// Kernel::footer(args) is the footer behind U. Kernel::noted_of_group(args) is the number of notes
/// on x that a task group has.
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
    scales = corrected_scales<Kernel>(args, largest_of<Kernel::kThreads>(noted));
  }
  if (!scales.differ()) return;
  leave_right_scale(args, scales);
  Kernel::redo(args, scales, tasks, num_tasks, num_groups, shared);
}

}  // namespace megaconv::cuda
