// SPDX-License-Identifier: Apache-2.0
// megaconv trace: one run, task by task, as a file for Perfetto and in figures.
#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/plan.hpp"
#include "tools/commands.hpp"
#include "tools/file_io.hpp"
#include "tools/plan_arguments.hpp"
#include "tools/problem_selection.hpp"
#include "tools/trace_json.hpp"
#include "tools/trial.hpp"

namespace megaconv::cli {
namespace {

constexpr const char* kFooter = R"(
The file is Chrome trace JSON; https://ui.perfetto.dev shows it. An arrow leads to every task that had
to wait, from the producer that it waited for last. Runs without tracing come before it, so that
memory and caches are warm; their median time is in the file.

Examples:
  megaconv trace n4c64h56k64 -o conv2.json
  megaconv trace n64c128h28k128 --backend cuda --policy staged -o staged.json)";

// Their median is the time of the run, which tracing itself makes longer.
constexpr int kUntracedRuns = 5;

struct TraceArguments {
  ProblemArguments problem;
  PlanArguments plan;
  std::string output;
};

ExitCode trace(const TraceArguments& arguments) {
  const std::vector<NamedProblem> selected = select_problems(arguments.problem);
  if (selected.empty()) {
    throw Error(Status::invalid_argument, "trace needs a PROBLEM (see trace --help)");
  }
  const ConvProblem& problem = selected.front().problem;
  if (!arguments.output.empty()) require_writable(arguments.output);
  Experiment experiment(arguments.plan.options.backend, problem, arguments.plan.seed);
  Trial trial(make_plan(problem, arguments.plan), arguments.plan, experiment);
  const RecordedRun run = trial.record(trial.turn_us(arguments.plan.seed, kUntracedRuns));
  std::fputs(trace_table(analyse(run.lowering, run.trace)).c_str(), stdout);
  if (!arguments.output.empty()) {
    write_file(arguments.output, trace_json(run));
    fmt::print("written to {}\n", arguments.output);
  }
  return ExitCode::ok;
}

}  // namespace

void add_trace(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("trace", "Run once and record every task's times");
  verb->footer(kFooter);
  const auto arguments = std::make_shared<TraceArguments>();
  add_problem_options(*verb, arguments->problem, Selection::one);
  verb->add_option("-o,--output", arguments->output, "File to write, Chrome trace JSON")
      ->type_name("FILE");
  add_plan_options(*verb, arguments->plan);
  verb->callback([arguments, &action] { action = [arguments] { return trace(*arguments); }; });
}

}  // namespace megaconv::cli
