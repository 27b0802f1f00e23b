// SPDX-License-Identifier: Apache-2.0
// megaconv lab: policies x layers x back ends, measured or simulated in turns.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "megaconv/error.hpp"
#include "tools/report/lab_report.hpp"
#include "tools/report/records.hpp"
#include "tools/report/terminal.hpp"
#include "tools/run/file_io.hpp"
#include "tools/run/trial.hpp"
#include "tools/verbs/choice.hpp"
#include "tools/verbs/commands.hpp"
#include "tools/verbs/log.hpp"
#include "tools/verbs/number.hpp"
#include "tools/verbs/plan_arguments.hpp"
#include "tools/verbs/policy_spec.hpp"
#include "tools/verbs/problem_selection.hpp"

namespace megaconv::cli {
namespace {

constexpr const char* kCompareFooter = R"(
A policy is a name with its parameters, interleaved:dig=264:dgo=264:m=2, random_topological:seed=3,
staged:window=whole; a shared object with a policy, ./mine.so (tools/examples/); or a mapping file,
order.json. Every order is proven right before it runs.

In each turn every policy runs once (sim: one seed; else the median of --runs), so that all see the
same machine. Times are medians over the turns with a 95 % confidence interval; "against first" is
the ratio to the first policy of the list, turn by turn. "above bound": the time against the lower
bound of the machine model, for the simulator; and a traced run's span against what any order of its
tasks takes at least, each as long as the fastest of these policies had its like.

Examples:
  megaconv lab compare n64c128h28k128 --policies interleaved,staged,depth_first
  megaconv lab compare n4c64h56k64 --policies interleaved,./mine.so --backends cpu,sim --machine cpu
  megaconv lab compare n64c128h28k128 --policies interleaved,staged --html policies.html
  megaconv lab compare --network resnet50 --batch 64 --backends cuda,sim --json -o lab.json)";

struct LabArguments {
  ProblemArguments problem;
  PlanArguments plan;
  OutputArguments output;
  std::string policies = "interleaved,staged,depth_first,critical_path,random_topological";
  std::string backends = "sim", traces, html;
  int turns = 10, runs = 5;
};

std::vector<Backend> parse_backends(const std::string& list) {
  const Choices<Backend> choices = named({Backend::cpu, Backend::cuda, Backend::sim});
  std::vector<Backend> backends;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    backends.push_back(choose<Backend>("--backends", list.substr(begin, end - begin), choices));
    begin = end + 1;
  }
  return backends;
}

/// A file name that says what is in it.
std::string trace_name(const LabResult& result) {
  std::string name = result.layer + '.' + result.policy + '.' + to_string(result.site.backend);
  for (char& ch : name) {
    if (!std::isalnum(static_cast<unsigned char>(ch)) && ch != '.' && ch != '_') ch = '-';
  }
  return name + ".trace.json";
}

/// All policies for one layer on one back end, in turns.
std::vector<LabResult> compare_on(const NamedProblem& layer, Backend backend,
                                  const std::vector<PolicySpec>& policies,
                                  const LabArguments& arguments,
                                  const std::function<void(const std::string&)>& report) {
  PlanArguments base = traceable(arguments.plan);
  base.options.backend = backend;
  const MachineModel machine = machine_of(base);
  const Experiment experiment(backend, layer.problem, arguments.plan.seed);
  std::vector<std::unique_ptr<Trial>> trials;
  std::vector<LabResult> results;
  for (const PolicySpec& policy : policies) {
    report("planning " + policy.text);
    const PlanArguments plan = policy.apply(base);
    trials.push_back(std::make_unique<Trial>(make_plan(layer.problem, plan), plan, experiment));
    LabResult result;
    result.layer = layer.name;
    result.policy = policy.text;
    result.site = backend == Backend::sim ? RecordSite{backend, machine.name, "model"}
                                          : site_of(device_of(backend));
    result.lowering = trials.back()->plan().lowering();
    if (backend == Backend::sim) {
      result.bound_us = lower_bounds(result.lowering.graph, machine).least_us();
      result.simulation = trials.back()->simulation();
    }
    results.push_back(std::move(result));
  }
  for (int turn = 1; turn <= arguments.turns; ++turn) {
    for (std::size_t i = 0; i < trials.size(); ++i) {
      report(fmt::format("{} on {}, turn {} of {}", policies[i].text, to_string(backend), turn,
                         arguments.turns));
      results[i].times_us.push_back(
          trials[i]->turn_us(static_cast<std::uint64_t>(turn), arguments.runs));
    }
  }
  for (std::size_t i = 0; i < trials.size(); ++i) {
    LabResult& result = results[i];
    result.time_us = estimate_median(result.times_us);
    std::vector<double> ratios(result.times_us);
    for (std::size_t t = 0; t < ratios.size(); ++t) ratios[t] /= results.front().times_us[t];
    result.against_first = estimate_median(std::move(ratios));
    const RecordedRun run = trials[i]->record(result.time_us.median);
    result.analysis = analyse(run.lowering, run.trace);
    result.times = task_times(run.lowering, run.trace);
    if (!arguments.traces.empty()) {
      write_file(arguments.traces + '/' + trace_name(result), trace_json(run));
    }
    if (!arguments.html.empty()) result.run = run;
  }
  bound_orders(results);
  return results;
}

