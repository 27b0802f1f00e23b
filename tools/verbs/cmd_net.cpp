// SPDX-License-Identifier: Apache-2.0
// megaconv net: a network: what becomes of it, its outputs, its time, its errors, its tasks.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "megaconv/network_file.hpp"
#include "megaconv/simulation.hpp"
#include "tasks/launch.hpp"
#include "tasks/lower.hpp"
#include "tasks/network_reference.hpp"
#include "tasks/small_gemm/pair_tensors.hpp"
#include "tasks/strides.hpp"
#include "tools/report/network_timeline.hpp"
#include "tools/report/records.hpp"
#include "tools/report/summary.hpp"
#include "tools/report/table.hpp"
#include "tools/report/terminal.hpp"
#include "tools/report/trace_json.hpp"
#include "tools/report/what_if.hpp"
#include "tools/run/file_io.hpp"
#include "tools/run/network_arrays.hpp"
#include "tools/run/network_runner.hpp"
#include "tools/run/tensors.hpp"
#include "tools/run/timing.hpp"
#include "tools/verbs/commands.hpp"
#include "tools/verbs/network_arguments.hpp"
#include "tools/verbs/plan_arguments.hpp"
#include "tools/verbs/policy_spec.hpp"

namespace megaconv::cli {
namespace networks {  // names of other verbs again, which stand in one file in unity builds
namespace {

constexpr const char* kFooter = R"(
NAME is a built-in network, an ONNX model (FILE.onnx) or a file of `net export` (FILE.safetensors).
Weights of built-in networks are seeded, and so are images that are not given: then what counts is
shapes, times and errors, not classes. Batch norm is folded into the convolutions, and what can is
fused with them; `net show` says what became of every operator.

Arrays are what numpy.save writes, of float32 or float16, [N][C][H][W] whatever --layout says.

Examples:
  megaconv net list
  megaconv net import model.onnx
  megaconv net run model.onnx --input x.npy --output y.npy
  megaconv net run model.onnx --input left=a.npy --input right=b.npy --output y.npy
  megaconv net show resnet50
  megaconv net bench resnet50 mobilenet_v2 --threads 1
  megaconv net verify densenet121 --image 64
  megaconv net simulate resnet18 --machine cpu
  megaconv net simulate resnet50 --machine h100 --dtype f16 --vary network.hop_us=0.1,0.3,0.5
  megaconv net trace resnet50 -o resnet50.json --picture resnet50.svg
  megaconv net compare resnet50 --policies interleaved,staged,depth_first,apart
  megaconv net bench resnet50 --backend cuda --dtype f16 --launch staged
  megaconv net tune resnet50 --backend cuda --dtype f16)";

struct NetArguments {
  std::vector<std::string> names;
  NetworkChoice network;
  PlanArguments plan;
  TimingOptions timing;
  OutputArguments output;
  std::string file;                          ///< of a trace, a picture or a network
  std::string picture;                       ///< of a run
  std::vector<std::string> inputs, outputs;  ///< arrays
  std::vector<std::string> set;              ///< numbers of the machine to simulate
  std::string vary;                          ///< one of them, and its values
  int turns = 10;                            ///< of a simulation
};

Network selected(const NetArguments& arguments, const std::string& name) {
  return network_of(name, arguments.network, arguments.plan);
}

PlanOptions plan_options(const NetArguments& arguments) {
  return network_plan_options(arguments.plan);
}

/// The operators that a plan with these options has nodes of.
FusedNetwork fused_for(const Network& network, const PlanOptions& options) {
  const PlanOptions launched = choose_launch(network, options, target_of(options)).options;
  return fuse(network, launched.tiling, target_of(launched));
}

/// Floating-point operations of all convolutions.
double flops_of(const FusedNetwork& network) {
  double flops = 0;
  for (const FusedOperator& op : network.operators) {
    if (const auto* conv = std::get_if<ConvProblem>(&op.problem)) flops += conv->flops();
  }
  return flops;
}

std::int64_t weights_of(const FusedNetwork& network) {
  std::int64_t weights = 0;
  for (const FusedOperator& op : network.operators) {
    weights += op.w.size + static_cast<std::int64_t>(op.bias.size());
  }
  return weights;
}

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

ExitCode list(const NetArguments& arguments) {
  Table table;
  for (const char* title : {"network", "image", "operators", "nodes", "weights", "GFLOP"}) {
    table.add_column(title);
  }
  table.add_column("obstacle");
  bool any = false;
  std::string obstacle;
  for (const std::string& name : network_names()) {
    try {
      const Network network = selected(arguments, name);
      const FusedNetwork fused = fuse(network);
      const Shape& image = network.inputs.front().shape;
      table.add_row({name, fmt::format("{}x{}", image.h, image.w),
                     std::to_string(network.operators.size()),
                     std::to_string(fused.operators.size()),
                     fmt::format("{:.1f} M", static_cast<double>(weights_of(fused)) / 1e6),
                     fmt::format("{:.2f}", flops_of(fused) / 1e9), ""});
      any = true;
    } catch (const Error& error) {  // of this network: an image too small for it
      obstacle = error.what();
      table.add_row({name, "", "", "", "", "", obstacle});
    }
  }
  if (!any) throw Error(Status::invalid_argument, obstacle);
  std::fputs(table.str().c_str(), stdout);
  return ExitCode::ok;
}

// What the network reads and makes, and what it is made of.
ExitCode import(const NetArguments& arguments) {
  const std::string& name = arguments.names.front();
  const Network network = selected(arguments, name);
  const FusedNetwork fused = fuse(network);
  const std::map<std::string, Shape> shapes = shapes_of(network);
  for (const NetworkInput& input : network.inputs) {
    fmt::print("input     {}, {}\n", input.name, to_string(input.shape));
  }
  for (const std::string& output : network.outputs) {
    fmt::print("output    {}, {}\n", output, to_string(shapes.at(output)));
  }
  std::map<std::string, int> kinds;
  for (const Operator& op : network.operators) ++kinds[kind_of(op)];
  std::string text;
  for (const auto& [kind, count] : kinds) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  }
  fmt::print("operators {}\n", text);
  fmt::print("nodes     {}\n", fused.operators.size());
  fmt::print("weights   {:.1f} M\n", static_cast<double>(weights_of(fused)) / 1e6);
  fmt::print("GFLOP     {:.2f}\n", flops_of(fused) / 1e9);
  return ExitCode::ok;
}

ExitCode export_file(const NetArguments& arguments) {
  require_writable(arguments.file);
  write_file(arguments.file, export_network(selected(arguments, arguments.names.front())));
  fmt::print("written to {}\n", arguments.file);
  return ExitCode::ok;
}

/// Nodes and what passes between them, for Graphviz.
std::string picture(const FusedNetwork& network, const Lowering& lowering) {
  std::string dot = "digraph network {\n  node [shape=box, fontname=\"sans\"];\n";
  const auto node = [](std::size_t value) { return "v" + std::to_string(value); };
  for (std::size_t i = 0; i < network.inputs.size(); ++i) {
    dot += fmt::format("  {} [label=\"{}\\n{}\", shape=ellipse];\n", node(i),
                       network.inputs[i].name, to_string(network.inputs[i].shape));
  }
  for (std::size_t i = 0; i < network.operators.size(); ++i) {
    const FusedOperator& op = network.operators[i];
    const std::string to = node(network.inputs.size() + i);
    dot += fmt::format("  {} [label=\"{}\\n{}\"];\n", to, names_text(op),
                       summary(lowering.nodes[i].cut));
    for (const ValueId value : op.reads) dot += fmt::format("  {} -> {};\n", node(value), to);
  }
  return dot + "}\n";
}

ExitCode show(const NetArguments& arguments) {
  if (!arguments.file.empty()) require_writable(arguments.file);
  const Network network = selected(arguments, arguments.names.front());
  const auto begin = std::chrono::steady_clock::now();
  const Plan plan = Plan::create(network, plan_options(arguments));
  const double planning_ms = milliseconds_since(begin);
  fmt::print("{}planned in {} ms\n", plan.describe(), format_ms(planning_ms));
  if (!arguments.file.empty()) {
    write_file(arguments.file,
               picture(fused_for(network, plan_options(arguments)), plan.lowering()));
    fmt::print("written to {}\n", arguments.file);
  }
  return ExitCode::ok;
}

ExitCode run(const NetArguments& arguments) {
  const Network network = selected(arguments, arguments.names.front());
  const std::map<std::string, Shape> shapes = shapes_of(network);
  std::vector<std::string> names;
  for (const NetworkInput& input : network.inputs) names.push_back(input.name);
  const std::vector<std::string> inputs = files_of("--input", arguments.inputs, names);
  const std::vector<std::string> outputs = files_of("--output", arguments.outputs, network.outputs);
  for (const std::string& file : outputs) {
    if (!file.empty()) require_writable(file);
  }
  NetworkRunner runner(network, plan_options(arguments), arguments.plan.seed);
  for (std::size_t i = 0; i < inputs.size() && !arguments.inputs.empty(); ++i) {
    if (inputs[i].empty()) {
      throw Error(Status::invalid_argument,
                  "--input " + names[i] + "=FILE is missing, must be given for all or none");
    }
    std::vector<std::byte> bytes = runner.input(i);
    read_value(inputs[i], network, network.inputs[i].shape, bytes.data());
    runner.set_input(i, bytes);
  }
  runner.run();
  const auto begin = std::chrono::steady_clock::now();
  runner.run();
  const double ms = milliseconds_since(begin);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& output = network.outputs[i];
    if (outputs[i].empty()) continue;
    write_value(outputs[i], network, shapes.at(output), runner.output(i).data());
    fmt::print("written   {} to {}\n", output, outputs[i]);
  }
  for (std::size_t i = 0; i < network.outputs.size(); ++i) {
    const std::vector<std::byte> bytes = runner.output(i);
    const auto count = static_cast<std::int64_t>(bytes.size() / size_of(network.dtype));
    std::int64_t largest = 0;
    const auto at = [&](std::int64_t index) {
      return number_at(device_of(Backend::cpu), network.dtype, bytes.data(), index);
    };
    for (std::int64_t k = 1; k < count; ++k) largest = at(k) > at(largest) ? k : largest;
    fmt::print("output    {}, {} numbers, the largest {:.4f} at {}\n", network.outputs[i], count,
               at(largest), largest);
    fmt::print("checksum  {:016x}\n", checksum(bytes));
  }
  fmt::print("time      {} ms, the second run, {}\n", format_ms(ms),
             count_text(runner.plan().num_workers(),
                        runner.plan().backend() == Backend::cuda ? "block" : "thread"));
  return ExitCode::ok;
}

