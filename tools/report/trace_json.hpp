// SPDX-License-Identifier: Apache-2.0
// A trace as Chrome trace JSON (which Perfetto reads too) and back, and in figures.
#pragma once

#include <string>
#include <string_view>

#include "megaconv/lowering.hpp"
#include "megaconv/trace.hpp"

namespace megaconv::cli {

/// A run as a trace file holds it: what ran, when, and on what.
struct RecordedRun {
  Lowering lowering;
  Trace trace;
  std::string worker_name;  ///< "worker" or "SM"
  double time_us = 0;       ///< of a run without tracing; 0: not measured
};

/// One track per worker, or as many as an SM ran tasks at once. A task is a slice of its kind, the
/// time it waited before a slice "wait"; an arrow leads to every task that waited from the producer
/// that it waited for last. Times in microseconds. The mapping of a convolution is in the file too,
/// where viewers ignore it.
std::string trace_json(const RecordedRun& run);

/// Reads what trace_json() wrote. Throws Error(invalid_argument), "trace: ...", for a file that is
/// cut short, has no mapping, or whose events are not those of its mapping.
RecordedRun parse_trace(std::string_view json);

/// parse_trace() of a file, whose name is then in the error. Throws also Error(device_error).
RecordedRun read_trace(const std::string& path);

/// Tables: number, work and waiting time of every task kind and their shares of all workers' time;
/// then the waits by the edge that caused them.
std::string trace_table(const TraceAnalysis& analysis);

/// A line: the least that any order of these tasks takes, if they take as long as here, and by how
/// much this run is above it.
std::string order_bound_line(const RecordedRun& run, const TraceAnalysis& analysis);

/// "gemm for input_transform"; " (slot)" is added where the wait was for memory, not for data.
std::string edge_name(const EdgeWait& wait);

}  // namespace megaconv::cli
