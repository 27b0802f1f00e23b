// SPDX-License-Identifier: Apache-2.0
// The dependency protocol: the only file of the CPU runtime that names a memory order.
//
// Every run of a plan is one epoch of the same cells; nothing is reset between runs. A counter that
// receives `total` signals a run holds `epoch * total` before the run and `(epoch + 1) * total`
// after it, modulo 2^32, and a task is ready when its counter has reached the latter. The same
// holds for tickets: `workers` of them overshoot in every run, so an epoch uses `num_tasks +
// workers`.
//
//   worker                                       another worker
//   ------                                       --------------
//   run task (writes V)
//   add_release(counter, 1)   -- synchronises --> load_acquire(counter) == target
//                                                 run task (reads V)
//
// All signals of a counter are read-modify-write, so they continue each other's release sequence
// (C++20 [intro.races]) and one acquire load that sees the last of them orders after all of them.
// Tickets order nothing: they are relaxed.
//
// No deadlock: positions are taken in order and every producer stands before its consumers
// (validate()), so the smallest unfinished position that a worker holds only waits for finished
// tasks.
//
// `Sync` supplies the cell and its four operations, so that the same text runs on std::atomic_ref,
// under a model checker (tests/runtime/counters.relacy.cpp) and, with device-scope atomics, on a
// GPU.
#pragma once

#include <atomic>
#include <cstdint>

#include "megaconv/graph.hpp"

#if defined(__CUDACC__)
#define MEGACONV_HOST_DEVICE __host__ __device__
#else
#define MEGACONV_HOST_DEVICE
#endif

namespace megaconv {

/// Cells in plain memory, shared by the threads of one process.
struct HostSync {
  using Cell = std::uint32_t;
  static std::uint32_t load_relaxed(Cell& cell) {
    return std::atomic_ref(cell).load(std::memory_order_relaxed);
  }
  static std::uint32_t load_acquire(Cell& cell) {
    return std::atomic_ref(cell).load(std::memory_order_acquire);
  }
  static void add_release(Cell& cell, std::uint32_t value) {
    std::atomic_ref(cell).fetch_add(value, std::memory_order_release);
  }
  static std::uint32_t fetch_add_relaxed(Cell& cell, std::uint32_t value) {
    return std::atomic_ref(cell).fetch_add(value, std::memory_order_relaxed);
  }
};

/// One epoch of a plan's cells, as its workers see it.
template <class Sync>
class DependencyCounters {
 public:
  using Cell = typename Sync::Cell;

  /// `ticket`: one cell, first_ticket() before the epoch; `counters`: one cell per counter of the
  /// graph. All zero before epoch 0.
  MEGACONV_HOST_DEVICE DependencyCounters(Cell* ticket, Cell* counters, std::uint32_t epoch,
                                          std::uint32_t num_tasks, std::uint32_t num_workers)
      : ticket_(ticket),
        counters_(counters),
        epoch_(epoch),
        first_ticket_(epoch * (num_tasks + num_workers)) {}

  MEGACONV_HOST_DEVICE std::uint32_t first_ticket() const { return first_ticket_; }

  /// The next position of the mapping; at or past num_tasks the worker is done.
  MEGACONV_HOST_DEVICE std::uint32_t take_position() {
    return Sync::fetch_add_relaxed(*ticket_, 1) - first_ticket_;
  }

  /// Positions handed out so far (for reports).
  MEGACONV_HOST_DEVICE std::uint32_t positions_taken() {
    return Sync::load_relaxed(*ticket_) - first_ticket_;
  }

  /// Signals that `counter` has received in this epoch, of `total` in all.
  MEGACONV_HOST_DEVICE std::uint32_t received(std::uint32_t counter, std::uint32_t total) {
    return Sync::load_relaxed(counters_[counter]) - epoch_ * total;
  }

  /// Whether all producers of `task` have signalled; if so, their writes are visible to the caller.
  MEGACONV_HOST_DEVICE bool is_ready(const Task& task) {
    if (task.wait_counter == kNoCounter) return true;
    Cell& cell = counters_[task.wait_counter];
    const std::uint32_t target = (epoch_ + 1) * task.wait_count;
    return Sync::load_relaxed(cell) == target && Sync::load_acquire(cell) == target;
  }

  /// The same in one read, for who polls alone.
  MEGACONV_HOST_DEVICE bool is_ready_now(const Task& task) {
    if (task.wait_counter == kNoCounter) return true;
    return Sync::load_acquire(counters_[task.wait_counter]) == (epoch_ + 1) * task.wait_count;
  }

  /// Publishes what `task` wrote, and that it no longer reads anything. `signals`: those of the
  /// graph. The threads of a GPU worker share the signals among them: each calls this with its own
  /// `thread` after their common barrier.
  MEGACONV_HOST_DEVICE void signal(const Task& task, const SignalRange* signals,
                                   std::uint32_t thread = 0, std::uint32_t num_threads = 1) {
    for (std::uint32_t i = 0; i < task.num_signals; ++i) {
      const SignalRange range = signals[task.first_signal + i];
      for (std::uint32_t c = thread; c < range.count; c += num_threads) {
        Sync::add_release(counters_[range.first + c], 1);
      }
    }
  }

 private:
  Cell* ticket_;
  Cell* counters_;
  std::uint32_t epoch_;
  std::uint32_t first_ticket_;
};

}  // namespace megaconv
