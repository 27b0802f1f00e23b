// SPDX-License-Identifier: Apache-2.0
// What a run really did: one record per task.
#pragma once

#include <cstdint>
#include <vector>

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

}  // namespace megaconv
