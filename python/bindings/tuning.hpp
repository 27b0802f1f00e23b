// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "megaconv/plan_database.hpp"
#include "python/bindings/bindings.hpp"
#include "runtime/tuning/search.hpp"

namespace megaconv::python {

struct SearchBudget {
  double seconds = 10;            ///< 0: no limit
  std::uint64_t evaluations = 0;  ///< measurements; 0: no limit
  Strategy strategy = Strategy::model;
  std::uint64_t seed = 1;
};

struct TunedPlan {
  Plan plan;
  Configuration configuration;
  std::vector<Measurement> measurements;
  double best_ms = 0, heuristic_ms = 0;
};

/// Throws Error, and what a signal's handler raised (Ctrl-C).
TunedPlan tune_plan(const ConvProblem& problem, const PlanOptions& options,
                    const SearchBudget& budget);

}  // namespace megaconv::python