ExitCode bench(const NetArguments& arguments) {
  check_output(arguments.output);
  Progress progress;
  Table table;
  for (const char* title : {"network", "median", "p10", "p90"}) {
    table.add_column(title, title == std::string("network") ? "" : "time, ms");
  }
  for (const char* title : {"GFLOP/s", "planning, ms", "filters", "workspace", "activations"}) {
    table.add_column(title);
  }
  std::vector<Record> records;
  for (const std::string& name : arguments.names) {
    const Network network = selected(arguments, name);
    const auto begin = std::chrono::steady_clock::now();
    const FusedNetwork fused = fuse(network);
    static_cast<void>(Plan::create(network, plan_options(arguments)));
    const double planning_ms = milliseconds_since(begin);
    NetworkRunner runner(network, plan_options(arguments), arguments.plan.seed);
    const TimedVariant variant{name, turns_of([&] { return runner.sample_ms(); })};
    const TimeSummary time =
        measure_interleaved(std::span(&variant, 1), arguments.timing, [&](const std::string& text) {
          progress.show(text);
        }).front();
    const Plan& plan = runner.plan();
    std::uint64_t activations = 0;
    for (const Node& node : plan.lowering().nodes) {
      activations += plan.lowering().graph.buffers[node.buffers.y].bytes;
    }
    const double gflops = flops_of(fused) / time.median_ms / 1e6;
    table.add_row({name, format_ms(time.median_ms), format_ms(time.p10_ms), format_ms(time.p90_ms),
                   fmt::format("{:.1f}", gflops), format_ms(planning_ms),
                   format_bytes(plan.prepared_filter_bytes()), format_bytes(plan.workspace_bytes()),
                   format_bytes(activations)});
    Record record = record_head("net_bench", site_of(device_of(plan.backend())), plan.num_workers(),
                                arguments.plan.seed);
    record.update({{"network", name},
                   {"batch", network.inputs.front().shape.n},
                   {"image", network.inputs.front().shape.h},
                   {"dtype", to_string(network.dtype)},
                   {"layout", to_string(network.layout)},
                   {"policy", plan.lowering().mapping.policy},
                   {"tasks", plan.lowering().graph.tasks.size()},
                   {"samples", time.samples},
                   {"median_ms", time.median_ms},
                   {"p10_ms", time.p10_ms},
                   {"p90_ms", time.p90_ms},
                   {"gflops", gflops},
                   {"planning_ms", planning_ms},
                   {"prepared_filter_bytes", plan.prepared_filter_bytes()},
                   {"workspace_bytes", plan.workspace_bytes()},
                   {"activation_bytes", activations}});
    records.push_back(std::move(record));
  }
  progress.clear();
  if (!arguments.output.machine_stdout()) std::fputs(table.str().c_str(), stdout);
  write_records(records, arguments.output);
  return ExitCode::ok;
}

