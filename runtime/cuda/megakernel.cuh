// SPDX-License-Identifier: Apache-2.0
// The persistent megakernel: every thread block is a worker that takes positions of the task array
// until none is left. Kernel::run(args, task, shared) computes one task; what kinds there are is
// its business. Where the tasks of a block should overlap, there is stream_kernel.cuh.
#pragma once

#include <algorithm>

#include "runtime/cuda/device_sync.cuh"
#include "tasks/cuda/task_args.hpp"

namespace megaconv::cuda {

__device__ inline std::uint64_t global_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}
__device__ inline std::uint32_t sm_id() {
  std::uint32_t id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

using AtomicWord = ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_device>;

// Leaves word of a task that will not run. Called by the thread that waited for it.
__device__ inline void give_up(DependencyCounters<DeviceSync>& counters, const Task& task,
                               std::uint32_t position, const DeviceRun& run) {
  DeviceHeader& header = *run.header;
  if (AtomicWord(header.given_up).exchange(1, ::cuda::memory_order_relaxed) == 0) {
    header.position = position;
    header.seen = counters.received(task.wait_counter, task.wait_count);
    header.positions_taken = counters.positions_taken();
  }
  run.waiting[AtomicWord(header.num_waiting).fetch_add(1, ::cuda::memory_order_relaxed)] = position;
}

// Called by one thread. False when the run was given up, by this worker or another.
__device__ inline bool wait_until_ready(DependencyCounters<DeviceSync>& counters, const Task& task,
                                        std::uint32_t position, const DeviceRun& run) {
  if (counters.is_ready(task)) return true;
  constexpr int kPollsPerRound = 64;  // between two looks at the clock
  const std::uint64_t begin = global_ns();
  for (;;) {
    for (int poll = 0; poll < kPollsPerRound; ++poll) {
      if (counters.is_ready(task)) return true;
      __nanosleep(20);
    }
    const bool others_gave_up =
        AtomicWord(run.header->given_up).load(::cuda::memory_order_relaxed) != 0;
    if (others_gave_up || global_ns() - begin > run.wait_budget_ns) {
      give_up(counters, task, position, run);
      return false;
    }
  }
}

template <class Kernel>
__device__ __forceinline__ void run_task(const TaskArgs& args, const Task& task,
                                         std::byte* shared) {
  switch (task.kind) {
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
  }
}

/// Programmatic dependent launch (sm_90): blocks of a kernel that was launched so may start before
/// the kernel in front of it has ended, as soon as all blocks of that one have called
/// let_next_start(); wait_for_kernel_before() then waits for its end and its stores. Both do
/// nothing for kernels launched otherwise. Called in this order, they see to it that all that came
/// before the one in front has ended when a kernel starts.
__device__ inline void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}
__device__ inline void let_next_start() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, Kernel::kBlocksPerSm)
    megakernel(const __grid_constant__ TaskArgs args, const DeviceRun run) {
  extern __shared__ __align__(128) std::byte shared[];
  // What outlives a task is kept here: registers are for the task.
  __shared__ Task task;
  __shared__ std::uint32_t epoch, position;
  __shared__ std::uint64_t fetch_ns, ready_ns;
  constexpr std::uint32_t kNone = 0xffffffffu;
  const bool leader = threadIdx.x == 0;
  wait_for_kernel_before();
  let_next_start();

  if (leader) epoch = attach(*run.header, run.counters, run.num_counters, run.plan_word);
  __syncthreads();
  const auto counters = [&] {
    const std::uint32_t overshoot = run.dispatch == Dispatch::persistent ? gridDim.x : 0;
    return DependencyCounters<DeviceSync>(&run.header->ticket, run.counters, epoch, run.num_tasks,
                                          overshoot);
  };
  const auto take = [&] {
    return run.dispatch == Dispatch::raw_index ? blockIdx.x : counters().take_position();
  };

  std::uint32_t next = leader ? take() : 0;  // the leader's
  do {
    if (leader) {
      position = kNone;
      if (next < run.num_tasks) {
        if (run.trace != nullptr) fetch_ns = global_ns();
        task = run.tasks[next];
        auto own_counters = counters();
        if (wait_until_ready(own_counters, task, next, run)) position = next;
        if (run.trace != nullptr) ready_ns = global_ns();
      }
    }
    __syncthreads();
    if (position == kNone) break;
    run_task<Kernel>(args, task, shared);
    __syncthreads();
    // Not before: whoever is at a long task would keep others from the next one.
    if (leader && run.dispatch == Dispatch::persistent) next = take();
    counters().signal(task, threadIdx.x, Kernel::kThreads);
    if (leader && run.trace != nullptr) {
      run.trace[position] = {fetch_ns, ready_ns, global_ns(), sm_id()};
    }
    __syncthreads();  // `task` and `position` are read before the leader overwrites them
  } while (run.dispatch == Dispatch::persistent);
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

/// Whether they do so only where they need what it wrote. What else they read must be there when
/// that one lets them start: it must be of the same run, and have waited first.
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
  extern __shared__ __align__(128) std::byte shared[];
  if constexpr (!(waits_itself<Kernel>(kKinds) && ...)) wait_for_kernel_before();
  let_next_start();
  const Task& task = tasks[blockIdx.x];
  ((task.kind == kKinds ? Kernel::template run<kKinds>(args, task, shared) : void()), ...);
}

}  // namespace megaconv::cuda
