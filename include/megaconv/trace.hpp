// SPDX-License-Identifier: Apache-2.0
// What a run really did: one record per task, and what can be read from them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "megaconv/mapping.hpp"

namespace megaconv {

/// Times are nanoseconds since the run began.
struct TraceRecord {
  std::uint32_t position = 0;  ///< in the mapping
  std::uint32_t worker = 0;    ///< CPU worker, or SM
  std::uint64_t fetch_ns = 0;  ///< the worker took the position
  std::uint64_t ready_ns =
      0;                     ///< its last producer had signalled; ready - fetch is the waiting time
  std::uint64_t end_ns = 0;  ///< it had signalled in turn
};

/// Records of one run, by position of the mapping.
struct Trace {
  std::vector<TraceRecord> records;
  std::uint32_t num_workers = 0;
};

/// Waiting of tasks of one kind for signals of another: of those that waited, the signal that came
/// last is the cause.
struct EdgeWait {
  TaskKind from = TaskKind::filter_transform, to = TaskKind::gemm;
  bool slot = false;      ///< the signal freed memory instead of bringing data
  std::uint64_t num = 0;  ///< tasks that waited
  double us = 0;          ///< all of them together
};

struct KindTimes {
  std::uint64_t num = 0;
  double work_us = 0, wait_us = 0;  ///< all tasks of the kind together
  std::uint64_t infusible = 0;      ///< of num: ran (nearly) only beside tasks of their own kind
};

struct TraceAnalysis {
  double span_us = 0;        ///< from the first fetch to the last end
  std::uint32_t tracks = 0;  ///< most tasks at the same time: workers that were there
  double idle_us = 0;        ///< of all tracks, neither work nor wait
  std::array<KindTimes, kNumTaskKinds> kinds{};
  std::vector<EdgeWait> waits;        ///< the longest first; without those that never happened
  std::uint64_t peak_live_bytes = 0;  ///< slots of V and M between first write and last read
};

/// Throws Error(invalid_argument) unless the trace has one record for each position of the mapping,
/// with times in order.
TraceAnalysis analyse(const Lowering& lowering, const Trace& trace);

/// Throws what analyse() throws.
void check_trace(const Lowering& lowering, const Trace& trace);

/// By counter of the graph: the position of the task that signalled it last; 0xffffffff for none.
std::vector<std::uint32_t> last_producers(const Lowering& lowering, const Trace& trace);

/// Bytes of V and M that are in use from a time on: a group's slot from its first write to its last
/// read. By time; empty for a graph without V and M.
struct LiveBytes {
  std::uint64_t ns = 0, bytes = 0;
};
std::vector<LiveBytes> live_bytes(const Lowering& lowering, const Trace& trace);

/// The order in which the tasks really began to work, as an order for the same graph. It is right
/// (validate()) whenever the run was: a task begins after its producers ended.
TaskMapping replay(const Lowering& lowering, const Trace& trace);

}  // namespace megaconv