/// The numbers of a tensor in nchw, of that storage type, in nhwc.
std::vector<std::byte> in_nhwc(const std::vector<std::byte>& tensor, const Shape& shape,
                               std::size_t number_bytes) {
  const std::int64_t pixels = shape.h * shape.w;
  const Strides to = strides_of(Layout::nhwc, shape.n, shape.c, pixels);
  std::vector<std::byte> moved(tensor.size());
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    const std::int64_t at =
        i / pixels / shape.c * to.image + i / pixels % shape.c * to.channel + i % pixels * to.pixel;
    std::memcpy(moved.data() + static_cast<std::size_t>(at) * number_bytes,
                tensor.data() + static_cast<std::size_t>(i) * number_bytes, number_bytes);
  }
  return moved;
}

// Every operator on what it has really read, so that errors do not add up: of a plan whose outputs
// are all values that tasks store when operators are fused, as many at a time as a plan may give.
// Its results must be those of the plan that keeps them in the workspace. On CUDA operators have
// values in nhwc whatever the network's layout, and so has that plan.
constexpr std::size_t kValuesAtOnce = 100;

ExitCode verify(const NetArguments& arguments) {
  Network network = selected(arguments, arguments.names.front());
  const PlanOptions options = plan_options(arguments);
  NetworkRunner whole(network, options, arguments.plan.seed);
  whole.run();
  const std::string output = network.outputs.front();
  std::vector<std::byte> wanted = whole.output(0);
  std::vector<std::vector<std::byte>> values;
  for (std::size_t i = 0; i < network.inputs.size(); ++i) values.push_back(whole.input(i));
  if (network.layout == Layout::nchw && options.backend == Backend::cuda) {
    network.layout = Layout::nhwc;
    const std::size_t number_bytes = size_of(network.dtype);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = in_nhwc(values[i], network.inputs[i].shape, number_bytes);
    }
    wanted = in_nhwc(wanted, shapes_of(network).at(output), number_bytes);
  }
  const FusedNetwork fused = fuse(network);
  const std::set<std::string> in_readers = not_stored(whole.plan().lowering());
  const auto is_stored = [&](std::size_t i) {
    return !in_readers.contains(fused.operators[i].name());
  };
  values.resize(fused.inputs.size() + fused.operators.size());
  std::vector<Node> nodes;
  for (std::size_t begin = 0; begin < fused.operators.size(); begin += kValuesAtOnce) {
    const std::size_t end = std::min(begin + kValuesAtOnce, fused.operators.size());
    network.outputs.clear();
    for (std::size_t i = begin; i < end; ++i) {
      if (is_stored(i)) network.outputs.push_back(fused.operators[i].value());
    }
    NetworkRunner runner(network, options, arguments.plan.seed);
    for (std::size_t i = 0; i < network.inputs.size(); ++i) runner.set_input(i, values[i]);
    runner.run();
    if (begin == 0) nodes = runner.plan().lowering().nodes;
    std::size_t output = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (is_stored(i)) values[fused.inputs.size() + i] = runner.output(output++);
    }
  }
  Progress progress;
  progress.show(fmt::format("0/{} nodes", fused.operators.size()));
  OperatorCheck worst;
  std::optional<std::size_t> wrong;
  const auto visit = [&](std::size_t i, const OperatorCheck& check) {
    progress.show(fmt::format("{}/{} nodes", i + 1, fused.operators.size()));
    if (!check.right()) wrong = i;
    if (wrong || check.share_of_bound >= worst.share_of_bound) worst = check;
    return !wrong;
  };
  check_operators(fused, nodes, values, visit);
  progress.clear();
  if (wrong) {
    fmt::print("FAILED: operator {}: {}\n  {}\n", worst.name, worst.text,
               summary(nodes[*wrong].cut));
    return ExitCode::different;
  }
  const auto made = std::find_if(fused.operators.begin(), fused.operators.end(),
                                 [&](const FusedOperator& op) { return op.value() == output; });
  const std::vector<std::byte>& found =
      values[fused.inputs.size() + static_cast<std::size_t>(made - fused.operators.begin())];
  const bool pairs = has_pairs(whole.plan().lowering());
  if (wanted != found && !pairs) {
    fmt::print("FAILED: operator {}: its bits differ where values lie in the workspace\n", output);
    return ExitCode::different;
  }
  fmt::print("{} right: {}\ngreatest error: {:.0f}% of its bound, in {}\n", arguments.names.front(),
             count_text(fused.operators.size(), "node"), 100 * worst.share_of_bound, worst.name);
  if (pairs) {
    fmt::print(
        "In the workspace values lie as pairs of FP16 numbers: {} is {:.1e} from these bits\n",
        output, relative_l2(numbers_of(network.dtype, wanted), numbers_of(network.dtype, found)));
  }
  return ExitCode::ok;
}

