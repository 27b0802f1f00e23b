// SPDX-License-Identifier: Apache-2.0
// Kernels whose blocks begin a task while they end the one before: Kernel::multiply() shares the
// work of every task out to the warps of a block, and takes tasks from a source
// (tasks/cuda/task_stream.cuh). Tasks that make operands of tensors, which Kernel::run() computes,
// all stand in front of these.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/cuda/kernel_set.cuh"
#include "runtime/cuda/megakernel.cuh"
#include "tasks/cuda/task_stream.cuh"

namespace megaconv::cuda {

/// Source: every gridDim.x-th task. What they read is there before the kernel starts.
class TasksInTurn {
 public:
  static constexpr bool kWaits = false;
  __device__ TasksInTurn(const Task* tasks, std::uint32_t num_tasks)
      : tasks_(tasks), num_tasks_(num_tasks), next_(blockIdx.x) {
    look_ahead();
  }
  __device__ bool repeats() const { return num_tasks_ > gridDim.x; }
  __device__ bool has_only() const { return !repeats() && blockIdx.x < num_tasks_; }
  __device__ Task only() const { return ahead_; }
  __device__ bool next(TakenTask& taken) {
    if (next_ >= num_tasks_) return false;
    taken.task = ahead_;
    next_ += gridDim.x;
    look_ahead();
    return true;
  }
  __device__ std::uint64_t now() const { return 0; }
  __device__ void finish(const TakenTask&, std::uint64_t) const {}

 private:
  __device__ void look_ahead() {
    if (next_ < num_tasks_) ahead_ = tasks_[next_];
  }

  const Task* tasks_;
  std::uint32_t num_tasks_, next_;
  Task ahead_;
};

/// Source: positions of the task array by tickets, or the one that a block has.
class TasksByTicket {
 public:
  static constexpr bool kWaits = true;
  using Counters = DependencyCounters<DeviceSync>;

  /// Called by all threads of a block, of which one calls next(). `leads`: whether it is this one.
  __device__ TasksByTicket(const DeviceRun& run, std::uint32_t epoch, bool leads)
      : run_(run),
        counters_(&run.header->ticket, run.counters, epoch, run.num_tasks,
                  run.dispatch == Dispatch::persistent ? gridDim.x : 0) {
    if (leads) next_ = run.dispatch == Dispatch::raw_index ? blockIdx.x : counters_.take_position();
  }

  __device__ bool repeats() const {
    return run_.dispatch == Dispatch::persistent && run_.num_tasks - run_.num_making > gridDim.x;
  }
  __device__ bool has_only() const { return false; }
  __device__ Task only() const { return {}; }
  /// The next task, if it is one of those that make operands.
  __device__ bool next_making(TakenTask& taken) {
    take();
    return next_ < run_.num_making && next(taken);
  }
  __device__ bool next(TakenTask& taken) {
    take();
    if (next_ >= run_.num_tasks) return false;
    if (run_.trace != nullptr) taken.fetch_ns = global_ns();
    taken.position = next_;
    taken.task = run_.tasks[next_];
    has_next_ = false;
    // A counter that has been waited for stays complete.
    if (taken.task.wait_counter != complete_) {
      if (!wait_until_ready(counters_, taken.task, taken.position, run_)) {
        next_ = run_.num_tasks, has_next_ = true;
        return false;
      }
      complete_ = taken.task.wait_counter;
    }
    if (run_.trace != nullptr) taken.ready_ns = global_ns();
    return true;
  }
  __device__ std::uint64_t now() const { return run_.trace != nullptr ? global_ns() : 0; }
  /// A task that was taken ahead waits for nothing as long as the one before runs.
  __device__ void finish(const TakenTask& taken, std::uint64_t free_ns) const {
    if (run_.trace == nullptr) return;
    run_.trace[taken.position] = {max(taken.fetch_ns, free_ns), max(taken.ready_ns, free_ns),
                                  global_ns(), sm_id()};
  }
  __device__ Counters& counters() { return counters_; }

 private:
  __device__ void take() {
    if (has_next_) return;
    next_ = run_.dispatch == Dispatch::persistent ? counters_.take_position() : run_.num_tasks;
    has_next_ = true;
  }

  const DeviceRun& run_;
  Counters counters_;
  std::uint32_t next_ = 0, complete_ = kNoCounter;
  bool has_next_ = true;
};

/// A stage: blocks take tasks in turn.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, 1)
    stream_stage_kernel(const __grid_constant__ TaskArgs args, const Task* tasks,
                        std::uint32_t num_tasks) {
  extern __shared__ __align__(128) std::byte shared[];
  let_next_start();
  if constexpr (Kernel::kLooks) {
    Kernel::multiply_and_look(args, tasks, num_tasks, shared, [] { wait_for_kernel_before(); });
  } else {
    TasksInTurn source(tasks, num_tasks);
    Kernel::multiply(args, args.x_scale, source, Kernel::open(args, shared),
                     [] { wait_for_kernel_before(); });
  }
}

/// The persistent kernel. Blocks as a whole make operands before they multiply: memory is what
/// limits that, and takes all of a multiprocessor's warps to be busy.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, 1)
    stream_kernel(const __grid_constant__ TaskArgs args, const __grid_constant__ DeviceRun run) {
  extern __shared__ __align__(128) std::byte shared[];
  __shared__ std::uint32_t epoch;
  const bool leader = threadIdx.x == 0;
  let_next_start();
  const auto opened = Kernel::open(args, shared);
  wait_for_kernel_before();
  if (leader) epoch = attach(*run.header, run.counters, run.num_counters, run.plan_word);
  __syncthreads();
  TasksByTicket source(run, epoch, leader);
  if constexpr (Kernel::kMakesOperands) {
    // Shared variables are not initialised, as a TakenTask would be.
    __shared__ alignas(TakenTask) std::byte room[sizeof(TakenTask)];
    __shared__ bool exists;
    TakenTask& taken = reinterpret_cast<TakenTask&>(room);
    for (;;) {
      if (leader) exists = source.next_making(taken);
      __syncthreads();
      if (!exists) break;
      run_task<Kernel>(args, taken.task, shared);
      __syncthreads();
      source.counters().signal(taken.task, threadIdx.x, Kernel::kThreads);
      if (leader) source.finish(taken, 0);
      __syncthreads();  // `taken` is read before it is overwritten
    }
  }
  Kernel::multiply(args, args.x_scale, source, opened, [] {});
  __syncthreads();
  if (leader) detach(*run.header, gridDim.x);
}

/// Tasks of one kind, whose stage is a stream.
template <TaskKind kKind>
struct StreamingStage {
  template <class Kernel>
  static void add_to(KernelSet& set) {
    constexpr int kIndex = static_cast<int>(kKind);
    set.stage[kIndex] = reinterpret_cast<const void*>(&stream_stage_kernel<Kernel>);
    set.streams[kIndex] = true;
    set.clusters[kIndex] = Kernel::kClusters;
    set.reads_ahead[kIndex] = reads_ahead<Kernel>(kKind);
    set.shared_bytes[kIndex] = Kernel::shared_bytes(kKind);
    set.most_shared_bytes = std::max(set.most_shared_bytes, set.shared_bytes[kIndex]);
  }
};

/// make_kernel_set() (kernel_set.cuh), with this persistent kernel.
template <class Kernel, class... Stages>
KernelSet make_streaming_kernel_set(std::string name) {
  return make_kernel_set<Kernel, Stages...>(std::move(name),
                                            reinterpret_cast<const void*>(&stream_kernel<Kernel>));
}

}  // namespace megaconv::cuda