ExitCode compare(const LabArguments& arguments) {
  const std::vector<NamedProblem> layers = select_problems(arguments.problem);
  if (layers.empty()) {
    throw Error(Status::invalid_argument,
                "lab compare needs a PROBLEM, --network, --suite or --layers (see lab compare "
                "--help)");
  }
  const std::vector<PolicySpec> policies = parse_policies(arguments.policies);
  const std::vector<Backend> backends = parse_backends(arguments.backends);
  check_output(arguments.output);
  if (!arguments.html.empty()) require_writable(arguments.html);
  if (!arguments.traces.empty()) make_folder(arguments.traces);

  Progress progress;
  std::vector<LabResult> results;
  std::size_t place = 0;
  for (const NamedProblem& layer : layers) {
    const std::string heading = fmt::format("[{}/{}] {}: ", ++place, layers.size(), layer.name);
    for (const Backend backend : backends) {
      for (LabResult& result :
           compare_on(layer, backend, policies, arguments,
                      [&](const std::string& text) { progress.show(heading + text); })) {
        results.push_back(std::move(result));
      }
    }
  }
  progress.clear();
  if (!arguments.output.machine_stdout()) std::fputs(lab_table(results).c_str(), stdout);
  write_records(lab_records(results, arguments.plan.seed), arguments.output);
  if (!arguments.html.empty()) write_file(arguments.html, lab_page(std::move(results)));
  return ExitCode::ok;
}

}  // namespace

void add_lab(CLI::App& app, Action& action) {
  CLI::App* lab = app.add_subcommand("lab", "Experiments with scheduling policies");
  lab->callback([lab] {
    if (!lab->get_subcommands().empty()) return;
    throw Error(Status::invalid_argument, "lab needs compare (see lab --help)");
  });
  lab->footer("\nExample:\n  megaconv lab compare n64c128h28k128 --policies interleaved,staged");
  CLI::App* verb = lab->add_subcommand("compare", "Policies x layers x back ends");
  verb->footer(kCompareFooter);
  const auto arguments = std::make_shared<LabArguments>();
  add_problem_options(*verb, arguments->problem, Selection::many);
  verb->add_option("--policies", arguments->policies, "Policies to compare; the first is the base")
      ->type_name("LIST");
  verb->add_option("--backends", arguments->backends, "sim (default), cuda, cpu, any of them")
      ->type_name("LIST");
  verb->add_option("--turns", arguments->turns, "Turns, each with a seed of its own")
      ->type_name("N")
      ->capture_default_str()
      ->check(number_from(1, 100000));
  verb->add_option("--runs", arguments->runs, "Runs of a turn where they are measured")
      ->type_name("N")
      ->capture_default_str()
      ->check(number_from(1, 100000));
  verb->add_option("--traces", arguments->traces, "Folder for a trace of every policy; it is made")
      ->type_name("FOLDER");
  verb->add_option("--html", arguments->html, "Page with the policies on one time axis")
      ->type_name("FILE");
  add_plan_options(*verb, arguments->plan);
  add_output_options(*verb, arguments->output);
  verb->callback([arguments, &action] { action = [arguments] { return compare(*arguments); }; });
}

}  // namespace megaconv::cli