/// Work of every node, the longest first.
std::string operator_table(const Lowering& lowering, const FusedNetwork& network,
                           const Trace& trace) {
  constexpr std::size_t kMost = 20;
  std::vector<double> us(lowering.nodes.size());
  double all_us = 0;
  for (const TraceRecord& record : trace.records) {
    const Task& task = lowering.graph.tasks[lowering.mapping.order[record.position]];
    const double work = static_cast<double>(record.end_ns - record.ready_ns) / 1000;
    us[task.node] += work;
    all_us += work;
  }
  std::vector<std::size_t> order(us.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return us[a] > us[b]; });
  Table table;
  for (const char* title : {"node", "work, us", "share", "GFLOP/s", "how"}) {
    table.add_column(title);
  }
  for (std::size_t i = 0; i < std::min(kMost, order.size()); ++i) {
    const std::size_t node = order[i];
    const auto* const conv = std::get_if<ConvProblem>(&network.operators[node].problem);
    table.add_row({network.operators[node].name(), fmt::format("{:.1f}", us[node]),
                   fmt::format("{:.1f}%", 100 * us[node] / std::max(all_us, 1e-3)),
                   conv != nullptr ? fmt::format("{:.1f}", conv->flops() / us[node] / 1e3) : "",
                   summary(lowering.nodes[node].cut)});
  }
  return table.str();
}

