// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/tune_arguments.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>

#include "megaconv/error.hpp"
#include "tools/verbs/number.hpp"

namespace megaconv::cli {

void add_sample_options(CLI::App& app, SampleOptions& samples) {
  app.add_option("--samples", samples.samples,
                 "Samples of a candidate, unless it is given up early")
      ->type_name("N")
      ->capture_default_str()
      ->check(number_from(1, 1000))
      ->group("Search");
  app.add_option("--min-ms", samples.min_ms, "Least time of all samples of a candidate together")
      ->type_name("MS")
      ->capture_default_str()
      ->check(number_from(0.0, 1e6))
      ->group("Search");
}

void add_sweep_options(CLI::App& app, SweepOptions& sweep, bool& resume) {
  app.add_option("--finalists", sweep.finalists, "Best ones measured again in turns at the end")
      ->type_name("N")
      ->capture_default_str()
      ->check(number_for(sweep.finalists))
      ->group("Search");
  app.add_flag("--resume", resume, "Use what the database has; measure none of it again")
      ->group("Search");
}

std::string database_file(const PlanOptions& options) {
  return options.database.empty() ? user_database_file() : options.database;
}

std::vector<NamedProblem> TuneArguments::problems(const char* verb) const {
  std::vector<NamedProblem> selected = select_problems(problem);
  if (!selected.empty()) return selected;
  throw Error(Status::invalid_argument,
              std::string(verb) + " needs a PROBLEM, --network, --suite or --layers (see " + verb +
                  " --help)");
}

Axis parse_axis(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) {
    throw Error(Status::invalid_argument, "--values " + text + ", must be NAME=VALUE,VALUE,...");
  }
  Axis axis{parse_parameter(text.substr(0, equals)), {}};
  for (std::size_t begin = equals + 1; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    axis.values.push_back(parse_value(axis.parameter, text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return axis;
}

void add_tune_options(CLI::App& app, TuneArguments& arguments) {
  arguments.plan.options.tiling.filters = FilterMode::prepared;
  add_problem_options(app, arguments.problem, Selection::many);
  add_plan_options(app, arguments.plan);
  app.add_option_function<std::vector<std::string>>(
         "--values",
         [&arguments](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) arguments.axes.push_back(parse_axis(text));
         },
         "Values to try in place of a parameter's own: dig=1,2,4;\nmay be given for several")
      ->type_name("NAME=LIST")
      ->expected(1)
      ->take_all()
      ->group("Search");
}

std::vector<std::string> measure_options(const TuneArguments& arguments,
                                         const ConvProblem& problem) {
  const PlanOptions& options = arguments.plan.options;
  std::vector<std::string> words = {to_string(problem)};
  const auto put = [&](const char* name, const std::string& value) {
    words.insert(words.end(), {name, value});
  };
  put("--backend", to_string(options.backend));
  put("--filters", options.tiling.filters == FilterMode::prepared ? "prepared" : "every-run");
  if (options.tiling.precision != Precision::f32) {
    put("--precision", to_string(options.tiling.precision));
  }
  if (options.tiling.max_error) put("--max-error", fmt::format("{}", *options.tiling.max_error));
  if (options.num_threads != 0) put("--threads", std::to_string(options.num_threads));
  put("--wait-budget-ms", std::to_string(options.wait_budget_ms));
  if (options.workspace_limit != 0) {
    put("--workspace-limit", std::to_string(options.workspace_limit));
  }
  if (options.policy) put("--policy", options.mapping.policy);
  put("--seed", std::to_string(arguments.plan.seed));
  return words;
}

}  // namespace megaconv::cli
