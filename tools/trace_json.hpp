// SPDX-License-Identifier: Apache-2.0
// A trace as Chrome trace JSON (which Perfetto reads too), and in figures.
#pragma once

#include <string>

#include "megaconv/mapping.hpp"
#include "megaconv/trace.hpp"

namespace megaconv::cli {

/// One track per worker, or as many as an SM ran tasks at once. A task is a slice of its kind, the
/// time it waited before a slice "wait"; an arrow leads to every task that waited from the producer
/// that it waited for last. Times in microseconds.
std::string trace_json(const Lowering& lowering, const Trace& trace, const char* worker_name);

/// A table: number, work and waiting time of every task kind, and their shares of all workers'
/// time.
std::string trace_table(const Lowering& lowering, const Trace& trace);

}  // namespace megaconv::cli
