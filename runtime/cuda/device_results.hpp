// SPDX-License-Identifier: Apache-2.0
// What a run leaves in device memory for people, read by the host: traces, and why it was given up.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "megaconv/trace.hpp"
#include "runtime/cuda/device_run.hpp"

namespace megaconv::cuda {

/// Times in nanoseconds from the first fetch on; a worker is an SM. `records`: by position.
void read_trace(const std::vector<DeviceTraceRecord>& records, int num_sms, Trace& trace);

/// The text of Status::timeout (runtime/report.hpp). `device_waiting`: DeviceRun::waiting, of at
/// most `num_workers` entries; `tasks`: by position.
std::string give_up_report(const TaskGraph& graph, const std::vector<Task>& tasks,
                           const DeviceHeader& header, const void* device_waiting,
                           std::uint32_t num_workers, std::chrono::nanoseconds budget);

}  // namespace megaconv::cuda
