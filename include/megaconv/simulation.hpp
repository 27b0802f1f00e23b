// SPDX-License-Identifier: Apache-2.0
// What a lowering would take on a machine that need not be there: a discrete-event simulation of
// the executors' protocol, lower bounds that no order can beat, and calibration from runs that
// happened.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "megaconv/lowering.hpp"
#include "megaconv/machine.hpp"
#include "megaconv/plan.hpp"
#include "megaconv/trace.hpp"

namespace megaconv {

struct SimulationOptions {
  std::uint64_t seed = 1;                     ///< of the noise
  CudaLaunch launch = CudaLaunch::automatic;  ///< how tasks come to workers; automatic: persistent
  std::uint32_t num_workers = 0;              ///< 0: all that the machine has
  bool warm_cache = true;                     ///< as a run before this one leaves it
};

/// Bytes that were read again or from another task, and how many of them the cache still had.
struct Reuse {
  double bytes = 0, hit_bytes = 0;
  double hit_rate() const { return bytes > 0 ? hit_bytes / bytes : 0; }
};

/// Shares of the most that there is, over the whole run.
struct Utilisation {
  double workers = 0;  ///< workers that work, not wait
  double compute = 0, l2 = 0, hbm = 0;
};

struct Simulation {
  double time_us = 0;  ///< launch included
  Trace trace;         ///< `worker` is the unit
  TraceAnalysis analysis;
  Utilisation utilisation;
  Reuse input_rows;  ///< type (a): rows of x that neighbouring input transforms share
  Reuse filters;     ///< type (b): U, read by the GEMMs of one filter block
  Reuse products;    ///< type (c): V and M, from the tasks that wrote them
  double l2_bytes = 0, hbm_bytes = 0;
};

/// Runs the lowering on the machine: workers take positions, wait for counters, share the machine's
/// bandwidths while they work, and signal. Deterministic: the same arguments give the same result.
/// Throws Error(timeout) naming what is missing when the order deadlocks, Error(invalid_argument)
/// for a machine or an order that cannot be, Error(unsupported) for implicit GEMM, which machine
/// models have no rates for, and for a network in stages.
Simulation simulate(const Lowering& lowering, const MachineModel& machine,
                    const SimulationOptions& options = {});

/// Times that no order of these tasks on this machine can beat, whatever its window, noise aside.
struct Bounds {
  double critical_path_us = 0;  ///< the longest chain of tasks, each alone on the machine
  double work_us = 0;           ///< all workers busy from the first task to the last
  /// The tasks of one kind, in as many rounds as the workers need for them, after the shortest way
  /// to the first of them and before the shortest way out.
  double stage_us = 0;
  double compute_us = 0, l2_us = 0, hbm_us = 0;  ///< a resource busy all the time
  double least_us() const;                       ///< the largest of them, and the launch
  double launch_us = 0;
};
Bounds lower_bounds(const TaskGraph& graph, const MachineModel& machine);

/// A policy that schedules on the machine model: every simulated worker takes, when it becomes
/// free, the task that its machine needs most (runtime/sim/paced.cpp), and the best of several
/// paces is found by simulation. Takes about 40 simulations.
PolicyFunction paced_policy(const MachineModel& machine);

/// A run that really happened, to calibrate with.
struct MeasuredRun {
  Lowering lowering;
  Trace trace;
  double time_us = 0;  ///< of the whole run without tracing; 0: not known
};

struct CalibrationError {
  double measured_us = 0, predicted_us = 0;
  double relative() const { return predicted_us / measured_us - 1; }
};

struct Calibration {
  MachineModel machine;
  std::vector<CalibrationError> errors;  ///< of `runs`, in their order
  double median_error = 0;               ///< of |relative()|
};

/// Fits the machine's rates, overheads and latencies to the runs, from `start`. Throws
/// Error(invalid_argument) without runs, or with a trace that is not of its lowering.
Calibration calibrate(const MachineModel& start, std::span<const MeasuredRun> runs);

}  // namespace megaconv
