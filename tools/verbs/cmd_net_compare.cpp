// SPDX-License-Identifier: Apache-2.0
// megaconv net compare: policies over a whole network, measured or simulated in turns.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/simulation.hpp"
#include "tools/report/comparison.hpp"
#include "tools/report/confidence.hpp"
#include "tools/report/percent.hpp"
#include "tools/report/records.hpp"
#include "tools/report/terminal.hpp"
#include "tools/run/network_parts.hpp"
#include "tools/run/network_runner.hpp"
#include "tools/verbs/commands.hpp"
#include "tools/verbs/network_arguments.hpp"
#include "tools/verbs/number.hpp"
#include "tools/verbs/policy_spec.hpp"

namespace megaconv::cli {
namespace net_compare {
namespace {

constexpr const char* kFooter = R"(
A policy is a name with its parameters, interleaved:dig=64:m=2 or depth_first:dig=32, or a shared
object, ./mine.so. "apart" is no policy: it is a run for every operator, layer by layer.

In each turn every policy runs once, so that all see the same machine. Times are medians over the
turns with a 95 % confidence interval; "against first" is the ratio to the first policy of the list,
turn by turn. "chain" is the longest chain of tasks, each of which waits for the one before it.

Examples:
  megaconv net compare resnet50 --policies interleaved,staged,depth_first,apart
  megaconv net compare resnet50 --machine h200 --policies interleaved,depth_first:dig=264)";

constexpr const char* kApart = "apart";

struct CompareArguments {
  std::string name;
  NetworkChoice network;
  PlanArguments plan;
  OutputArguments output;
  std::string policies = "interleaved,staged,depth_first,critical_path,random_topological,apart";
  bool simulated = false;
  int turns = 10;
};

/// A way to run a network.
class Way {
 public:
  virtual ~Way() = default;
  virtual double turn_us(std::uint64_t seed) = 0;
  virtual std::optional<Trace> record() { return std::nullopt; }
  virtual const Lowering* lowering() const { return nullptr; }  ///< null: of several plans
  virtual std::size_t workspace_bytes() const = 0;
};

/// Run: NetworkRunner or NetworkParts.
template <class Run>
class Sampled : public Way {
 public:
  Sampled(const Network& network, const PlanOptions& options, std::uint64_t seed)
      : run_(network, options, seed) {
    run_.run();
  }
  double turn_us(std::uint64_t) override {
    run_.sample_ms();  // to have the caches as it leaves them
    return 1000 * run_.sample_ms();
  }

 protected:
  Run run_;
};

class Measured : public Sampled<NetworkRunner> {
 public:
  using Sampled::Sampled;
  std::optional<Trace> record() override {
    if (run_.plan().lowering().mapping.policy == "staged" &&
        run_.plan().backend() == Backend::cuda) {
      return std::nullopt;
    }
    Trace trace;
    run_.run(&trace);
    return trace;
  }
  const Lowering* lowering() const override { return &run_.plan().lowering(); }
  std::size_t workspace_bytes() const override { return run_.plan().workspace_bytes(); }
};

class MeasuredApart : public Sampled<NetworkParts> {
 public:
  using Sampled::Sampled;
  std::size_t workspace_bytes() const override { return run_.value_bytes(); }
};

class Simulated : public Way {
 public:
  Simulated(const std::vector<Network>& parts, const PlanOptions& options)
      : machine_(*options.machine) {
    for (const Network& part : parts) plans_.push_back(Plan::create(part, options));
  }
  double turn_us(std::uint64_t seed) override {
    double us = 0;
    for (const Plan& plan : plans_) {
      us += simulate(plan.lowering(), machine_, {.seed = seed}).time_us;
    }
    return us;
  }
  std::optional<Trace> record() override {
    if (plans_.size() > 1) return std::nullopt;
    return simulate(plans_.front().lowering(), machine_).trace;
  }
  const Lowering* lowering() const override {
    return plans_.size() > 1 ? nullptr : &plans_.front().lowering();
  }
  std::size_t workspace_bytes() const override {
    std::size_t bytes = 0;
    for (const Plan& plan : plans_) {
      bytes = std::max<std::size_t>(bytes, plan.workspace_bytes());
    }
    return bytes;
  }

