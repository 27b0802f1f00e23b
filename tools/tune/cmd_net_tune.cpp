// SPDX-License-Identifier: Apache-2.0
// megaconv net tune: the fastest plans of whole networks, kept in the plan database.
#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "runtime/tuning/sweep.hpp"
#include "tools/report/records.hpp"
#include "tools/report/table.hpp"
#include "tools/report/terminal.hpp"
#include "tools/tune/network_bench.hpp"
#include "tools/tune/tune_arguments.hpp"
#include "tools/tune/tune_json.hpp"
#include "tools/verbs/commands.hpp"
#include "tools/verbs/interrupt.hpp"
#include "tools/verbs/network_arguments.hpp"
#include "tools/verbs/policy_spec.hpp"

namespace megaconv::cli {
namespace net_tune {
namespace {

constexpr const char* kFooter = R"(
Measures every candidate of a network as a whole: on CUDA one launch in clusters of 1, 2 and 4
blocks and in several orders, and stages; on a CPU orders, their distances, and direct convolution.
What the options fix stays fixed. A time counts only when the outputs are those of the plan that the
library chooses by itself, up to roundings. Every measurement is on disk before the next begins;
plans of the same network take the fastest from then on.

Examples:
  megaconv net tune resnet50
  megaconv net tune resnet50 mobilenet_v2 --backend cuda --dtype f16
  megaconv net tune model.onnx --backend cuda --precision tf32 --database mine.db --resume)";

struct NetTuneArguments {
  std::vector<std::string> names;
  NetworkChoice network;
  PlanArguments plan;
  SweepOptions sweep;
  SampleOptions samples;
  OutputArguments output;
  bool resume = false;
};

/// What became of one network.
struct TunedNetwork {
  std::string name;
  PlanKey key;
  SweepState state;
};

TunedNetwork tune_network(const std::string& name, const NetTuneArguments& arguments,
                          PlanDatabase& database, Progress& progress) {
  const Network network = network_of(name, arguments.network, arguments.plan);
  const PlanOptions options = network_plan_options(arguments.plan);
  const Space space = make_space(network, target_of(options), {.plan = options, .axes = {}});
  const Search search{space, nullptr, arguments.plan.seed};
  const PlanKey key = plan_key(network, options);
  const auto known = arguments.resume ? database.measurements(key) : std::vector<Measurement>();
  progress.show(name + ": making the plan to compare with");
  NetworkBench bench(network, options, arguments.plan.seed);
  Sweep sweep(
      search, key, &database, known, arguments.sweep,
      [&](const Configuration& configuration, double best_ms) -> std::optional<Measurement> {
        if (interrupted()) return std::nullopt;
        return bench.measure(configuration, arguments.samples, best_ms);
      },
      [&](const SweepState& state, const Measurement&) {
        progress.show(fmt::format("{}: {} measured of about {}, best {} ms", name, state.measured,
                                  space.size() + 1, format_ms(state.best_ms)));
      });
  sweep.run();
  return {name, key, sweep.state()};
}

std::string speedup_text(const SweepState& state) {
  const bool found = state.best_ms > 0 && state.heuristic_ms > 0;
  return found ? fmt::format("{:.2f}x", state.heuristic_ms / state.best_ms) : "-";
}

std::string table_of(const std::vector<TunedNetwork>& networks) {
  Table table;
  table.add_column("network");
  for (const char* title : {"measured", "known", "failed"}) table.add_column(title, "candidates");
  for (const char* title : {"heuristic", "best"}) table.add_column(title, "ms");
  table.add_column("speedup");
  std::string configurations;
  for (const auto& [name, key, state] : networks) {
    const auto ms = [](double time) { return time > 0 ? format_ms(time) : std::string("-"); };
    table.add_row({name, std::to_string(state.measured), std::to_string(state.known),
                   std::to_string(state.failed), ms(state.heuristic_ms), ms(state.best_ms),
                   speedup_text(state)});
    configurations +=
        name + ": " +
        (state.best_ms > 0 ? megaconv::to_string(state.best) : "no candidate was right") + '\n';
  }
  return table.str() + '\n' + configurations;
}

Record record_of(const TunedNetwork& item) {
  const SweepState& state = item.state;
  Record record = {
      {"schema_version", kSchemaVersion}, {"kind", "net_tune"}, {"network", item.name}};
  record.update(to_json(item.key));
  record.update(Record{{"measured", state.measured},
                       {"known", state.known},
                       {"failed", state.failed},
                       {"seconds", state.elapsed_s},
                       {"heuristic_ms", state.heuristic_ms},
                       {"best_ms", state.best_ms},
                       {"configuration", megaconv::to_string(state.best)}});
  return record;
}

ExitCode tune(const NetTuneArguments& arguments) {
  check_output(arguments.output);
  const PlanOptions& options = arguments.plan.options;
  if (options.policy) {
    throw Error(Status::invalid_argument, "net tune: --policy " + options.mapping.policy +
                                              ", must be a name: plans could not find that file");
  }
  PlanDatabase database(database_file(options), PlanDatabase::Access::write);
  const InterruptGuard guard;
  Progress progress;
  std::vector<TunedNetwork> results;
  std::vector<Record> records;
  bool all_found = true;
  for (const std::string& name : arguments.names) {
    if (interrupted()) break;
    results.push_back(tune_network(name, arguments, database, progress));
    records.push_back(record_of(results.back()));
    all_found = all_found && results.back().state.best_ms > 0;
  }
  progress.clear();
  if (!arguments.output.machine_stdout()) {
    std::fputs(table_of(results).c_str(), stdout);
    fmt::print("kept in {}\n", database.file());
  }
  write_records(records, arguments.output);
  if (interrupted()) return ExitCode::interrupted;
  return all_found ? ExitCode::ok : ExitCode::different;
}

}  // namespace

void add(CLI::App& net, Action& action) {
  CLI::App* verb = net.add_subcommand("tune", "Search the fastest plans, and keep them for later");
  verb->footer(kFooter);
  const auto arguments = std::make_shared<NetTuneArguments>();
  add_network_options(*verb, arguments->network);
  verb->add_option("name", arguments->names,
                   "Network: built in (net list), FILE.onnx or FILE.safetensors")
      ->type_name("NAME")
      ->required();
  add_policy_option(*verb, arguments->plan.options, false);
  add_distance_options(*verb, arguments->plan.options.mapping);
  add_network_plan_options(*verb, arguments->plan);
  add_sample_options(*verb, arguments->samples);
  add_sweep_options(*verb, arguments->sweep, arguments->resume);
  add_output_options(*verb, arguments->output);
  verb->callback([arguments, &action] {
    arguments->sweep.strategy = Strategy::exhaustive;  // candidates are few
    arguments->sweep.evaluations = 0;
    arguments->sweep.seed = arguments->plan.seed;
    arguments->sweep.interrupted = interrupted;
    action = [arguments] { return tune(*arguments); };
  });
}

}  // namespace net_tune

void add_net_tune(CLI::App& net, Action& action) { net_tune::add(net, action); }

}  // namespace megaconv::cli