/// What kinds of tasks did, what nodes did, and what was waited for; and the files.
void report_run(const NetArguments& arguments, const RecordedRun& run,
                const FusedNetwork& network) {
  std::fputs((trace_table(analyse(run.lowering, run.trace)) + '\n' +
              operator_table(run.lowering, network, run.trace) + '\n' + network_waits(run))
                 .c_str(),
             stdout);
  const auto write = [](const std::string& path, const auto& text) {
    if (path.empty()) return;
    write_file(path, text());
    fmt::print("written to {}\n", path);
  };
  write(arguments.file, [&] { return trace_json(run); });
  write(arguments.picture, [&] {
    return network_timeline(
        run, fmt::format("{}, {}: {:.0f} us, {}", arguments.names.front(),
                         run.lowering.mapping.policy, analyse(run.lowering, run.trace).span_us,
                         count_text(run.trace.num_workers, run.worker_name.c_str())));
  });
}

void check_files(const NetArguments& arguments) {
  for (const std::string& path : {arguments.file, arguments.picture}) {
    if (!path.empty()) require_writable(path);
  }
}

ExitCode trace(const NetArguments& arguments) {
  check_files(arguments);
  const Network network = selected(arguments, arguments.names.front());
  PlanOptions options = plan_options(arguments);
  if (options.cuda_launch == CudaLaunch::automatic) {
    options.cuda_launch = CudaLaunch::persistent;  // stages record nothing
  }
  NetworkRunner runner(network, options, arguments.plan.seed);
  std::vector<double> times_ms;
  for (int i = 0; i < 5; ++i) times_ms.push_back(runner.sample_ms());
  RecordedRun run{runner.plan().lowering(), {}, "worker", 1000 * summarize(times_ms).median_ms};
  runner.run(&run.trace);
  fmt::print("{:.1f} us without tracing\n", run.time_us);
  report_run(arguments, run, fused_for(network, options));
  return ExitCode::ok;
}

