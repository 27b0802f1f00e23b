// SPDX-License-Identifier: Apache-2.0
// PlanSource::measure: a short model-guided search in the caller's process.
#include <chrono>
#include <cstdio>
#include <limits>

#include "runtime/tuning/choose_plan.hpp"
#include "runtime/tuning/in_place_bench.hpp"
#include "runtime/tuning/search.hpp"
#include "tasks/cost_model.hpp"

namespace megaconv {

Choice choose_by_measuring(const ConvProblem& problem, const PlanOptions& options) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(options.measure_ms);
  InPlaceBench bench(problem, options, {});
  const double heuristic_ms = bench.measure(bench.heuristic(), 0).best_ms;

  const Target target = target_of(options);
  const Space space = make_space(problem, target, {.plan = options, .axes = {}});
  const auto estimate = [&](const Configuration& configuration) {
    return estimate_ms(problem, apply(configuration, options), target);
  };
  double best_ms = heuristic_ms;
  std::optional<Configuration> best;
  int measured = 1;
  run_search(Strategy::model, {space, estimate}, [&](std::uint64_t index) -> std::optional<double> {
    if (Clock::now() >= end) return std::nullopt;
    const Measurement found = bench.measure(space.at(index), best_ms);
    measured += found.verdict == Verdict::right ? 1 : 0;
    const double ms =
        found.verdict == Verdict::right ? found.best_ms : std::numeric_limits<double>::infinity();
    if (ms < best_ms) {
      best_ms = ms;
      best = found.configuration;
    }
    return ms;
  });
  char text[128];
  std::snprintf(text, sizeof text, "measuring %d candidates: %.4g ms, the heuristic's %.4g ms",
                measured, best_ms, heuristic_ms);
  PlanOptions heuristic = options;
  heuristic.source = PlanSource::heuristic;
  return {best ? apply(*best, options) : heuristic, text};
}

}  // namespace megaconv
