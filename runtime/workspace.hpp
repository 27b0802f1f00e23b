// SPDX-License-Identifier: Apache-2.0
// Where everything lies in a run's workspace, and who may use it.
//
//   | header | counters | pointers | arguments | workers | buffers that nobody gives | scratch |
//
// Buffers that nobody gives are U, V, M and tensors between operators. Pointers are where the
// graph's buffers lie in this run, and then lists of them; arguments are the tasks', by node;
// workers are those of runtime/cpu_run.hpp.
//
// A workspace is handed over as raw memory. The header's owner word says whose counters it holds. A
// plan that finds its own word and all counters as its last run left them continues with the next
// epoch. Otherwise it starts afresh at epoch 0: the caller may have used the memory in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/counters.hpp"

namespace megaconv {

struct WorkspaceHeader {
  alignas(64) std::uint64_t owner;  // (process key, plan id, in-use bit); anything else: nobody's
  std::uint32_t epoch;              // completed runs, modulo 2^32
};

/// Byte offsets of the parts, all multiples of 64.
struct WorkspaceLayout {
  std::size_t counters = 0, pointers = 0, arguments = 0, workers = 0, scratch = 0;
  std::vector<std::size_t> buffers;  ///< by buffer of the graph; 0: not in the workspace
  std::size_t scratch_stride = 0;    ///< bytes per worker
  std::size_t total = 0;
};

/// Exclusive use of one workspace for one run.
class WorkspaceLease {
 public:
  /// `plan_id`: below 2^31, unique in the process. `counter_totals`: those of the graph. Zeroes the
  /// counters when the workspace does not hold this plan's as they were left. Throws
  /// Error(invalid_argument) when another run is using it.
  WorkspaceLease(void* workspace, const WorkspaceLayout& layout, std::uint32_t plan_id,
                 std::span<const std::uint32_t> counter_totals);
  /// Counts the epoch when the run completed, else marks the cells as spent.
  ~WorkspaceLease();
  WorkspaceLease(const WorkspaceLease&) = delete;
  WorkspaceLease& operator=(const WorkspaceLease&) = delete;

  void set_completed() noexcept { completed_ = true; }
  std::uint32_t epoch() const noexcept { return header_->epoch; }

 private:
  WorkspaceHeader* header_;
  std::uint64_t idle_word_;
  bool completed_ = false;
};

}  // namespace megaconv