 private:
  MachineModel machine_;
  std::vector<Plan> plans_;
};

struct Result {
  std::string policy;
  std::vector<double> times_us{};
  Estimate time_us{}, against_first{};
  std::size_t workspace_bytes = 0;
  // Of a trace, if there is one.
  std::optional<TraceAnalysis> analysis{};
  double wait = 0, idle = 0, chain_us = 0;
};

std::unique_ptr<Way> make_way(const Network& network, const std::string& policy,
                              const CompareArguments& arguments) {
  PlanArguments plan = arguments.plan;
  const bool apart = policy == kApart;
  if (!apart) {
    const PolicySpec spec = parse_policies(policy).front();
    if (!spec.mapping_file.empty()) {
      throw Error(Status::unsupported,
                  "policy " + policy + ": a mapping file, which is of one convolution");
    }
    plan = spec.apply(std::move(plan));
  }
  PlanOptions options = network_plan_options(plan);
  if (arguments.simulated) {
    options.backend = Backend::sim;
    options.machine = machine_of(arguments.plan);
    return std::make_unique<Simulated>(apart ? parts_of(network) : std::vector{network}, options);
  }
  if (apart) return std::make_unique<MeasuredApart>(network, options, plan.seed);
  return std::make_unique<Measured>(network, options, plan.seed);
}

void add_trace(Result& result, const Lowering& lowering, const Trace& trace) {
  result.analysis = analyse(lowering, trace);
  const double all_us = std::max(result.analysis->span_us * result.analysis->tracks, 1e-3);
  for (const KindTimes& kind : result.analysis->kinds) result.wait += kind.wait_us / all_us;
  result.idle = result.analysis->idle_us / all_us;
  for (const std::uint32_t position : longest_chain(lowering, trace)) {
    const TraceRecord& record = trace.records[position];
    result.chain_us += static_cast<double>(record.end_ns - record.ready_ns) / 1000;
  }
}

std::string table_of(const std::vector<Result>& results) {
  Table table = comparison_table("policy");
  table.add_column("wait", "share of workers' time");
  table.add_column("idle", "share of workers' time");
  table.add_column("chain, us");
  table.add_column("memory");
  for (const Result& result : results) {
    const auto traced = [&](const std::string& text) {
      return result.analysis ? text : std::string("-");
    };
    std::vector<std::string> cells =
        comparison_cells(result.policy, result.time_us, result.against_first);
    cells.insert(cells.end(), {traced(percent(result.wait)), traced(percent(result.idle)),
                               traced(fmt::format("{:.1f}", result.chain_us)),
                               format_bytes(result.workspace_bytes)});
    table.add_row(std::move(cells));
  }
  return table.str();
}

std::vector<Record> records_of(const std::vector<Result>& results, const RecordSite& site,
                               const CompareArguments& arguments) {
  std::vector<Record> records;
  for (const Result& result : results) {
    const auto traced = [&](double value) { return result.analysis ? Record(value) : Record(); };
    Record record =
        record_head("net_compare", site,
                    result.analysis ? std::optional(result.analysis->tracks) : std::nullopt,
                    arguments.plan.seed);
    record.update({{"network", arguments.name},
                   {"policy", result.policy},
                   {"turns", result.times_us.size()},
                   {"time_us", result.time_us.median},
                   {"time_low_us", result.time_us.low},
                   {"time_high_us", result.time_us.high},
                   {"against_first", result.against_first.median},
                   {"against_first_low", result.against_first.low},
                   {"against_first_high", result.against_first.high},
                   {"wait_share", traced(result.wait)},
                   {"idle_share", traced(result.idle)},
                   {"chain_us", traced(result.chain_us)},
                   {"memory_bytes", result.workspace_bytes}});
    records.push_back(std::move(record));
  }
  return records;
}

ExitCode compare(const CompareArguments& arguments) {
  check_output(arguments.output);
  const Network network = network_of(arguments.name, arguments.network, arguments.plan);
  std::vector<Result> results;
  std::vector<std::unique_ptr<Way>> ways;
  Progress progress;
  for (std::size_t begin = 0; begin <= arguments.policies.size();) {
    const std::size_t end =
        std::min(arguments.policies.find(',', begin), arguments.policies.size());
    results.push_back({.policy = arguments.policies.substr(begin, end - begin)});
    begin = end + 1;
    progress.show("planning " + results.back().policy);
    ways.push_back(make_way(network, results.back().policy, arguments));
    results.back().workspace_bytes = ways.back()->workspace_bytes();
  }
  for (int turn = 1; turn <= arguments.turns; ++turn) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      progress.show(fmt::format("{}, turn {} of {}", results[i].policy, turn, arguments.turns));
      results[i].times_us.push_back(ways[i]->turn_us(static_cast<std::uint64_t>(turn)));
    }
  }
  for (std::size_t i = 0; i < ways.size(); ++i) {
    Result& result = results[i];
    result.time_us = estimate_median(result.times_us);
    std::vector<double> ratios = result.times_us;
    for (std::size_t t = 0; t < ratios.size(); ++t) ratios[t] /= results.front().times_us[t];
    result.against_first = estimate_median(std::move(ratios));
    if (const std::optional<Trace> trace = ways[i]->record()) {
      add_trace(result, *ways[i]->lowering(), *trace);
    }
  }
  progress.clear();
  const RecordSite site = arguments.simulated
                              ? RecordSite{Backend::sim, machine_of(arguments.plan).name, "model"}
                              : site_of(device_of(arguments.plan.options.backend));
  if (!arguments.output.machine_stdout()) {
    fmt::print("{} on {}\n{}", arguments.name, site.device, table_of(results));
  }
  write_records(records_of(results, site, arguments), arguments.output);
  return ExitCode::ok;
}

}  // namespace
}  // namespace net_compare

void add_net_compare(CLI::App& net, Action& action) {
  CLI::App* verb = net.add_subcommand("compare", "Policies over a whole network");
  verb->footer(net_compare::kFooter);
  const auto arguments = std::make_shared<net_compare::CompareArguments>();
  verb->add_option("name", arguments->name,
                   "Network: built in (net list), FILE.onnx or FILE.safetensors")
      ->type_name("NAME")
      ->required();
  verb->add_option("--policies", arguments->policies, "Policies to compare; the first is the base")
      ->type_name("LIST");
  verb->add_option("--turns", arguments->turns, "Turns, each with a seed of its own")
      ->type_name("N")
      ->capture_default_str()
      ->check(number_from(1, 100000));
  add_network_options(*verb, arguments->network);
  add_network_plan_options(*verb, arguments->plan);
  add_machine_option(*verb, arguments->plan);
  add_output_options(*verb, arguments->output);
  verb->callback([arguments, verb, &action] {
    arguments->simulated = verb->count("--machine") > 0;
    action = [arguments] { return net_compare::compare(*arguments); };
  });
}

}  // namespace megaconv::cli
