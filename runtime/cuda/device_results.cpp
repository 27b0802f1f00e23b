// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/device_results.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>

#include "runtime/cuda/error.hpp"
#include "runtime/report.hpp"

namespace megaconv::cuda {

void read_trace(const std::vector<DeviceTraceRecord>& records, int num_sms, Trace& trace) {
  std::uint64_t begin = std::numeric_limits<std::uint64_t>::max();
  for (const DeviceTraceRecord& record : records) begin = std::min(begin, record.fetch_ns);
  trace.num_workers = static_cast<std::uint32_t>(num_sms);
  trace.records.clear();
  for (std::uint32_t position = 0; position < records.size(); ++position) {
    const DeviceTraceRecord& record = records[position];
    TraceRecord& made =
        trace.records.emplace_back(TraceRecord{position, record.sm, record.fetch_ns - begin,
                                               record.ready_ns - begin, record.end_ns - begin});
    for (std::size_t i = 0; i < kNumTaskPhases && record.phase_ns[i] != 0; ++i) {
      made.phase_ns[i] = record.phase_ns[i] - begin;
    }
  }
}

std::string give_up_report(const TaskGraph& graph, const std::vector<Task>& tasks,
                           const DeviceHeader& header, const void* device_waiting,
                           std::uint32_t num_workers, std::chrono::nanoseconds budget) {
  std::vector<std::uint32_t> waiting(std::min(header.num_waiting, num_workers));
  check(cudaMemcpy(waiting.data(), device_waiting, waiting.size() * sizeof(waiting[0]),
                   cudaMemcpyDeviceToHost),
        "report");
  return timeout_report(graph, tasks, header.position, header.seen,
                        std::chrono::duration_cast<std::chrono::milliseconds>(budget),
                        [&](std::uint32_t p) -> const char* {
                          if (std::find(waiting.begin(), waiting.end(), p) != waiting.end()) {
                            return "waiting";
                          }
                          return p < header.positions_taken ? nullptr : "not started";
                        });
}

}  // namespace megaconv::cuda
