// SPDX-License-Identifier: Apache-2.0
// What a worker (thread block) of a persistent kernel does between tasks, the same in every such
// kernel: take a position, fetch its task and wait for its producers, signal its consumers, record
// its times, and give up.
//
//   one thread    position = worker.first_position(), then worker.next_position()
//   that thread   worker.fetch(position, taken)       false: the run was given up
//   its block     runs the task, which stores
//   all stored    finish_stores(); barrier            device_sync.cuh says why
//   all of these  worker.signal(task, thread, num_threads)
//   one thread    worker.record(taken, ...)
//
// That the smallest unfinished position always runs (runtime/counters.hpp) asks one thing of a
// kernel that fetches tasks ahead: no task that its block took earlier may need the thread that
// waits in fetch(), up to its signals.
#pragma once

#include <cstdint>

#include "runtime/cuda/device_sync.cuh"
#include "tasks/cuda/task_stream.cuh"

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

/// Holds two references, to constant and to shared memory: kept across tasks it costs no register.
class Worker {
 public:
  /// `run`: the kernel's parameter. `epoch`: what attach() returned, in shared memory, written
  /// before a barrier of the block.
  __device__ Worker(const DeviceRun& run, const std::uint32_t& epoch) : run_(run), epoch_(epoch) {}

  __device__ const DeviceRun& run() const { return run_; }

  /// The worker's first position; at or past num_tasks it has none.
  __device__ std::uint32_t first_position() const {
    return run_.dispatch == Dispatch::raw_index ? blockIdx.x : counters().take_position();
  }
  /// The next one, for a worker that is ready for it: who took one earlier would keep it from
  /// others that have nothing to do.
  __device__ std::uint32_t next_position() const {
    return run_.dispatch == Dispatch::persistent ? counters().take_position() : run_.num_tasks;
  }

  /// The task at a position, its producers done. False when the run was given up, by this worker or
  /// another. `complete`: a counter that this thread has waited for; it stays complete.
  __device__ bool fetch(std::uint32_t position, TakenTask& taken,
                        std::uint32_t complete = kNoCounter) const {
    if (run_.trace != nullptr) taken.fetch_ns = global_ns();
    taken.position = position;
    taken.task = run_.tasks[position];
    if (taken.task.wait_counter != complete && !wait_until_ready(taken.task, position)) {
      return false;
    }
    if (run_.trace != nullptr) taken.ready_ns = global_ns();
    return true;
  }

  /// Waits for a task's producers. False when the run was given up, by this worker or another.
  __device__ bool wait_until_ready(const Task& task, std::uint32_t position) const {
    Counters counters = this->counters();
    return wait_for(task, position, [&] { return counters.is_ready(task); });
  }
  /// The same with acquire loads alone: the end of the wait is seen a trip to the L2 cache earlier,
  /// but every poll empties the L1 cache.
  __device__ bool wait_with_acquire(const Task& task, std::uint32_t position) const {
    Counters counters = this->counters();
    return wait_for(task, position, [&] { return counters.is_ready_now(task); });
  }

  /// Publishes what a task stored, and that it no longer reads anything. Called by `num_threads`
  /// threads behind a barrier of all that stored or read.
  __device__ void signal(const Task& task, std::uint32_t thread, std::uint32_t num_threads) const {
    counters().signal(task, run_.signals, thread, num_threads);
  }

  /// For a trace: nanoseconds, or 0.
  __device__ std::uint64_t now() const { return run_.trace != nullptr ? global_ns() : 0; }
  /// The end of a task. One that was fetched ahead waits for nothing until `free_ns`, while the one
  /// before it runs. Called by one thread.
  __device__ void record(const TakenTask& taken, std::uint64_t free_ns = 0) const {
    if (run_.trace == nullptr) return;
    DeviceTraceRecord& record = run_.trace[taken.position];
    record.fetch_ns = max(taken.fetch_ns, free_ns);
    record.ready_ns = max(taken.ready_ns, free_ns);
    record.end_ns = global_ns();
    record.sm = sm_id();
  }

 private:
  using Counters = DependencyCounters<DeviceSync>;

  __device__ Counters counters() const {
    const std::uint32_t overshoot = run_.dispatch == Dispatch::persistent ? gridDim.x : 0;
    return Counters(&run_.header->ticket, run_.counters, epoch_, run_.num_tasks, overshoot);
  }

  template <class IsReady>
  __device__ bool wait_for(const Task& task, std::uint32_t position, IsReady is_ready) const {
    if (is_ready()) return true;
    constexpr int kPollsPerRound = 64;  // between two readings of the clock
    const std::uint64_t begin = global_ns();
    for (;;) {
      for (int poll = 0; poll < kPollsPerRound; ++poll) {
        if (is_ready()) return true;
        __nanosleep(20);
      }
      const bool others_gave_up = DeviceSync::load_relaxed(run_.header->given_up) != 0;
      if (others_gave_up || global_ns() - begin > run_.wait_budget_ns) {
        give_up(task, position);
        return false;
      }
    }
  }

  // Leaves word of a task that will not run.
  __device__ void give_up(const Task& task, std::uint32_t position) const {
    Counters counters = this->counters();
    DeviceHeader& header = *run_.header;
    if (DeviceSync::exchange_relaxed(header.given_up, 1) == 0) {
      header.position = position;
      header.seen = counters.received(task.wait_counter, task.wait_count);
      header.positions_taken = counters.positions_taken();
    }
    run_.waiting[DeviceSync::fetch_add_relaxed(header.num_waiting, 1)] = position;
  }

  const DeviceRun& run_;
  const std::uint32_t& epoch_;
};

}  // namespace megaconv::cuda
