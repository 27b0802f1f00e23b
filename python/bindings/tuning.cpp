// SPDX-License-Identifier: Apache-2.0
// A search for the fastest plan, in the caller's process, with what the command's has: strategies,
// budgets, finalists, the plan database.
#include "python/bindings/tuning.hpp"

#include <nanobind/stl/string.h>

#include <cmath>

#include "megaconv/plan_database.hpp"
#include "runtime/tuning/in_place_bench.hpp"
#include "runtime/tuning/sweep.hpp"
#include "tasks/cost_model.hpp"

namespace megaconv::python {
namespace {

// As the command's: samples and milliseconds of a candidate.
constexpr InPlaceSamples kSamples{.count = 7, .least_ms = 10};

void check(const ConvProblem& problem, const PlanOptions& options, const SearchBudget& budget) {
  if (options.backend == Backend::sim) {
    throw Error(Status::unsupported, "tune: backend \"sim\", must be \"cpu\" or \"cuda\"");
  }
  if (options.threads.run != nullptr) {
    throw Error(Status::unsupported, "tune: run_workers of the caller's, must be None");
  }
  if (options.policy) {
    throw Error(Status::unsupported, "tune: policy of the caller's, must be a name or None");
  }
  if (!std::isfinite(budget.seconds) || budget.seconds < 0) {
    throw Error(Status::invalid_argument,
                "seconds " + std::to_string(budget.seconds) + ", must be 0 or more");
  }
  if (budget.seconds == 0 && budget.evaluations == 0 && budget.strategy != Strategy::exhaustive) {
    throw Error(Status::invalid_argument,
                "seconds 0 and evaluations 0, one must be more, or strategy \"exhaustive\"");
  }
  validate(problem);
}

Columns columns_of(const std::vector<Measurement>& measurements) {
  nb::list configurations, verdicts, reasons, strategies;
  for (const Measurement& m : measurements) {
    configurations.append(to_string(m.configuration));
    verdicts.append(to_string(m.verdict));
    reasons.append(m.reason);
    strategies.append(m.strategy);
  }
  const auto texts = [](const nb::list& list) {
    return nb::module_::import_("numpy").attr("array")(list, "str");
  };
  Columns columns;
  columns["configuration"] = texts(configurations);
  columns["verdict"] = texts(verdicts);
  columns["reason"] = texts(reasons);
  columns["strategy"] = texts(strategies);
  columns["best_ms"] = column_of<double>(measurements, [](const auto& m) { return m.best_ms; });
  columns["median_ms"] = column_of<double>(measurements, [](const auto& m) { return m.median_ms; });
  columns["workspace_bytes"] =
      column_of<std::uint64_t>(measurements, [](const auto& m) { return m.workspace_bytes; });
  return columns;
}

}  // namespace

TunedPlan tune_plan(const ConvProblem& problem, const PlanOptions& options,
                    const SearchBudget& budget) {
  check(problem, options, budget);
  const nb::gil_scoped_release unlocked;
  std::optional<PlanDatabase> database;
  if (PlanDatabase::available()) {
    database.emplace(options.database.empty() ? user_database_file() : options.database,
                     PlanDatabase::Access::write);
  } else if (!options.database.empty()) {
    throw Error(Status::unsupported, "tune: database \"" + options.database +
                                         "\", must be \"\" in a build without SQLite");
  }
  const Target target = target_of(options);
  const Space space = make_space(problem, target, {.plan = options, .axes = {}});
  const Search search{space,
                      [&](const Configuration& configuration) {
                        return estimate_ms(problem, apply(configuration, options), target);
                      },
                      budget.seed};
  InPlaceBench bench(problem, options, kSamples);
  TunedPlan tuned{bench.heuristic(), {}, {}, 0, 0};
  bool stopped = false;
  SweepOptions sweep_options;
  sweep_options.strategy = budget.strategy;
  sweep_options.evaluations = budget.evaluations;
  sweep_options.seconds = budget.seconds;
  sweep_options.seed = budget.seed;
  sweep_options.interrupted = [&] {
    if (stopped) return true;
    const nb::gil_scoped_acquire locked;
    return stopped = PyErr_CheckSignals() != 0;
  };
  Sweep sweep(
      search, plan_key(problem, options), database ? &*database : nullptr, {}, sweep_options,
      [&](const Configuration& configuration, double best_ms) -> std::optional<Measurement> {
        if (stopped) return std::nullopt;
        return bench.measure(configuration, best_ms);
      },
      [&](const SweepState&, const Measurement& last) { tuned.measurements.push_back(last); });
  sweep.run();
  if (stopped) {
    const nb::gil_scoped_acquire locked;
    throw nb::python_error();  // KeyboardInterrupt; what was measured is in the database
  }
  const SweepState& state = sweep.state();
  tuned.configuration = state.best;
  tuned.best_ms = state.best_ms;
  tuned.heuristic_ms = state.heuristic_ms;
  if (state.best_ms > 0) tuned.plan = Plan::create(problem, apply(state.best, options));
  return tuned;
}

void bind_tuning(nb::module_& module) {
  nb::class_<TunedPlan>(module, "Tuned", "What a search found.")
      .def_prop_ro(
          "plan", [](const TunedPlan& tuned) { return tuned.plan; }, "the fastest Plan")
      .def_prop_ro(
          "configuration", [](const TunedPlan& tuned) { return to_string(tuned.configuration); },
          "its parameters, as `megaconv run --config` takes them")
      .def_prop_ro(
          "best_ms", [](const TunedPlan& tuned) { return tuned.best_ms; },
          "milliseconds of a run of it; 0 when nothing was right")
      .def_prop_ro(
          "heuristic_ms", [](const TunedPlan& tuned) { return tuned.heuristic_ms; },
          "milliseconds of what is chosen without measuring")
      .def(
          "columns", [](const TunedPlan& tuned) { return columns_of(tuned.measurements); },
          R"(NumPy columns by name, one row for each measurement; pandas.DataFrame takes them.

configuration, verdict, reason, strategy, best_ms, median_ms, workspace_bytes.)")
      .def("__repr__", [](const TunedPlan& tuned) {
        return "<megaconv.Tuned " + std::to_string(tuned.best_ms) + " ms, by heuristic " +
               std::to_string(tuned.heuristic_ms) + " ms, of " +
               std::to_string(tuned.measurements.size()) + " measurements>";
      });
}

}  // namespace megaconv::python