/// The plan of a network on the machine of the arguments.
Plan simulated_plan(const Network& network, const PlanArguments& arguments) {
  PlanOptions options = network_plan_options(arguments);
  options.backend = Backend::sim;
  return Plan::create(network, options);
}

ExitCode simulate_network(const NetArguments& arguments) {
  check_files(arguments);
  const Network network = selected(arguments, arguments.names.front());
  PlanArguments changed = arguments.plan;
  const MachineModel machine = machine_with(changed, arguments.set);
  changed.options.machine = machine;
  if (!arguments.vary.empty()) {
    const std::vector<WhatIfResult> results = simulate_cases(
        arguments.vary, changed, arguments.turns,
        [&](const PlanArguments& plan) { return simulated_plan(network, plan).lowering(); });
    std::fputs(what_if_table(results).c_str(), stdout);
    return ExitCode::ok;
  }
  const Plan plan = simulated_plan(network, changed);
  const WhatIfResult result =
      simulate_turns("", plan.lowering(), machine, simulation_options(changed), arguments.turns);
  const Bounds bounds = lower_bounds(plan.lowering().graph, machine);
  const FusedNetwork fused = fused_for(network, changed.options);
  fmt::print(
      "machine  {}, {} units of {} workers\norder    {}, {} tasks of {} nodes\n"
      "time     {:.1f} us (95 % between {:.1f} and {:.1f}), {:.1f} GFLOP/s\n"
      "bound    {:.1f} us: critical path {:.1f}, work {:.1f}, compute {:.1f}, HBM {:.1f}\n",
      machine.name, machine.units, machine.workers_per_unit, plan.lowering().mapping.policy,
      plan.lowering().graph.tasks.size(), plan.lowering().nodes.size(), result.time_us.median,
      result.time_us.low, result.time_us.high, flops_of(fused) / result.time_us.median / 1e3,
      bounds.least_us(), bounds.critical_path_us, bounds.work_us, bounds.compute_us, bounds.hbm_us);
  report_run(arguments, {plan.lowering(), result.first.trace, "SM", result.first.time_us}, fused);
  return ExitCode::ok;
}

