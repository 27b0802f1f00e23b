// SPDX-License-Identifier: Apache-2.0
// The persistent megakernel: every thread block is a worker that takes positions of the task array
// until none is left. Kernel::run(args, task, shared) computes one task; what kinds there are is
// its business. Where the tasks of a block should overlap, there is stream_kernel.cuh.
#pragma once

#include <algorithm>

#include "runtime/cuda/worker.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/tensor_copy.cuh"

namespace megaconv::cuda {

template <class Kernel>
__device__ __forceinline__ void run_task(const TaskArgs& args, const Task& task,
                                         std::byte* shared) {
  switch (kind_of(task)) {
    case TaskKind::filter_transform:
      return Kernel::template run<TaskKind::filter_transform>(args, task, shared);
    case TaskKind::input_transform:
      return Kernel::template run<TaskKind::input_transform>(args, task, shared);
    case TaskKind::gemm:
      return Kernel::template run<TaskKind::gemm>(args, task, shared);
    case TaskKind::output_transform:
      return Kernel::template run<TaskKind::output_transform>(args, task, shared);
    case TaskKind::direct:
      return Kernel::template run<TaskKind::direct>(args, task, shared);
    case TaskKind::pooling:
    case TaskKind::elementwise:
      return;  // of networks, which have no kernel yet
  }
}

/// Tasks that all threads of a block compute together, one after the other, at positions below
/// `end`. Returns, to the first thread, the position that it has taken behind them; num_tasks if
/// the run was given up.
template <class Kernel>
__device__ __forceinline__ std::uint32_t run_whole_tasks(const TaskArgs& args, const Worker& worker,
                                                         std::uint32_t end, std::byte* shared) {
  // What outlives a task is kept here: registers are for the task. (Shared variables are not
  // initialised, as a TakenTask would be.)
  __shared__ alignas(TakenTask) std::byte room[sizeof(TakenTask)];
  __shared__ std::uint32_t next;  // the leader's
  __shared__ bool exists;
  TakenTask& taken = reinterpret_cast<TakenTask&>(room);
  const bool leader = threadIdx.x == 0;
  if (leader) next = worker.first_position();
  do {
    if (leader) {
      exists = next < end && worker.fetch(next, taken);
      if (!exists && next < end) next = worker.run().num_tasks;
    }
    __syncthreads();
    if (!exists) break;
    run_task<Kernel>(args, taken.task, shared);
    __syncthreads();
    if (leader) next = worker.next_position();
    worker.signal(taken.task, threadIdx.x, Kernel::kThreads);
    if (leader) worker.record(taken);
    __syncthreads();  // `taken` is read before the leader overwrites it
  } while (worker.run().dispatch == Dispatch::persistent);
  return next;
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, Kernel::kBlocksPerSm)
    megakernel(const __grid_constant__ TaskArgs args, const __grid_constant__ DeviceRun run) {
  extern __shared__ __align__(kSwizzleSpan) std::byte shared[];
  __shared__ std::uint32_t epoch;
  const bool leader = threadIdx.x == 0;
  wait_for_kernel_before();
  let_next_start();
  if (leader) epoch = attach(*run.header, run.counters, run.num_counters, run.plan_word);
  __syncthreads();
  run_whole_tasks<Kernel>(args, Worker(run, epoch), run.num_tasks, shared);
  if (leader) detach(*run.header, gridDim.x);
}

/// Blocks of a stage that share an SM: Kernel's, or what it says of these kinds of task.
template <class Kernel, TaskKind... kKinds>
constexpr int stage_blocks_per_sm() {
  if constexpr (requires { Kernel::stage_blocks_per_sm(TaskKind{}); }) {
    return std::min({Kernel::stage_blocks_per_sm(kKinds)...});
  }
  return Kernel::kBlocksPerSm;
}

/// Whether Kernel's tasks of a kind wait for the kernel before by themselves.
template <class Kernel>
constexpr bool waits_itself(TaskKind kind) {
  if constexpr (requires { Kernel::waits_itself(kind); }) return Kernel::waits_itself(kind);
  return false;
}

/// Whether they do so only where they need what it wrote, unless TaskArgs::waits_for_x. What else
/// they read must be there when that one lets them start: it must be of the same run, and have
/// waited first.
template <class Kernel>
constexpr bool reads_ahead(TaskKind kind) {
  if constexpr (requires { Kernel::reads_ahead(kind); }) return Kernel::reads_ahead(kind);
  return false;
}

/// The staged baseline: one launch per stage, one block per task; the stream orders the stages. A
/// stage may have several kinds of task.
template <class Kernel, TaskKind... kKinds>
__global__ void __launch_bounds__(Kernel::kThreads, (stage_blocks_per_sm<Kernel, kKinds...>()))
    stage_kernel(const __grid_constant__ TaskArgs args, const Task* tasks) {
  extern __shared__ __align__(kSwizzleSpan) std::byte shared[];
  const Task task = tasks[blockIdx.x];  // the plan's, which no kernel before writes
  if constexpr (!(waits_itself<Kernel>(kKinds) && ...)) wait_for_kernel_before();
  let_next_start();
  if ((reads_ahead<Kernel>(kKinds) || ...) && args.waits_for_x) wait_for_kernel_before();
  ((kind_of(task) == kKinds ? Kernel::template run<kKinds>(args, task, shared) : void()), ...);
}

}  // namespace megaconv::cuda
