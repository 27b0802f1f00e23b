// SPDX-License-Identifier: Apache-2.0
// The executor's part of a kernel's arguments, and what a run leaves in device memory.
#pragma once

#include <cstdint>

#include "megaconv/graph.hpp"
#include "megaconv/task_phase.hpp"

namespace megaconv::cuda {

/// At the start of every workspace. The owner word says whose counters it holds; the epoch counts
/// completed runs. Both live on the device, so that a CUDA graph can replay a run without the host.
struct DeviceHeader {
  alignas(128) std::uint64_t owner;
  std::uint32_t epoch;
  std::uint32_t num_finished;  // workers that have left this run
  alignas(128) std::uint32_t ticket;
  // Report of a run that was given up, read by the host after it.
  alignas(128) std::uint32_t given_up;  // 0 or 1
  std::uint32_t position, seen, positions_taken;
  std::uint32_t num_waiting;  // entries of DeviceRun::waiting
};

/// One task's times in nanoseconds of the device's global timer, and the SM that ran it.
struct DeviceTraceRecord {
  std::uint64_t fetch_ns, ready_ns, end_ns;
  std::uint32_t sm;
  std::uint64_t phase_ns[kNumTaskPhases];  // ends of phases, of tasks that have some; else 0
};

/// How workers get the position of their next task.
enum class Dispatch {
  persistent,  // tickets, until none is left
  one_task,    // one ticket per block, one block per task
  raw_index,   // blockIdx.x; relies on blocks starting in order, which CUDA does not promise
};

struct DeviceRun {
  const Task* tasks;           // by position
  const SignalRange* signals;  // of the graph
  std::uint32_t num_tasks;
  std::uint32_t num_making;  // filter and input tasks; of implicit GEMM all stand in front
  std::uint32_t num_counters;
  DeviceHeader* header;
  std::uint32_t* counters;
  std::uint32_t* waiting;   // positions whose workers gave up; room for one each
  std::uint64_t plan_word;  // the header's owner word for this plan; even
  std::uint64_t wait_budget_ns;
  DeviceTraceRecord* trace;  // null: off
  Dispatch dispatch;
};

}  // namespace megaconv::cuda
