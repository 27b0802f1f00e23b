// SPDX-License-Identifier: Apache-2.0
// What orders the tasks of a GPU: the only device file that names a memory order, and that has the
// fences between a task and those that need it.
//
// Between tasks of a persistent kernel (worker.cuh), of which one thread writes, another block's
// thread reads:
//
//   store                        ordinary: st.global
//                                by TMA:   cp.async.bulk.tensor.global.shared::cta, commit_group
//   finish_stores()              by TMA: the thread that issued it waits for its end
//   barrier of all that stored   __syncthreads(), or fewer threads
//   DeviceSync::add_release()    by any thread behind that barrier
//      |
//   DeviceSync::load_acquire()   by one thread, which sees the last signal of its counter
//   barrier                      __syncthreads(), or an mbarrier that hands the task on
//   order_tma_after_acquire()    by TMA: the thread that will issue it
//   load                         ordinary: ld.global
//                                by TMA:   cp.async.bulk.tensor.shared::cluster.global
//
// Why that is enough (PTX ISA, "Memory Consistency Model", "Causality Order"): barriers and
// release-acquire pairs are links of one chain, whichever threads they belong to, so that ordinary
// stores of all threads in front of it are seen behind it. Two things are not part of such a chain:
//
// - An asynchronous store is no store of the thread that issues it. It becomes one in effect when
//   that thread has waited for its bulk group (PTX ISA, "cp.async.bulk.wait_group": without .read,
//   the writes have been made visible to the executing thread). No other thread can wait for it.
// - TMA reads and writes global memory by another path, the async proxy. Where one side of a chain
//   takes this path and the other the ordinary one, the generic proxy, a fence between the two is
//   due (PTX ISA, "Async proxy" and "fence.proxy.async"). Only the end of a bulk copy has one by
//   itself, so what TMA has stored needs none for ordinary loads.
//
// Bodies that a block runs as a whole have these fences themselves, since they are the same code in
// a kernel of a stage: publish_to_copy_engine() behind ordinary stores, and a fence before the
// first copy (tasks/cuda/block_pipeline.cuh, tasks/implicit_gemm/cuda/loaded_load.cuh).
//
// Between kernels, the end of one and wait_for_kernel_before() order everything.
#pragma once

#include <cstdint>
#include <cuda/atomic>
#include <cuda/ptx>

#include "runtime/counters.hpp"
#include "runtime/cuda/device_run.hpp"

namespace megaconv::cuda {

/// One thread of a worker (thread block) waits for all of it; any of its threads may signal.
struct DeviceSync {
  using Cell = std::uint32_t;
  using Atomic = ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_device>;
  static __device__ std::uint32_t load_relaxed(Cell& cell) {
    return Atomic(cell).load(::cuda::memory_order_relaxed);
  }
  static __device__ std::uint32_t load_acquire(Cell& cell) {
    return Atomic(cell).load(::cuda::memory_order_acquire);
  }
  static __device__ void add_release(Cell& cell, std::uint32_t value) {
    Atomic(cell).fetch_add(value, ::cuda::memory_order_release);
  }
  static __device__ std::uint32_t fetch_add_relaxed(Cell& cell, std::uint32_t value) {
    return Atomic(cell).fetch_add(value, ::cuda::memory_order_relaxed);
  }
  static __device__ std::uint32_t exchange_relaxed(Cell& cell, std::uint32_t value) {
    return Atomic(cell).exchange(value, ::cuda::memory_order_relaxed);
  }
};

/// Orders a thread's copies by TMA after what other tasks have stored, ordinarily or by TMA. Called
/// by the thread that issues the copies, behind the acquire of its block: the acquire speaks for
/// the generic proxy only. sm_90.
__device__ inline void order_tma_after_acquire() { ::cuda::ptx::fence_proxy_async(); }

/// Completes what this thread has stored, ordinarily or by TMA (in bulk groups that it has
/// committed), for a release by a thread behind the next barrier. sm_90.
__device__ inline void finish_stores() {
  // All of the thread's groups, and not only their reads of shared memory (.read): a signal must
  // not overtake bytes that are still on their way.
  ::cuda::ptx::cp_async_bulk_wait_group(::cuda::ptx::n32_t<0>());
  // Ordinary stores before what others read by TMA. Those have a fence behind their acquire, and
  // one on the way is enough; with this one they need not know who stored what they read, and how.
  ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_global);
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

/// Owner word while one worker zeroes the cells of a workspace that held something else.
inline constexpr std::uint64_t kInitialising = 1;

/// Makes the workspace this plan's: the first worker that finds another owner zeroes the cells, the
/// others wait for it. Returns the epoch. Called by one thread of every worker.
inline __device__ std::uint32_t attach(DeviceHeader& header, DeviceSync::Cell* counters,
                                       std::uint32_t num_counters, std::uint64_t plan_word) {
  ::cuda::atomic_ref<std::uint64_t, ::cuda::thread_scope_device> owner(header.owner);
  std::uint64_t seen = owner.load(::cuda::memory_order_acquire);
  while (seen != plan_word) {
    if (seen != (plan_word | kInitialising) &&
        owner.compare_exchange_strong(seen, plan_word | kInitialising,
                                      ::cuda::memory_order_acq_rel)) {
      header.epoch = header.num_finished = header.ticket = 0;
      header.given_up = header.num_waiting = 0;
      for (std::uint32_t i = 0; i < num_counters; ++i) counters[i] = 0;
      owner.store(plan_word, ::cuda::memory_order_release);
      return 0;
    }
    seen = owner.load(::cuda::memory_order_acquire);
  }
  return header.epoch;
}

/// The last of `num_workers` workers to leave closes the epoch, or disowns the workspace when the
/// run was given up, so that the next one starts afresh. Called by one thread of every worker,
/// behind a barrier of all that signalled: the next run of the plan counts on from these cells.
inline __device__ void detach(DeviceHeader& header, std::uint32_t num_workers) {
  ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_device> finished(header.num_finished);
  if (finished.fetch_add(1, ::cuda::memory_order_acq_rel) + 1 != num_workers) return;
  header.num_finished = 0;
  ++header.epoch;
  if (header.given_up != 0) header.owner = 0;
}

}  // namespace megaconv::cuda
