// SPDX-License-Identifier: Apache-2.0
// What a run really did: one record per task, and what can be read from them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "megaconv/lowering.hpp"
#include "megaconv/task_phase.hpp"

namespace megaconv {

/// Times are nanoseconds since the run began.
struct TraceRecord {
  std::uint32_t position = 0;  ///< in the mapping
  std::uint32_t worker = 0;    ///< CPU worker, or SM
  std::uint64_t fetch_ns = 0;  ///< the worker took the position
  std::uint64_t ready_ns =
      0;                     ///< its last producer had signalled; ready - fetch is the waiting time
  std::uint64_t end_ns = 0;  ///< it had signalled in turn
  std::array<std::uint64_t, kNumTaskPhases> phase_ns{};  ///< ends of its phases; 0: not taken

  bool has_phases() const { return phase_ns.back() != 0; }
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

/// Of tasks whose phases were taken, all together.
struct PhaseTimes {
  std::uint64_t num = 0;
  double wait_us = 0, signal_us = 0;
  std::array<double, kNumTaskPhases> us{};
};

struct TraceAnalysis {
  double span_us = 0;        ///< from the first fetch to the last end
  std::uint32_t tracks = 0;  ///< most tasks at the same time: workers that were there
  double idle_us = 0;        ///< of all tracks, neither work nor wait
  std::array<KindTimes, kNumTaskKinds> kinds{};
  PhaseTimes phases;
  std::vector<EdgeWait> waits;        ///< the longest first; without those that never happened
  std::uint64_t peak_live_bytes = 0;  ///< slots of V and M between first write and last read
};

/// Whether the task at position `consumer` waits for the one at `producer` only because this one
/// reads memory that it overwrites: such a producer is of a stage behind.
bool frees_memory(const Lowering& lowering, std::uint32_t producer, std::uint32_t consumer);

/// Throws Error(invalid_argument) unless the trace has one record for each position of the mapping,
/// with times in order.
TraceAnalysis analyse(const Lowering& lowering, const Trace& trace);

/// Throws what analyse() throws.
void check_trace(const Lowering& lowering, const Trace& trace);

/// Waiting of one node's tasks for signals of another's, as EdgeWait has it for kinds.
struct NodeWait {
  NodeId from = 0, to = 0;
  bool slot = false;
  std::uint64_t num = 0;
  double us = 0;
};
/// The longest first. Throws what analyse() throws.
std::vector<NodeWait> waits_between_nodes(const Lowering& lowering, const Trace& trace);

/// The tasks that take longest one after the other, each of which waits for the one before it: no
/// number of workers is faster if tasks take as long as here. Positions, the first task first.
/// Throws what analyse() throws.
std::vector<std::uint32_t> longest_chain(const Lowering& lowering, const Trace& trace);

/// By counter of the graph: the position of the task that signalled it last; 0xffffffff for none.
std::vector<std::uint32_t> last_producers(const Lowering& lowering, const Trace& trace);

/// Bytes of V and M that are in use from a time on: a group's slot from its first write to its last
/// read. By time; empty for a graph without V and M.
struct LiveBytes {
  std::uint64_t ns = 0, bytes = 0;
};
std::vector<LiveBytes> live_bytes(const Lowering& lowering, const Trace& trace);

/// How long each task of a graph occupies a worker, waits left out, by task.
struct TaskTimes {
  std::vector<double> typical_us;  ///< where many run at the same time
  std::vector<double> least_us;    ///< at best; nowhere more than typical_us
};

/// From the tasks of the same kind, those of the last group apart: mean and least of their work,
/// and the least that any of them took from fetch to ready with its producers done. Throws what
/// analyse() throws.
TaskTimes task_times(const Lowering& lowering, const Trace& trace);

/// Spans, from the first task's fetch to the last one's end, that no order can beat.
struct OrderBound {
  double work_us = 0;    ///< all workers busy all the time
  double rounds_us = 0;  ///< some tasks in whole rounds, between what must come before and after
  double least_us() const { return std::max(work_us, rounds_us); }
};

/// Of all orders of the graph's tasks on so many workers, whatever their window: sums of tasks
/// shared out evenly count with typical times, tasks one after the other with least times. (What
/// runs beside a task and what caches still hold make it longer or shorter, so that this is as good
/// as the times are; the run that they are from is never below it.) Throws Error(invalid_argument)
/// without workers or unless there is one time for each task.
OrderBound order_bound(const TaskGraph& graph, const TaskTimes& times, std::uint32_t workers);

/// The order in which the tasks really began to work, as an order for the same graph. It is right
/// (validate()) whenever the run was: a task begins after its producers ended.
TaskMapping replay(const Lowering& lowering, const Trace& trace);

}  // namespace megaconv
