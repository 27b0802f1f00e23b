// SPDX-License-Identifier: Apache-2.0
// Fits a machine model to runs that happened.
//
// Units and workers are those that the traces show; memory bandwidth and cache capacity are taken
// as known. For every run the simulation should take as long as the run did, and each kind of task
// as long in the mean as it did there. The parameters are multiplied and divided by ever smaller
// steps, one after the other, as long as the sum of squared logarithms of the ratios falls
// (coordinate search: the simulation has no derivatives, and steps where the cache begins to hold
// something).
#include <algorithm>
#include <cmath>
#include <functional>

#include "megaconv/error.hpp"
#include "megaconv/simulation.hpp"

namespace megaconv {
namespace {

// A run's time counts as much as so many kinds of task that share all of its work.
constexpr double kTimeWeight = 4;
constexpr double kSteps[] = {1.6, 1.25, 1.1, 1.04};
constexpr int kMostSweeps = 4;       // over all parameters, at each step
constexpr double kLeastGain = 1e-3;  // of the objective, for another sweep

using ModelParameter = std::function<void(MachineModel&, double factor)>;

struct Known {
  const MeasuredRun* run;
  TraceAnalysis analysis;
  double work_us = 0;  // of all kinds
  double time_us = 0;
};

double squared_log(double ratio) { return ratio > 0 ? std::log(ratio) * std::log(ratio) : 0; }

class Calibrator {
 public:
  Calibrator(const MachineModel& start, std::span<const MeasuredRun> runs) : machine_(start) {
    machine_.noise = 0;
    for (const MeasuredRun& run : runs) {
      Known known{.run = &run, .analysis = analyse(run.lowering, run.trace)};
      for (const KindTimes& kind : known.analysis.kinds) known.work_us += kind.work_us;
      known_.push_back(std::move(known));
    }
    count_workers();
    find_launch();
    for (Known& known : known_) {
      known.time_us =
          known.run->time_us > 0 ? known.run->time_us : known.analysis.span_us + machine_.launch_us;
    }
    list_parameters();
  }

  MachineModel fit() {
    double best = objective(machine_);
    for (const double step : kSteps) {
      for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
        const double before = best;
        for (const ModelParameter& parameter : parameters_) {
          best = improve(parameter, step, best);
        }
        if (best > before * (1 - kLeastGain)) break;
      }
    }
    return machine_;
  }

  double measured_us(std::size_t run) const { return known_[run].time_us; }

 private:
  void count_workers() {
    machine_.units = machine_.workers_per_unit = 1;
    for (const Known& known : known_) {
      machine_.units = std::max(machine_.units, known.run->trace.num_workers);
      machine_.split_f16 |= known.run->lowering.tiling().arithmetic != Arithmetic::fma;
    }
    for (const Known& known : known_) {
      const std::uint32_t tracks = known.analysis.tracks;
      machine_.workers_per_unit =
          std::max(machine_.workers_per_unit, (tracks + machine_.units - 1) / machine_.units);
    }
  }

  // What of the runs' times no trace shows.
  void find_launch() {
    std::vector<double> launches;
    for (const Known& known : known_) {
      if (known.run->time_us <= 0) continue;
      launches.push_back(known.run->time_us - known.analysis.span_us);
    }
    if (launches.empty()) return;
    const auto middle = launches.begin() + static_cast<std::ptrdiff_t>(launches.size() / 2);
    std::nth_element(launches.begin(), middle, launches.end());
    machine_.launch_us = std::max(0.0, *middle);
  }

  void list_parameters() {
    for (std::uint32_t k = 0; k < kNumTaskKinds; ++k) {
      const bool seen = std::any_of(known_.begin(), known_.end(), [&](const Known& known) {
        return known.analysis.kinds[k].num > 0;
      });
      if (!seen) continue;
      for (double KindModel::*value :
           {&KindModel::worker_gflops, &KindModel::unit_gflops, &KindModel::overhead_us}) {
        parameters_.push_back(
            [k, value](MachineModel& m, double factor) { m.kinds[k].*value *= factor; });
      }
    }
    for (double MachineModel::*value :
         {&MachineModel::worker_gbps, &MachineModel::l2_gbps, &MachineModel::hop_us}) {
      parameters_.push_back([value](MachineModel& m, double factor) { m.*value *= factor; });
    }
  }

  double objective(const MachineModel& machine) const {
    double sum = 0;
    for (const Known& known : known_) {
      const Simulation simulation = simulate(known.run->lowering, machine);
      sum += kTimeWeight * squared_log(simulation.time_us / known.time_us);
      for (std::uint32_t k = 0; k < kNumTaskKinds; ++k) {
        const double measured = known.analysis.kinds[k].work_us;
        if (measured <= 0) continue;
        sum +=
            measured / known.work_us * squared_log(simulation.analysis.kinds[k].work_us / measured);
      }
    }
    return sum / static_cast<double>(known_.size());
  }

  // The objective after the parameter has moved, or has not.
  double improve(const ModelParameter& parameter, double step, double best) {
    for (const double factor : {step, 1 / step}) {
      MachineModel trial = machine_;
      parameter(trial, factor);
      const double value = objective(trial);
      if (value >= best) continue;
      machine_ = trial;
      return value;
    }
    return best;
  }

  MachineModel machine_;
  std::vector<Known> known_;
  std::vector<ModelParameter> parameters_;
};

}  // namespace

Calibration calibrate(const MachineModel& start, std::span<const MeasuredRun> runs) {
  validate(start);
  if (runs.empty()) throw Error(Status::invalid_argument, "calibrate: no runs");
  Calibrator calibrator(start, runs);
  Calibration result{.machine = calibrator.fit(), .errors = {}, .median_error = 0};
  std::vector<double> errors;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const double predicted_us = simulate(runs[i].lowering, result.machine).time_us;
    result.errors.push_back({calibrator.measured_us(i), predicted_us});
    errors.push_back(std::abs(result.errors.back().relative()));
  }
  std::nth_element(errors.begin(), errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2),
                   errors.end());
  result.median_error = errors[errors.size() / 2];
  result.machine.noise = start.noise;
  return result;
}

}  // namespace megaconv
