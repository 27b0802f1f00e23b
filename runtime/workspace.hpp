// SPDX-License-Identifier: Apache-2.0
// Where everything lies in a run's workspace, and who may use it.
//
//   | header | counters | pointers | arguments | workers | buffers that nobody gives | scratch |
//
// Buffers that nobody gives are U, V, M and tensors between operators. Pointers are where the
// graph's buffers lie in this run, and then lists of them; arguments are the tasks', by node;
// workers are those of runtime/cpu_run.hpp.
//
// runtime/lease.hpp says who may use it, and when its counters are begun afresh.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/counters.hpp"
#include "runtime/lease.hpp"

namespace megaconv {

/// Words in plain memory, shared by the threads of one process.
struct LeaseSync {
  using Word = std::uint64_t;
  using Number = HostSync::Cell;
  static std::uint64_t load_relaxed(Word& word) {
    return std::atomic_ref(word).load(std::memory_order_relaxed);
  }
  static bool compare_exchange(Word& word, std::uint64_t& seen, std::uint64_t value) {
    return std::atomic_ref(word).compare_exchange_weak(seen, value, std::memory_order_acquire,
                                                       std::memory_order_relaxed);
  }
  static void store_release(Word& word, std::uint64_t value) {
    std::atomic_ref(word).store(value, std::memory_order_release);
  }
  static std::uint32_t read(const Number& number) { return number; }
  static void write(Number& number, std::uint32_t value) { number = value; }
};

using WorkspaceHeader = LeaseHeader<LeaseSync>;

/// Byte offsets of the parts, all multiples of 64.
struct WorkspaceLayout {
  std::size_t counters = 0, pointers = 0, arguments = 0, workers = 0, scratch = 0;
  std::vector<std::size_t> buffers;  ///< by buffer of the graph; 0: not in the workspace
  std::size_t scratch_stride = 0;    ///< bytes per worker
  std::size_t total = 0;
};

/// A lease for as long as this lives.
class WorkspaceLease {
 public:
  /// `plan_word`: that of the plan. `counter_totals`: those of the graph. Throws
  /// Error(invalid_argument) when another run is using the workspace.
  WorkspaceLease(void* workspace, const WorkspaceLayout& layout, std::uint64_t plan_word,
                 std::span<const std::uint32_t> counter_totals);
  ~WorkspaceLease() { lease_.give_back(completed_); }
  WorkspaceLease(const WorkspaceLease&) = delete;
  WorkspaceLease& operator=(const WorkspaceLease&) = delete;

  void set_completed() noexcept { completed_ = true; }
  std::uint32_t epoch() const noexcept { return lease_.epoch(); }

 private:
  Lease<LeaseSync> lease_;
  bool completed_ = false;
};

}  // namespace megaconv
