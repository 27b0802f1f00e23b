// SPDX-License-Identifier: Apache-2.0
// megaconv trace: one run, task by task, as a file for Perfetto and in figures; and what can be
// made of such a file later.
#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/plan.hpp"
#include "tools/report/html_report.hpp"
#include "tools/report/trace_json.hpp"
#include "tools/run/file_io.hpp"
#include "tools/run/trial.hpp"
#include "tools/verbs/commands.hpp"
#include "tools/verbs/plan_arguments.hpp"
#include "tools/verbs/problem_selection.hpp"

namespace megaconv::cli {
namespace {

constexpr const char* kTraceFooter = R"(
The file is Chrome trace JSON; https://ui.perfetto.dev shows it. An arrow leads to every task that had
to wait, from the producer that it waited for last. Runs without tracing come before it, so that
memory and caches are warm; their median time is in the file, and so is the mapping.

Examples:
  megaconv trace n4c64h56k64 --algo winograd -o conv2.json
  megaconv trace n64c128h28k128 --backend cuda --policy staged -o staged.json
  megaconv trace stats staged.json
  megaconv trace report staged.json --html staged.html
  megaconv trace replay staged.json -o order.json)";

// Their median is the time of the run, which tracing itself makes longer.
constexpr int kUntracedRuns = 5;

struct TraceArguments {
  ProblemArguments problem;
  PlanArguments plan;
  std::string output;
};

void print_analysis(const RecordedRun& run) {
  const TraceAnalysis analysis = analyse(run.lowering, run.trace);
  std::fputs((trace_table(analysis) + order_bound_line(run, analysis)).c_str(), stdout);
}

ExitCode trace(const TraceArguments& arguments) {
  const std::vector<NamedProblem> selected = select_problems(arguments.problem);
  if (selected.empty()) {
    throw Error(Status::invalid_argument, "trace needs a PROBLEM (see trace --help)");
  }
  const ConvProblem& problem = selected.front().problem;
  if (!arguments.output.empty()) require_writable(arguments.output);
  Experiment experiment(arguments.plan.options.backend, problem, arguments.plan.seed);
  const PlanArguments plan = traceable(arguments.plan);
  Trial trial(make_plan(problem, plan), plan, experiment);
  const RecordedRun run = trial.record(trial.turn_us(arguments.plan.seed, kUntracedRuns));
  print_analysis(run);
  if (!arguments.output.empty()) {
    write_file(arguments.output, trace_json(run));
    fmt::print("written to {}\n", arguments.output);
  }
  return ExitCode::ok;
}

struct FileArguments {
  std::string file, output;
  PlanArguments plan;  // of which only the machine is used
};

ExitCode stats(const FileArguments& arguments) {
  const RecordedRun run = read_trace(arguments.file);
  fmt::print("{}, {} order\n", to_string(run.lowering.tiling().problem),
             run.lowering.mapping.policy);
  if (run.time_us > 0) fmt::print("{:.1f} us without tracing\n", run.time_us);
  print_analysis(run);
  return ExitCode::ok;
}

ExitCode report(const FileArguments& arguments) {
  require_writable(arguments.output);
  const RecordedRun run = read_trace(arguments.file);
  write_file(arguments.output,
             html_report(run, machine_of(arguments.plan), "recorded in " + arguments.file, false));
  fmt::print("written to {}\n", arguments.output);
  return ExitCode::ok;
}

ExitCode replay_order(const FileArguments& arguments) {
  if (!arguments.output.empty()) require_writable(arguments.output);
  RecordedRun run = read_trace(arguments.file);
  run.lowering.mapping = replay(run.lowering, run.trace);
  if (const auto violation = validate(run.lowering.graph, run.lowering.mapping)) {
    throw Error(Status::invalid_argument,
                arguments.file + ": trace: the order that ran is no order: " + violation->message);
  }
  const std::string text = export_mapping(run.lowering);
  if (arguments.output.empty()) {
    std::fputs(text.c_str(), stdout);
  } else {
    write_file(arguments.output, text);
  }
  return ExitCode::ok;
}

CLI::App* add_file_verb(CLI::App& parent, Action& action, const char* name, const char* description,
                        const std::shared_ptr<FileArguments>& arguments,
                        ExitCode (*run)(const FileArguments&)) {
  CLI::App* verb = parent.add_subcommand(name, description);
  verb->add_option("file", arguments->file, "Trace file")->type_name("FILE")->required();
  verb->callback(
      [arguments, run, &action] { action = [arguments, run] { return run(*arguments); }; });
  return verb;
}

void add_file_verbs(CLI::App& parent, Action& action) {
  auto arguments = std::make_shared<FileArguments>();
  add_file_verb(parent, action, "stats", "Work, wait and idle time of a trace file", arguments,
                stats)
      ->footer("\nExample:\n  megaconv trace stats conv2.json");

  arguments = std::make_shared<FileArguments>();
  CLI::App* verb = add_file_verb(parent, action, "report", "A trace file as one page of pictures",
                                 arguments, report);
  verb->add_option("--html", arguments->output, "File to write")->type_name("FILE")->required();
  add_machine_option(*verb, arguments->plan);
  verb->footer("\nExample:\n  megaconv trace report conv2.json --html conv2.html --machine cpu");

  arguments = std::make_shared<FileArguments>();
  verb = add_file_verb(parent, action, "replay", "The order that really ran, as a mapping file",
                       arguments, replay_order);
  verb->add_option("-o,--output", arguments->output, "File to write; without it to stdout")
      ->type_name("FILE");
  verb->footer(
      "\nExamples:\n  megaconv trace replay conv2.json -o order.json\n"
      "  megaconv run --mapping order.json");
}

}  // namespace

void add_trace(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("trace", "Run once and record every task's times");
  verb->footer(kTraceFooter);
  const auto arguments = std::make_shared<TraceArguments>();
  add_problem_options(*verb, arguments->problem, Selection::one);
  verb->add_option("-o,--output", arguments->output, "File to write, Chrome trace JSON")
      ->type_name("FILE");
  add_plan_options(*verb, arguments->plan);
  verb->callback([verb, arguments, &action] {
    if (verb->get_subcommands().empty()) action = [arguments] { return trace(*arguments); };
  });
  add_file_verbs(*verb, action);
}

}  // namespace megaconv::cli
