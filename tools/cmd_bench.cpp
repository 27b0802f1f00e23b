// SPDX-License-Identifier: Apache-2.0
// megaconv bench: for every layer direct tasks, staged order, megakernel order and, when asked, a
// peer, measured in turns in one process, each with its error.
#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "megaconv/plan.hpp"
#include "tools/bench_report.hpp"
#include "tools/commands.hpp"
#include "tools/log.hpp"
#include "tools/peer.hpp"
#include "tools/plan_arguments.hpp"
#include "tools/problem_selection.hpp"
#include "tools/records.hpp"
#include "tools/summary.hpp"
#include "tools/tensors.hpp"
#include "tools/terminal.hpp"
#include "tools/timing.hpp"

namespace megaconv::cli {
namespace {

constexpr const char* kFooter = R"(
Variants: "direct" runs direct tasks; "staged" one stage after the other with V and M whole; "mega"
the megakernel order that the plan options ask for, with V and M in a window. Filters are prepared
ahead of time unless --filters says every-run. --peer onednn is the better of oneDNN's algorithms,
in layouts of its own, reorders not counted.

Examples:
  megaconv bench --network resnet50
  megaconv bench --network vgg16 --batch 1 --threads 2 --peer onednn
  megaconv bench n4c64h56k64 n4c128h28k128 --policy depth_first
  megaconv bench --layers mine.csv --json -o results.json)";

struct BenchArguments {
  ProblemArguments problem;
  PlanArguments plan;
  TimingOptions timing;
  OutputArguments output;
  std::string peer;
  bool no_check = false;
};

PlanArguments direct_arguments(const PlanArguments& plan) {
  PlanArguments direct;
  direct.options.tiling.algorithm = Algorithm::direct;
  direct.options.tiling.filters = plan.options.tiling.filters;
  direct.options.num_threads = plan.options.num_threads;
  direct.options.wait_budget_ms = plan.options.wait_budget_ms;
  direct.seed = plan.seed;
  return direct;
}

PlanArguments staged_arguments(PlanArguments plan) {
  plan.mapping_file.clear();
  plan.options.tiling.whole_tensors = true;
  plan.options.tiling.v_slots = plan.options.tiling.m_slots = 0;
  plan.options.mapping = {.policy = Policy::staged};
  return plan;
}

LayerResult bench_layer(const NamedProblem& layer, const BenchArguments& arguments,
                        const std::function<void(const std::string&)>& report) {
  const ConvProblem& problem = layer.problem;
  HostTensors tensors = allocate_tensors(problem, !arguments.no_check);
  fill_random(tensors, arguments.plan.seed);

  report("planning");
  std::vector<TimedVariant> variants;
  std::vector<std::shared_ptr<Runner>> runners;
  LayerResult result{.name = layer.name, .problem = problem, .variants = {}};
  for (const auto& [name, plan] :
       {std::pair{kDirect, direct_arguments(arguments.plan)},
        std::pair{kStaged, staged_arguments(arguments.plan)}, std::pair{kMega, arguments.plan}}) {
    auto runner = std::make_shared<Runner>(make_plan(problem, plan), tensors);
    variants.push_back({name, [runner] { return runner->run_ms(); }});
    const Lowering& lowering = runner->plan().lowering();
    result.variants.push_back({.name = name,
                               .algorithm = algorithm_text(lowering.graph.tiling),
                               .policy = lowering.mapping.policy,
                               .workspace_bytes = runner->plan().workspace_bytes(),
                               .bound = error_bound(lowering.graph.tiling)});
    runners.push_back(std::move(runner));
  }
  std::vector<PeerVariant> peers;
  if (!arguments.peer.empty()) {
    peers =
        make_peer_variants(arguments.peer, problem, tensors, arguments.plan.options.tiling.filters,
                           runners.back()->plan().num_workers());
  }
  for (const PeerVariant& peer : peers) {
    variants.push_back({peer.name, [run = peer.run] { return wall_ms(run); }});
    result.variants.push_back(
        {.name = peer.name, .algorithm = peer.implementation, .policy = {}, .bound = {}});
  }

  const std::vector<TimeSummary> times = measure_interleaved(variants, arguments.timing, report);
  for (std::size_t i = 0; i < times.size(); ++i) result.variants[i].time = times[i];
  if (arguments.no_check) return result;

  report("computing the reference in double");
  const Reference reference(problem, tensors);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const bool ours = i < runners.size();
    if (ours) {
      runners[i]->run();
    } else {
      const PeerVariant& peer = peers[i - runners.size()];
      peer.run();
      peer.read_back(tensors.y.floats());
    }
    const Tiling& tiling = (ours ? runners[i] : runners.back())->tiling();
    result.variants[i].error = reference.compare(tiling, tensors.y.floats());
  }
  return result;
}

ExitCode bench(const BenchArguments& arguments) {
  const std::vector<NamedProblem> layers = select_problems(arguments.problem);
  if (layers.empty()) {
    throw Error(Status::invalid_argument,
                "bench needs a PROBLEM, --network, --suite or --layers (see bench --help)");
  }
  require_cpu(arguments.plan, "bench");
  if (!arguments.peer.empty()) check_peer(arguments.peer);
  check_output(arguments.output);
  // Bad options and problems end the command here, before the first layer is measured.
  std::uint32_t threads = 0;
  for (const NamedProblem& layer : layers) {
    threads = make_plan(layer.problem, arguments.plan).num_workers();
  }

  Progress progress;
  std::vector<LayerResult> results;
  for (const NamedProblem& layer : layers) {
    const std::string place =
        fmt::format("[{}/{}] {}: ", results.size() + 1, layers.size(), layer.name);
    log().info("{}{}", place, to_string(layer.problem));
    results.push_back(bench_layer(layer, arguments,
                                  [&](const std::string& text) { progress.show(place + text); }));
  }
  progress.clear();

  const bool prepared = arguments.plan.options.tiling.filters == FilterMode::prepared;
  if (!arguments.output.machine_stdout()) {
    std::fputs(bench_heading(threads, arguments.plan.seed, prepared, arguments.timing).c_str(),
               stdout);
    std::fputs(bench_table(results, arguments.peer).c_str(), stdout);
    std::fputs(bench_summary(results, arguments.peer).c_str(), stdout);
  }
  write_records(bench_records(results, threads, arguments.plan.seed, prepared), arguments.output);
  for (const LayerResult& result : results) {
    if (!result.right()) return ExitCode::different;
  }
  return ExitCode::ok;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("bench", "Measure layers: direct, staged and megakernel order, peers");
  verb->footer(kFooter);
  const auto arguments = std::make_shared<BenchArguments>();
  arguments->plan.options.tiling.filters = FilterMode::prepared;
  add_problem_options(*verb, arguments->problem, Selection::many);
  add_plan_options(*verb, arguments->plan);
  add_timing_options(*verb, arguments->timing);
  verb->add_option("--peer", arguments->peer, "Measure another library too: onednn")
      ->type_name("NAME");
  verb->add_flag("--no-check", arguments->no_check, "Do not compare with the double reference")
      ->group("Output");
  add_output_options(*verb, arguments->output);
  verb->callback([arguments, &action] { action = [arguments] { return bench(*arguments); }; });
}

}  // namespace megaconv::cli
