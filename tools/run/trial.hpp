// SPDX-License-Identifier: Apache-2.0
// One plan in an experiment, on any back end: a time for every turn, and a trace.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "megaconv/simulation.hpp"
#include "tools/report/trace_json.hpp"
#include "tools/run/tensors.hpp"
#include "tools/verbs/plan_arguments.hpp"

namespace megaconv::cli {

/// What the trials of one problem on one back end share: random tensors, none on the simulator.
class Experiment {
 public:
  Experiment(Backend backend, const ConvProblem& problem, std::uint64_t seed);
  Backend backend() const { return backend_; }
  const TensorSet& tensors() const { return tensors_; }

 private:
  Backend backend_;
  TensorSet tensors_;
};

/// For a plan that leaves a trace, which a staged launch does not: the launch that is left to
/// choice is persistent.
PlanArguments traceable(PlanArguments arguments);

class Trial {
 public:
  /// `experiment` must outlive the trial.
  Trial(const Plan& plan, const PlanArguments& arguments, const Experiment& experiment);

  /// Microseconds of one turn: on the simulator with noise from `seed`, elsewhere the median of
  /// `runs` runs after one that is not counted.
  double turn_us(std::uint64_t seed, int runs);
  /// A trace of one more run; its time_us is `time_us`.
  RecordedRun record(double time_us);
  /// On the simulator: the whole result of seed 1.
  const std::optional<Simulation>& simulation() const { return simulation_; }

  const Plan& plan() const { return plan_; }

 private:
  Plan plan_;
  MachineModel machine_;
  SimulationOptions options_;
  std::optional<Simulation> simulation_;
  std::optional<Runner> runner_;  // not on the simulator
};

}  // namespace megaconv::cli