using Verb = ExitCode (*)(const NetArguments& arguments);

CLI::App* add_verb(CLI::App& net, Action& action, const char* name, const char* description,
                   Verb run, const std::shared_ptr<NetArguments>& arguments) {
  CLI::App* verb = net.add_subcommand(name, description);
  verb->footer(kFooter);
  add_network_options(*verb, arguments->network);
  verb->callback([arguments, run, &action] { action = [=] { return run(*arguments); }; });
  return verb;
}

}  // namespace

void add(CLI::App& app, Action& action) {
  CLI::App* net = app.add_subcommand("net", "Whole networks in one run");
  net->footer(kFooter);
  net->callback([net] {
    if (!net->get_subcommands().empty()) return;
    throw Error(Status::invalid_argument,
                "net needs one of list, import, export, show, run, bench, verify, simulate, trace, "
                "compare or tune (see net --help)");
  });
  const auto add_one = [&](const char* name, const char* description, Verb run) {
    const auto arguments = std::make_shared<NetArguments>();
    CLI::App* verb = add_verb(*net, action, name, description, run, arguments);
    if (run == list) return;
    CLI::Option* names =
        verb->add_option("name", arguments->names,
                         "Network: built in (net list), FILE.onnx or FILE.safetensors")
            ->type_name("NAME")
            ->required();
    if (run != bench) names->expected(1);
    if (run == export_file) {
      verb->add_option("-o,--output", arguments->file, "Network and weights, safetensors")
          ->type_name("FILE")
          ->required()
          ->group("Output");
    }
    if (run == import || run == export_file) return;
    if (run == networks::run) {
      verb->add_option("--input", arguments->inputs,
                       "Array, .npy; NAME=FILE where there are several")
          ->type_name("FILE")
          ->group("Arrays");
      verb->add_option("--output", arguments->outputs,
                       "Array to write, .npy; NAME=FILE where there are several")
          ->type_name("FILE")
          ->group("Arrays");
    }
    add_policy_option(*verb, arguments->plan.options, false);
    add_distance_options(*verb, arguments->plan.options.mapping);
    add_network_plan_options(*verb, arguments->plan);
    if (run == bench) {
      add_timing_options(*verb, arguments->timing);
      add_output_options(*verb, arguments->output);
    }
    if (run == simulate_network) {
      add_machine_option(*verb, arguments->plan);
      add_what_if_options(*verb, arguments->set, arguments->vary, arguments->turns);
    }
    if (run == show || run == trace || run == simulate_network) {
      verb->add_option("-o,--output", arguments->file,
                       run == show ? "Picture of the nodes, for Graphviz"
                                   : "Trace of the run, Chrome trace JSON")
          ->type_name("FILE")
          ->group("Output");
    }
    if (run == trace || run == simulate_network) {
      verb->add_option("--picture", arguments->picture,
                       "Timeline of the run, a row for every node, SVG")
          ->type_name("FILE")
          ->group("Output");
    }
  };
  add_one("list", "The built-in networks", list);
  add_one("import", "What a model is, or why it cannot be used", import);
  add_one("export", "Write a network and its weights to a file", export_file);
  add_one("show", "What becomes of every operator", show);
  add_one("run", "Run a network", run);
  add_one("bench", "Measure networks", bench);
  add_one("verify", "Check every operator against a double reference", verify);
  add_one("simulate", "Run a network on a machine model", simulate_network);
  add_one("trace", "One run, task by task", trace);
  add_net_compare(*net, action);
  add_net_tune(*net, action);
}

}  // namespace networks

void add_net(CLI::App& app, Action& action) { networks::add(app, action); }

}  // namespace megaconv::cli
