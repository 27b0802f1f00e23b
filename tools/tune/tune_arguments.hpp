// SPDX-License-Identifier: Apache-2.0
// What the verbs of `tune` share: problems, what is fixed about the plan, and the database.
#pragma once

#include <string>
#include <vector>

#include "megaconv/plan_database.hpp"
#include "runtime/tuning/sweep.hpp"
#include "tools/tune/tune_bench.hpp"
#include "tools/verbs/plan_arguments.hpp"
#include "tools/verbs/problem_selection.hpp"

namespace CLI {
class App;
}

namespace megaconv::cli {

/// The file that the options name, else the user's.
std::string database_file(const PlanOptions& options);

struct TuneArguments {
  ProblemArguments problem;
  PlanArguments plan;
  std::vector<Axis> axes;  ///< of --values

  SpaceOptions space_options() const { return {.plan = plan.options, .axes = axes}; }
  /// --database, or the user's file.
  std::string database_file() const { return cli::database_file(plan.options); }
  /// The problems, at least one. Throws Error(invalid_argument).
  std::vector<NamedProblem> problems(const char* verb) const;
};

/// Adds problems, plan options (filters prepared unless asked otherwise), --values.
void add_tune_options(CLI::App& app, TuneArguments& arguments);

/// Adds --samples and --min-ms.
void add_sample_options(CLI::App& app, SampleOptions& samples);

/// Adds --finalists and --resume.
void add_sweep_options(CLI::App& app, SweepOptions& sweep, bool& resume);

/// The options of a `tune measure` that measures for these arguments.
std::vector<std::string> measure_options(const TuneArguments& arguments,
                                         const ConvProblem& problem);

/// "dig=1,2,4". Throws Error(invalid_argument).
Axis parse_axis(const std::string& text);

}  // namespace megaconv::cli
