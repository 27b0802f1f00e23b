// SPDX-License-Identifier: Apache-2.0
// Which configuration a plan gets, and why.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "megaconv/plan.hpp"

namespace megaconv {

struct Choice {
  PlanOptions options;   ///< with everything that was chosen
  std::string origin;    ///< "heuristic", "database ~/.cache/megaconv/plans.db, 0.337 ms, ..."
  bool planned = false;  ///< they are those that were planned last, to know the workspace
};

/// Plans with these options; returns the bytes of workspace. Throws what planning throws.
using WorkspaceOf = std::function<std::size_t(const PlanOptions&)>;

/// What options.source says, within options.workspace_limit. A database that cannot be used is no
/// error: the origin says what was wrong with it. Throws Error(out_of_memory) when no plan fits the
/// limit, and what planning throws.
Choice choose_plan(const ConvProblem& problem, const PlanOptions& options,
                   const WorkspaceOf& workspace_of);

/// The same of a network, without a limit and without measuring.
Choice choose_plan(const Network& network, const PlanOptions& options,
                   const WorkspaceOf& workspace_of);

/// Measures configurations for options.measure_ms, the heuristic's first. Throws Error(internal)
/// when none of them computes the right result.
Choice choose_by_measuring(const ConvProblem& problem, const PlanOptions& options);

}  // namespace megaconv
