// SPDX-License-Identifier: Apache-2.0
// A plan with tensors of small integers, with which its algorithm is exact, and the truth.
#pragma once

#include <cstddef>
#include <limits>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "megaconv/plan.hpp"
#include "tests/layer.hpp"

namespace megaconv::test {

inline PlanOptions exact_options(Algorithm algorithm, std::uint32_t num_threads) {
  PlanOptions options;
  options.source = PlanSource::heuristic;
  options.tiling.algorithm = algorithm;
  if (algorithm != Algorithm::direct) {
    options.tiling.m = 4;
    options.tiling.points = Points::integer;
  }
  options.num_threads = num_threads;
  options.wait_budget_ms = 1000;
  return options;
}

struct ExactRun {
  ExactRun(const std::string& problem, const PlanOptions& options)
      : layer(parse_problem(problem), true),
        plan(Plan::create(layer.problem, options)),
        workspace(plan.workspace_bytes() / sizeof(Line)),
        y(layer.residual.size()) {
    const std::vector<double> exact = layer.reference();
    truth.assign(exact.begin(), exact.end());
  }
  /// Of a plan with `num_threads` workers for a problem of a few dozen tasks.
  explicit ExactRun(std::uint32_t num_threads, Algorithm algorithm = Algorithm::winograd)
      : ExactRun("n1c32h20k32", exact_options(algorithm, num_threads)) {}

  void execute() {
    for (float& value : y) value = std::numeric_limits<float>::quiet_NaN();
    plan.execute({.x = layer.x.data(), .w = layer.w.data(), .y = y.data()}, workspace.data(),
                 plan.workspace_bytes());
  }
  bool is_right() const { return y == truth; }
  bool runs_right() {
    execute();
    return is_right();
  }

  struct alignas(Plan::kAlignment) Line {
    std::byte bytes[Plan::kAlignment];
  };
  Layer layer;
  Plan plan;
  std::vector<Line> workspace;
  std::vector<float> y, truth;
};

}  // namespace megaconv::test
