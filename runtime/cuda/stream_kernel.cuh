// SPDX-License-Identifier: Apache-2.0
// Kernels whose blocks begin a task while they end the one before: Kernel::multiply() shares the
// work of every task out to the warps of a block, and takes tasks from a source
// (tasks/cuda/task_stream.cuh). Tasks that make operands of tensors, which Kernel::run() computes,
// all stand in front of these.
#pragma once

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "runtime/cuda/kernel_set.cuh"
#include "runtime/cuda/megakernel.cuh"
#include "tasks/cuda/task_stream.cuh"
#include "tasks/cuda/tensor_copy.cuh"

namespace megaconv::cuda {

/// Source: every gridDim.x-th task. What they read is there before the kernel starts, and who needs
/// them starts when it has ended.
class TasksInTurn {
 public:
  static constexpr bool kSignals = false, kTakesAllShares = false;
  /// By all threads of a block, before a barrier.
  __device__ TasksInTurn(const Task* tasks, std::uint32_t num_tasks)
      : tasks_(tasks), num_tasks_(num_tasks), next_(blockIdx.x) {
    if (threadIdx.x >= 64) return;
    read_ahead();
    if (threadIdx.x < 32) return;  // it does not wait for what it reads
    __syncwarp();
    if (has_only() && threadIdx.x == 32) shared_only() = ahead_;
  }
  __device__ bool repeats() const { return num_tasks_ > gridDim.x; }
  __device__ bool has_only() const { return !repeats() && blockIdx.x < num_tasks_; }
  __device__ Task only() const { return std::bit_cast<Task>(shared_only()); }
  /// The same, which the first two warps have read themselves.
  __device__ Task first() const { return std::bit_cast<Task>(ahead_); }
  /// Called by one thread, of the first warp.
  __device__ bool next(TakenTask& taken) {
    if (next_ >= num_tasks_) return false;
    taken.task = std::bit_cast<Task>(ahead_);
    next_ += gridDim.x;
    read_ahead();
    return true;
  }
  __device__ void before_tma() const {}
  __device__ std::uint64_t now() const { return 0; }
  __device__ void record(const TakenTask&, std::uint64_t) const {}

 private:
  __device__ void read_ahead() {
    if (next_ < num_tasks_) ahead_ = reinterpret_cast<const Words*>(tasks_)[next_];
  }

  // A task in whole words: fields of 16 bits would be taken apart and put together again, and an
  // array would stay in memory.
  struct Words {
    std::uint32_t kind = 0, group = 0, block = 0, wait_counter = kNoCounter, wait_count = 0,
                  first_signal = 0, num_signals = 0, node = kNoCounter;
  };
  static_assert(sizeof(Words) == sizeof(Task));

  // In registers, it would take some of every thread until its first use.
  static __device__ Words& shared_only() {
    __shared__ Words only;
    return only;
  }

  const Task* tasks_;
  std::uint32_t num_tasks_, next_;
  Words ahead_;
};

/// The same of blocks that are in no cluster: each takes all shares of a task's channels.
class WholeTasksInTurn : public TasksInTurn {
 public:
  static constexpr bool kTakesAllShares = true;
  using TasksInTurn::TasksInTurn;
};

/// Source: positions of the task array by tickets, or the one that a block has. Behind those of
/// `first`, which the thread that calls next() has taken.
class TasksByTicket {
 public:
  static constexpr bool kSignals = true, kTakesAllShares = true;
  __device__ TasksByTicket(const Worker& worker, std::uint32_t first)
      : worker_(worker), next_(first) {}

  __device__ bool repeats() const {
    const DeviceRun& run = worker_.run();
    return run.dispatch == Dispatch::persistent && run.num_tasks - run.num_making > gridDim.x;
  }
  __device__ bool has_only() const { return false; }
  __device__ Task only() const { return {}; }
  __device__ Task first() const { return {}; }
  __device__ bool next(TakenTask& taken) {
    const std::uint32_t num_tasks = worker_.run().num_tasks;
    if (!has_next_) next_ = worker_.next_position();
    has_next_ = next_ >= num_tasks || !worker_.fetch(next_, taken, complete_);
    if (has_next_) {
      next_ = num_tasks;  // for good
      return false;
    }
    complete_ = taken.task.wait_counter;
    return true;
  }
  __device__ void before_tma() const { order_tma_after_acquire(); }
  /// The barrier comes between the stores of all threads and the signals of any.
  template <class Barrier>
  __device__ void signal(const Task& task, std::uint32_t thread, std::uint32_t num_threads,
                         Barrier barrier) const {
    if (task.num_signals == 0) return;
    finish_stores();
    barrier();
    worker_.signal(task, thread, num_threads);
  }
  __device__ std::uint64_t now() const { return worker_.now(); }
  __device__ void record(const TakenTask& taken, std::uint64_t free_ns) const {
    worker_.record(taken, free_ns);
  }

 private:
  const Worker worker_;
  std::uint32_t next_, complete_ = kNoCounter;
  bool has_next_ = true;
};

/// A stage: blocks take tasks in turn.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, 1)
    stream_stage_kernel(const __grid_constant__ TaskArgs args, const Task* tasks,
                        std::uint32_t num_tasks) {
  extern __shared__ __align__(kSwizzleSpan) std::byte shared[];
  let_next_start();
  if constexpr (Kernel::kChecksScales) {
    Kernel::multiply_and_check(args, tasks, num_tasks, shared, [] { wait_for_kernel_before(); });
  } else {
    TasksInTurn source(tasks, num_tasks);
    const auto opened = Kernel::open(args, shared);
    if (reads_ahead<Kernel>(TaskKind::direct) && args.waits_for_x) wait_for_kernel_before();
    Kernel::multiply(args, args.x_scale, source, opened, [] { wait_for_kernel_before(); });
  }
}

/// The persistent kernel. Blocks as a whole make operands before they multiply: memory is what
/// limits that, and takes all of an SM's warps to be busy.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, 1)
    stream_kernel(const __grid_constant__ TaskArgs args, const __grid_constant__ DeviceRun run) {
  extern __shared__ __align__(kSwizzleSpan) std::byte shared[];
  __shared__ std::uint32_t epoch;
  const bool leader = threadIdx.x == 0;
  let_next_start();
  const auto opened = Kernel::open(args, shared);
  wait_for_kernel_before();
  if (leader) epoch = attach(*run.header, run.counters, run.num_counters, run.plan_word);
  __syncthreads();
  const Worker worker(run, epoch);
  std::uint32_t first = 0;  // the leader's
  if constexpr (Kernel::kMakesOperands) {
    first = run_whole_tasks<Kernel>(args, worker, run.num_making, shared);
  } else if (leader) {
    first = worker.first_position();
  }
  TasksByTicket source(worker, first);
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
    set.shared_bytes[kIndex] = Kernel::shared_bytes(kKind);
    set.most_shared_bytes = std::max(set.most_shared_bytes, set.shared_bytes[kIndex]);
  }
};

/// make_kernel_set() (kernel_set.cuh), with this persistent kernel.
template <class Kernel, class... Stages>
KernelSet make_streaming_kernel_set(std::string name) {
  KernelSet set = make_kernel_set<Kernel, Stages...>(
      std::move(name), reinterpret_cast<const void*>(&stream_kernel<Kernel>));
  set.makes_operands_first = true;
  return set;
}

}  // namespace megaconv::cuda
