// SPDX-License-Identifier: Apache-2.0
// megaconv simulate: one problem on a machine model, what-if questions about it, and the model
// itself: shown, changed, calibrated.
#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/simulation.hpp"
#include "tools/report/confidence.hpp"
#include "tools/report/html_report.hpp"
#include "tools/report/simulation_report.hpp"
#include "tools/report/table.hpp"
#include "tools/report/terminal.hpp"
#include "tools/report/trace_json.hpp"
#include "tools/report/what_if.hpp"
#include "tools/run/file_io.hpp"
#include "tools/verbs/commands.hpp"
#include "tools/verbs/number.hpp"
#include "tools/verbs/plan_arguments.hpp"
#include "tools/verbs/problem_selection.hpp"

namespace megaconv::cli {
namespace {

constexpr const char* kSimulateFooter = R"(
The plan options decide how the problem is cut and ordered; --machine what it runs on. --set changes
numbers of the machine model, --vary tries several values of one of them, or of dig, dgo and
m_groups. `megaconv simulate --show-machine` prints the model with the names.

--calibrate fits the model to traces (`megaconv trace -o`, `megaconv lab compare --traces`) and
--machine-output writes it. --replay takes tasks and order from a trace: what the machine would do
with the order that the device really ran.

Examples:
  megaconv simulate n64c128h28k128 --machine a100
  megaconv simulate n64c128h28k128 --policy depth_first --html depth_first.html
  megaconv simulate n64c128h28k128 --vary hop_us=0.2,0.4,0.8,1.6
  megaconv simulate n64c128h28k128 --set hbm_gbps=2000 --vary dig=64,264,1056
  megaconv simulate --replay conv3.trace.json
  megaconv simulate --calibrate a.trace.json b.trace.json --machine-output mine.json)";

struct SimulateArguments {
  ProblemArguments problem;
  PlanArguments plan;
  std::vector<std::string> calibrate, set;
  std::string vary, replay, output, html, machine_output;
  int turns = 10;
  bool json = false, show_machine = false;
};

void write_machine(const SimulateArguments& arguments, const MachineModel& machine) {
  if (arguments.machine_output.empty()) return;
  write_file(arguments.machine_output, to_json(machine));
}

ExitCode calibrate_machine(const SimulateArguments& arguments) {
  std::vector<MeasuredRun> runs;
  std::vector<std::string> names;
  for (const std::string& path : arguments.calibrate) {
    RecordedRun run = read_trace(path);
    names.push_back(fmt::format("{} {}", short_name(run.lowering.tiling().problem),
                                run.lowering.mapping.policy));
    runs.push_back({std::move(run.lowering), std::move(run.trace), run.time_us});
  }
  Progress progress;
  progress.show(fmt::format("fitting to {} traces", runs.size()));
  Calibration calibration = calibrate(machine_with(arguments.plan, arguments.set), runs);
  calibration.machine.name = "calibrated";
  progress.clear();
  if (arguments.json) {
    std::fputs(to_json(calibration.machine).c_str(), stdout);
  } else {
    std::fputs(calibration_table(names, calibration).c_str(), stdout);
  }
  write_machine(arguments, calibration.machine);
  return ExitCode::ok;
}

SimulateArguments checked(SimulateArguments arguments) {
  if (arguments.plan.options.backend == Backend::cpu) arguments.plan.options.backend = Backend::sim;
  if (arguments.plan.options.backend != Backend::sim) {
    throw Error(Status::invalid_argument, "simulate: --backend must be sim");
  }
  for (const std::string& path : {arguments.output, arguments.html, arguments.machine_output}) {
    if (!path.empty()) require_writable(path);
  }
  return arguments;
}

Lowering lowering_of(const SimulateArguments& arguments) {
  if (!arguments.replay.empty()) {
    RecordedRun run = read_trace(arguments.replay);
    run.lowering.mapping = replay(run.lowering, run.trace);
    return std::move(run.lowering);
  }
  const std::vector<NamedProblem> selected = select_problems(arguments.problem);
  if (selected.empty() && !arguments.plan.mapping_file.empty()) {
    return make_plan_from_file(arguments.plan).lowering();
  }
  if (selected.empty()) {
    throw Error(Status::invalid_argument,
                "simulate needs a PROBLEM, --mapping, --replay or --calibrate (see simulate "
                "--help)");
  }
  return make_plan(selected.front().problem, arguments.plan).lowering();
}

ExitCode vary(const SimulateArguments& arguments) {
  const std::vector<WhatIfResult> results = simulate_cases(
      arguments.vary, arguments.plan, arguments.turns, [&](const PlanArguments& plan) {
        SimulateArguments changed = arguments;
        changed.plan = plan;
        return lowering_of(changed);
      });
  std::fputs(arguments.json ? what_if_json(results).c_str() : what_if_table(results).c_str(),
             stdout);
  return ExitCode::ok;
}

ExitCode simulate_problem(const SimulateArguments& given) {
  SimulateArguments arguments = checked(given);
  if (!arguments.calibrate.empty()) return calibrate_machine(arguments);
  const MachineModel machine = machine_with(arguments.plan, arguments.set);
  validate(machine);
  if (arguments.show_machine) {
    std::fputs(to_json(machine).c_str(), stdout);
    write_machine(arguments, machine);
    return ExitCode::ok;
  }
  arguments.plan.options.machine = machine;
  if (!arguments.vary.empty()) return vary(arguments);
  const Lowering lowering = lowering_of(arguments);
  const WhatIfResult result =
      simulate_turns("", lowering, machine, simulation_options(arguments.plan), arguments.turns);
  const Bounds bounds = lower_bounds(lowering.graph, machine);
  std::fputs(arguments.json ? simulation_json(lowering, machine, result, bounds).c_str()
                            : simulation_text(lowering, machine, result, bounds).c_str(),
             stdout);
  const RecordedRun run{lowering, result.first.trace, "SM", result.first.time_us};
  if (!arguments.output.empty()) write_file(arguments.output, trace_json(run));
  if (!arguments.html.empty()) {
    write_file(arguments.html, html_report(run, machine, "simulated on " + machine.name, true));
  }
  write_machine(arguments, machine);
  return ExitCode::ok;
}

}  // namespace

void add_simulate(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("simulate", "Run on a machine model; calibrate one");
  verb->footer(kSimulateFooter);
  const auto arguments = std::make_shared<SimulateArguments>();
  add_problem_options(*verb, arguments->problem, Selection::one);
  add_plan_options(*verb, arguments->plan);
  add_what_if_options(*verb, arguments->set, arguments->vary, arguments->turns);
  verb->add_flag("--show-machine", arguments->show_machine, "Print the machine model")
      ->group("Machine");
  verb->add_option("--calibrate", arguments->calibrate, "Fit the machine model to traces")
      ->type_name("FILE...")
      ->group("Machine");
  verb->add_option("--machine-output", arguments->machine_output, "File for the machine model")
      ->type_name("FILE")
      ->group("Machine");
  verb->add_option("--replay", arguments->replay, "Take tasks and order from a trace")
      ->type_name("FILE");
  verb->add_flag("--json", arguments->json, "One JSON object to stdout")->group("Output");
  verb->add_option("-o,--output", arguments->output, "Trace of the first seed, Chrome trace JSON")
      ->type_name("FILE")
      ->group("Output");
  verb->add_option("--html", arguments->html, "Report with pictures, one HTML file")
      ->type_name("FILE")
      ->group("Output");
  verb->callback(
      [arguments, &action] { action = [arguments] { return simulate_problem(*arguments); }; });
}

}  // namespace megaconv::cli
