// SPDX-License-Identifier: Apache-2.0
// The dependency protocol on a GPU: the only device file that names a memory order.
//
// One thread of a worker (thread block) talks to the counters for all of it. The block barrier
// makes that cumulative (PTX ISA, memory consistency model, causality order): the stores of all
// threads stand before the barrier, the barrier before thread 0's release, the release before
// another block's acquire, and that before its barrier and its loads. Data is read and written by
// ordinary accesses only; were it read by the asynchronous proxy (TMA), a fence.proxy.async would
// be due on both sides.
#pragma once

#include <cuda/atomic>

#include "runtime/counters.hpp"
#include "runtime/cuda/device_run.hpp"

namespace megaconv::cuda {

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
};

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
/// run was given up, so that the next one starts afresh. Called by one thread of every worker.
inline __device__ void detach(DeviceHeader& header, std::uint32_t num_workers) {
  ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_device> finished(header.num_finished);
  if (finished.fetch_add(1, ::cuda::memory_order_acq_rel) + 1 != num_workers) return;
  header.num_finished = 0;
  ++header.epoch;
  if (header.given_up != 0) header.owner = 0;
}

}  // namespace megaconv::cuda
