// SPDX-License-Identifier: Apache-2.0
// Networks: one task graph in one run, beside the same in double.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "megaconv/simulation.hpp"
#include "tasks/cuda/operators.hpp"
#include "tasks/lower.hpp"
#include "tasks/network_reference.hpp"
#include "tasks/pooling/reference.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"
#include "tests/runtime/exact_networks.hpp"
#include "tests/runtime/network_run.hpp"
#include "tests/runtime/whole_networks.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

constexpr Filling kWhole{.kind = Filling::Kind::integers, .density = 0.11};

// No bit differs, whatever the policy and the number of workers, and in a second run.
void check_exact(const Network& network, const Outputs& inputs, const Outputs& truth,
                 std::initializer_list<std::uint32_t> workers) {
  for (const std::string& policy : policy_names()) {
    for (const std::uint32_t threads : workers) {
      PlanOptions options{.num_threads = threads};
      options.tiling.m = 2;
      options.mapping.policy = policy;
      NetworkRun run(network, options);
      CAPTURE(to_string(network.layout), policy, threads, run.plan.describe());
      CHECK(run.run(inputs) == truth);
      CHECK(run.run(inputs) == truth);
    }
  }
}

}  // namespace

TEST_CASE("conv, pool, conv is exact on integers in one run, in every order and by any workers") {
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    for (const PoolMode mode : {PoolMode::max, PoolMode::average}) {
      const Network network = chain(layout, mode);
      const Outputs inputs = random_inputs(network, kWhole);
      const Outputs truth = truth_of(network, inputs);
      for (const Algorithm algorithm :
           {Algorithm::direct, Algorithm::winograd, Algorithm::fused_winograd}) {
        for (const std::string& policy : policy_names()) {
          for (const std::uint32_t threads : {1u, 3u}) {
            PlanOptions options;
            options.tiling.algorithm = algorithm;
            if (algorithm != Algorithm::direct) options.tiling.m = 2;
            options.mapping.policy = policy;
            options.num_threads = threads;
            NetworkRun run(network, options);
            CAPTURE(to_string(layout), policy, threads, run.plan.describe());
            CHECK(run.run(inputs) == truth);
          }
        }
      }
    }
  }
}

TEST_CASE("every operator is exact on whole numbers, by any workers, in every order, run by run") {
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    const Network network = everything(layout);
    const Outputs inputs = random_inputs(network, kWhole);
    const Outputs truth = truth_of(network, inputs);
    CHECK(std::count(truth.at("fc").begin(), truth.at("fc").end(), 0.0f) == 0);
    check_exact(network, inputs, truth, {1u, 2u, 5u});
  }
}

TEST_CASE(
    "numbers that move, are multiplied or rectified are exact, by any workers, in every order") {
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    Network network{.inputs = {{"x", {2, 16, 9, 7}}, {"gate", {2, 12, 1, 1}}},
                    .outputs = {"sum", "shuffled"},
                    .layout = layout};
    network.operators = {
        {"conv", conv3x3(16, 16, 2), {"x"}},
        {"slice", Rearrangement{.first_channel = 3, .channels = 12}, {"conv"}},
        {"shuffled", Rearrangement{.groups = 3}, {"slice"}},
        {"gated", Pixelwise{.function = PixelFunction::multiply}, {"shuffled", "gate"}},
        {"leaky", Pixelwise{.function = PixelFunction::leaky_relu, .alpha = 0.5f}, {"gated"}},
        {"padded", Rearrangement{.top = 1, .bottom = -2, .right = 3, .fill = -4}, {"leaky"}},
        {"pool", Pooling{PoolMode::max, 2, 2, 0, 0, 2, 2}, {"padded"}},
        {"up", Rearrangement{.repeat_h = 2, .repeat_w = 3}, {"pool"}},
        {"square", Pixelwise{.function = PixelFunction::multiply}, {"up", "up"}},
        {"sum", Add{}, {"square", "up"}},
    };
    const Outputs inputs =
        random_inputs(network, {.kind = Filling::Kind::integers, .density = 0.7});
    const Outputs truth = truth_of(network, inputs);
    CHECK(truth.at("sum").size() == 2 * 12 * 8 * 15);
    CHECK(std::count(truth.at("sum").begin(), truth.at("sum").end(), 0.0f) < 2000);
    check_exact(network, inputs, truth, {1u, 3u});
  }
}

TEST_CASE("operators are fused where one task can do the work of several") {
  const FusedNetwork fused = fuse(everything(Layout::nhwc));
  std::string nodes;
  for (const FusedOperator& op : fused.operators) nodes += names_text(op) + "\n";
  CHECK(nodes ==
        "conv1 + bn1 + relu1\n"
        "pool\n"
        "one + one.relu\n"
        "conv2 + bn2 + add + relu2\n"
        "late.add\n"
        "cat + cat.bn + cut\n"
        "depthwise\n"
        "twice\n"
        "late.conv + sum\n"
        "average\n"
        "global\n"
        "fc\n");
  const auto& conv2 = std::get<ConvProblem>(fused.operators[3].problem);
  CHECK(conv2.epilogue == Epilogue{.bias = true, .residual = true, .activation = kRelu});

  // What others read, or the caller, stays.
  Network network = everything(Layout::nhwc);
  network.outputs.push_back("bn1");
  const std::vector<FusedOperator> kept = fuse(network).operators;
  CHECK(names_text(kept[0]) == "conv1 + bn1");
  CHECK(names_text(kept[1]) == "relu1");

  const Plan plan = Plan::create(network, {.num_threads = 1});
  CHECK_THAT(plan.describe(), ContainsSubstring("network: 21 operators in 13 nodes\n"));
  CHECK_THAT(plan.describe(), ContainsSubstring("\nconv2 + bn2 + add + relu2: n2c24h8w8k24r3s3"));
  CHECK_THAT(plan.describe(), ContainsSubstring("\nbackend: cpu, 1 workers"));
}

TEST_CASE("the longest chain comes first, and takes the residual") {
  // As models are exported: the shortcut behind the chain that it passes by.
  Network network{.inputs = {{"x", {1, 8, 5, 6}}}, .outputs = {"relu"}};
  network.operators = {
      {"a", conv3x3(8, 8, 1), {"x"}},    {"b", conv3x3(8, 8, 2), {"a"}},
      {"c", conv3x3(8, 8, 3), {"b"}},    {"shortcut", conv3x3(8, 8, 4), {"x"}},
      {"sum", Add{}, {"c", "shortcut"}}, {"relu", Clamp{}, {"sum"}},
  };
  const FusedNetwork fused = fuse(network);
  std::string nodes;
  for (const FusedOperator& op : fused.operators) nodes += names_text(op) + "\n";
  CHECK(nodes ==
        "a\n"
        "shortcut\n"
        "b\n"
        "c + sum + relu\n");
  CHECK(fused.operators.back().reads == std::vector<ValueId>{3, 2});
  DoubleValues inputs;
  for (const auto& [input, values] : random_inputs(network, {})) inputs[input] = widened(values);
  const std::vector<double> whole = reference_network(network, inputs).at("relu");
  const std::vector<double> made = reference_network(fused, inputs).at("relu");
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(made[i] == Approx(whole[i]));
}

TEST_CASE("a convolution takes any activation, and x sigmoid(x) as SiLU") {
  Network network{.inputs = {{"x", {1, 8, 5, 6}}}, .outputs = {"product"}};
  const auto function = [](PixelFunction of) { return Pixelwise{.function = of, .alpha = 0.25f}; };
  network.operators = {
      {"a", conv3x3(8, 8, 1), {"x"}},
      {"a.gate", function(PixelFunction::sigmoid), {"a"}},
      {"silu", function(PixelFunction::multiply), {"a.gate", "a"}},
      {"b", conv3x3(8, 8, 2), {"silu"}},
      {"gelu", function(PixelFunction::gelu), {"b"}},
      {"c", conv3x3(8, 8, 3), {"gelu"}},
      {"swish", function(PixelFunction::hard_swish), {"c"}},
      {"swish.gate", function(PixelFunction::sigmoid), {"swish"}},
      {"d", function(PixelFunction::multiply), {"swish", "swish.gate"}},
      {"e", conv3x3(8, 8, 4), {"d"}},
      {"e.gate", function(PixelFunction::sigmoid), {"e"}},
      {"f", conv3x3(8, 8, 5), {"e.gate"}},  // reads the gate, too
      {"product", function(PixelFunction::multiply), {"e", "e.gate"}},
      {"g", conv3x3(8, 8, 6), {"product"}},
  };
  network.outputs = {"f", "g"};
  std::string nodes;
  for (const FusedOperator& op : fuse(network).operators) {
    nodes += names_text(op);
    const auto* const problem = std::get_if<ConvProblem>(&op.problem);
    if (problem != nullptr) nodes += ": " + to_string(problem->epilogue.activation);
    nodes += '\n';
  }
  CHECK(nodes ==
        "a + a.gate + silu: silu\n"
        "b + gelu: gelu\n"
        "c + swish: hard_swish\n"
        "swish.gate\n"
        "d\n"
        "e: none\n"
        "e.gate\n"
        "product\n"
        "f: none\n"
        "g: none\n");
  DoubleValues inputs;
  for (const auto& [input, values] : random_inputs(network, {})) inputs[input] = widened(values);
  const std::vector<double> whole = reference_network(network, inputs).at("g");
  const std::vector<double> fused = reference_network(fuse(network), inputs).at("g");
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(fused[i] == Approx(whole[i]));
}

TEST_CASE("fusing changes no value by more than doubles round") {
  // Weights at random, so that folding them rounds: in double by u = 2^-53 of every product, of
  // which a value has 16,000 behind it on its longest way. 1e-10 is 50 times that.
  for (const std::string& name : network_names()) {
    const std::int64_t image = name == "inception_v3" ? 75 : 32;
    const Network network = make_network(name, {.image = image, .classes = 10});
    DoubleValues inputs;
    for (const auto& [input, values] : random_inputs(network, {})) inputs[input] = widened(values);
    const std::string& output = network.outputs.front();
    const std::vector<double> whole = reference_network(network, inputs).at(output);
    const std::vector<double> fused = reference_network(fuse(network), inputs).at(output);
    CAPTURE(name);
    const auto size = static_cast<std::size_t>(shapes_of(network).at(output).size());
    REQUIRE(whole.size() == size);
    REQUIRE(fused.size() == size);
    double norm = 0, error = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      norm += whole[i] * whole[i];
      error += (whole[i] - fused[i]) * (whole[i] - fused[i]);
    }
    CHECK(norm > 1e-6);
    CHECK(norm < 1e12);
    CHECK(std::sqrt(error / norm) < 1e-10);
  }
}

TEST_CASE("on CUDA operators have values in nhwc, and those of the caller are converted") {
  const Target gpu{.backend = Backend::cuda, .workers = 264, .multiprocessors = 132};
  const Network network = light_operators(Layout::nchw, DataType::f32);
  const FusedNetwork fused = fuse(network, {}, gpu);
  CHECK(fused.operators.front().name() == "x.nhwc");  // "by" has one pixel, so it needs none
  CHECK(fused.operators.back().name().ends_with(".nchw"));
  CHECK(fused.operators.size() == 1 + 2 * network.operators.size());
  DoubleValues inputs;
  for (const auto& [input, values] : random_inputs(network, {})) inputs[input] = widened(values);
  const DoubleValues truth = reference_network(network, inputs);
  const DoubleValues values = reference_network(fused, inputs);
  for (const std::string& output : network.outputs) {
    CHECK(values.at(output + ".nchw") == truth.at(output));
  }
  CHECK(fuse(network).operators.size() == network.operators.size());
}

TEST_CASE("tasks that share sums stand beside each other in every order") {
  const Target gpu{.backend = Backend::cuda,
                   .workers = 264,
                   .multiprocessors = 132,
                   .shared_bytes = 228 << 10,
                   .cluster_blocks = 4};
  const Network network = make_network("resnet50");
  for (const std::string& policy : policy_names()) {
    CAPTURE(policy);
    const Lowering lowering = lower(network, {}, {.policy = policy, .seed = 3}, gpu);
    const std::vector<std::uint32_t>& order = lowering.mapping.order;
    std::size_t shared = 0;
    std::uint32_t blocks = 0;  // clusters of a launch have one size
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Task& task = lowering.graph.tasks[order[i]];
      const auto* const cut = std::get_if<SmallGemmCut>(&lowering.nodes[task.node].cut);
      if (cut == nullptr || cut->shares == 1) continue;
      if (shared == 0) blocks = cut->shares;
      CHECK(cut->shares == blocks);
      CHECK(cut->shared_bytes == 110 << 10);
      ++shared;
      if (task.block % blocks == 0) continue;
      REQUIRE(order[i] == order[i - 1] + 1);
    }
    CHECK(shared > 0);
    CHECK(!validate(lowering.graph, lowering.mapping));
  }
}

TEST_CASE("every built-in network has tasks on CUDA, in both layouts and every storage type") {
  const Target ampere{.backend = Backend::cuda, .workers = 264, .multiprocessors = 132};
  Target hopper = ampere;
  hopper.shared_bytes = 228 << 10;
  hopper.cluster_blocks = 4;
  for (const std::string& name : network_names()) {
    for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
      for (const DataType dtype : {DataType::f32, DataType::f16, DataType::bf16}) {
        const Network network = make_network(name, {.image = 96, .dtype = dtype, .layout = layout});
        CAPTURE(name, to_string(layout), to_string(dtype));
        for (const Target& gpu : {ampere, hopper}) {
          const Lowering lowering = lower(network, {}, {.policy = "staged"}, gpu);
          for (const Node& node : lowering.nodes) {
            const bool convolves = std::holds_alternative<Tiling>(node.cut);
            CHECK(!convolves);
            cuda::make_node_args(node.cut, {});
          }
        }
      }
    }
  }
}

TEST_CASE("every operator of the built-in networks errs by no more than its bound") {
  for (const std::string& name : network_names()) {
    for (const DataType dtype : {DataType::f32, DataType::f16}) {
      if (dtype == DataType::f16 && name != "resnet18" && name != "mobilenet_v2") continue;
      const std::int64_t image = name == "inception_v3"              ? 75
                                 : name == "vgg16" || name == "unet" ? 32
                                                                     : 64;
      Network network = make_network(name, {.image = image, .classes = 10, .dtype = dtype});
      const Outputs inputs = random_inputs(network, {});
      NetworkRun whole(network, {.num_threads = 2});
      const std::string output = network.outputs.front();
      const std::vector<float> result = whole.run(inputs).at(output);

      // All values that are left when operators are fused; fusing stays as it was.
      const FusedNetwork fused = fuse(network);
      network.outputs.clear();
      for (const FusedOperator& op : fused.operators) network.outputs.push_back(op.value());
      NetworkRun run(network, {.num_threads = 2});
      CAPTURE(name, to_string(dtype));
      CHECK(run.run(inputs).at(output) == result);
      std::vector<const void*> values(run.inputs());
      values.insert(values.end(), run.outputs().begin(), run.outputs().end());
      REQUIRE(values.size() == fused.inputs.size() + fused.operators.size());
      for (std::size_t i = 0; i < fused.operators.size(); ++i) {
        std::vector<const void*> reads;
        for (const ValueId value : fused.operators[i].reads) reads.push_back(values[value]);
        const OperatorCheck check =
            check_operator(fused.operators[i], run.plan.lowering().nodes[i].cut, reads,
                           values[fused.inputs.size() + i]);
        CAPTURE(check.name, check.text);
        CHECK(check.right());
      }
    }
  }
}

TEST_CASE("a network gives the same bits in every order, by any workers and batch") {
  for (const char* name : {"resnet18", "densenet121"}) {
    const Network one = make_network(name, {.image = 32, .classes = 10});
    const Network three = make_network(name, {.batch = 3, .image = 32, .classes = 10});
    PlanOptions options{.num_threads = 1};
    options.tiling.algorithm = Algorithm::direct;
    Outputs inputs = random_inputs(three, {});
    const std::vector<float> all = NetworkRun(three, options).run(inputs).at(one.outputs.front());
    for (const std::string& policy : policy_names()) {
      options.mapping.policy = policy;
      for (const std::uint32_t threads : {1u, 3u}) {
        options.num_threads = threads;
        CAPTURE(name, policy, threads);
        CHECK(NetworkRun(three, options).run(inputs).at(one.outputs.front()) == all);
      }
    }
    inputs.begin()->second.resize(inputs.begin()->second.size() / 3);
    const std::vector<float> first = NetworkRun(one, options).run(inputs).at(one.outputs.front());
    CHECK(std::equal(first.begin(), first.end(), all.begin()));
  }
}

TEST_CASE(
    "the built-in networks with exact numbers have one result, whatever the batch and order") {
  // F(2x2, 3x3) has U in quarters of at most the sum of a filter, V of at most 4 max |x|, and y is
  // a sum of 9 M: with all of them positive at most 36 times what is proven of the direct sum.
  constexpr double kQuarters = 4, kOfWinograd = 36, kExact = 1 << 24;
  for (const std::string& name : network_names()) {
    const NetworkOptions shape{.batch = 8, .image = small_image(name), .classes = 10};
    const Network eight = exact_network(name, shape);
    CAPTURE(name);
    REQUIRE(exact_bounds(eight).sum * kQuarters * kOfWinograd < kExact);
    REQUIRE(exact_bounds(eight).value <= 1 << 11);  // so that FP16 holds it, too
    const Outputs inputs = random_inputs(eight, {.kind = Filling::Kind::integers, .density = 0.5});
    Network one = exact_network(name, {.image = shape.image, .classes = 10});
    const std::size_t image = inputs.at("x").size() / 8;
    const Outputs last = {
        {"x", {inputs.at("x").end() - static_cast<std::ptrdiff_t>(image), inputs.at("x").end()}}};
    const Outputs truth = truth_of(one, last);
    for (const auto& [output, values] : truth) {
      CAPTURE(output);
      CHECK(std::set<float>(values.begin(), values.end()).size() > 3);
    }

    Outputs wanted;
    for (const auto& [policy, threads] :
         {std::pair("interleaved", 1u), std::pair("depth_first", 5u),
          std::pair("random_topological", 3u)}) {
      PlanOptions options{.num_threads = threads};
      options.tiling.m = 2;
      options.mapping.policy = policy;
      CAPTURE(policy, threads);
      CHECK(NetworkRun(one, options).run(last) == truth);
      const Outputs found = NetworkRun(eight, options).run(inputs);
      if (wanted.empty()) wanted = found;
      CHECK(found == wanted);
    }
    for (const auto& [output, values] : truth) {
      CHECK(std::equal(values.rbegin(), values.rend(), wanted.at(output).rbegin()));
    }
    one.dtype = DataType::f16;
    PlanOptions options{.num_threads = 2};
    options.tiling.algorithm = Algorithm::direct;
    CHECK(NetworkRun(one, options).run(last) == truth);
  }
}

TEST_CASE("storage types of 16 bits are exact on whole numbers that they hold") {
  for (const DataType dtype : {DataType::f16, DataType::bf16}) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      Network network{
          .inputs = {{"x", {1, 16, 8, 8}}}, .outputs = {"cat"}, .dtype = dtype, .layout = layout};
      network.operators = {
          {"conv", {Convolution{.k = 16, .w = whole_weights(256, 2, 0.05)}}, {"x"}},
          {"relu", Clamp{}, {"conv"}},
          {"add", Add{}, {"relu", "x"}},
          {"cat", Concatenation{}, {"add", "relu", "x"}},
      };
      const Outputs inputs = random_inputs(network, kWhole);
      CAPTURE(to_string(dtype), to_string(layout));
      CHECK(NetworkRun(network, {.num_threads = 2}).run(inputs) == truth_of(network, inputs));
    }
  }
}

TEST_CASE("tasks of a network begin as soon as what they read is there") {
  // Depth-first, the first outputs of conv2 stand before the last of conv1.
  PlanOptions options;
  options.tiling = {.algorithm = Algorithm::direct, .rows_per_group = 2};
  options.mapping.policy = "depth_first";
  const Plan plan = Plan::create(chain(Layout::nchw, PoolMode::max), options);
  const Lowering& lowering = plan.lowering();
  const auto position = [&](NodeId node, bool last) {
    std::size_t found = 0;
    for (std::size_t p = 0; p < lowering.mapping.order.size(); ++p) {
      const Task& task = lowering.graph.tasks[lowering.mapping.order[p]];
      if (task.node != node) continue;
      if (last || found == 0) found = p;
    }
    return found;
  };
  CHECK(position(2, false) < position(0, true));

  // Every edge between operators is as narrow as the windows ask for: rows and their halo.
  std::size_t between = 0;
  for (const Edge& edge : lowering.graph.edges) {
    const Stage& from = lowering.graph.stages[edge.producer.stage];
    const Stage& to = lowering.graph.stages[edge.consumer.stage];
    if (from.node == to.node) continue;
    CHECK(edge.producer.groups.size() < from.groups);
    ++between;
  }
  CHECK(between > 10);
}

TEST_CASE("a run of a network records a trace of all operators") {
  const Network network = everything(Layout::nhwc);
  NetworkRun run(network, {.num_threads = 2});
  Trace trace;
  run.run(random_inputs(network, kWhole), &trace);
  const TraceAnalysis analysis = analyse(run.plan.lowering(), trace);
  for (const TaskKind kind : {TaskKind::pooling, TaskKind::elementwise, TaskKind::direct}) {
    CAPTURE(to_string(kind));
    CHECK(analysis.kinds[static_cast<std::size_t>(kind)].num > 0);
    CHECK(analysis.kinds[static_cast<std::size_t>(kind)].work_us > 0);
  }
  CHECK(analysis.kinds[static_cast<std::size_t>(TaskKind::filter_transform)].num == 0);
}

TEST_CASE("the simulator says when every task of a network runs") {
  for (const char* name : {"resnet18", "mobilenet_v2", "densenet121"}) {
    const Plan plan = Plan::create(make_network(name, {.image = 64}), {.num_threads = 2});
    for (const char* machine : {"toy", "cpu", "h200_fma"}) {
      const Simulation simulation = simulate(plan.lowering(), machine_preset(machine));
      CAPTURE(name, machine);
      CHECK(simulation.trace.records.size() == plan.lowering().graph.tasks.size());
      CHECK(simulation.analysis.kinds[static_cast<std::size_t>(TaskKind::pooling)].work_us > 0);
      CHECK(lower_bounds(plan.lowering().graph, machine_preset(machine)).least_us() <=
            simulation.time_us);
    }
  }
  const Plan plan = Plan::create(chain(Layout::nhwc, PoolMode::max), {.backend = Backend::sim});
  const std::vector<float> x(2 * 16 * 22 * 30);
  std::vector<float> y(2 * 20 * 11 * 15, 7);
  const void* const inputs[] = {x.data()};
  void* const outputs[] = {y.data()};
  alignas(Plan::kAlignment) std::byte workspace[Plan::kAlignment];
  Trace trace;
  plan.execute(NetworkTensors{.inputs = inputs, .outputs = outputs}, workspace, sizeof workspace,
               {.trace = &trace});
  CHECK(trace.records.size() == plan.lowering().graph.tasks.size());
  CHECK(y == std::vector<float>(y.size(), 7));
}

TEST_CASE("values share memory, and their bits are those of values that do not") {
  for (const char* name : {"resnet18", "densenet121"}) {
    for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
      const Network network =
          make_network(name, {.batch = 2, .image = 32, .classes = 10, .layout = layout});
      const Outputs inputs = random_inputs(network, {});
      PlanOptions options{.num_threads = 1};
      options.tiling.algorithm = Algorithm::direct;
      options.tiling.whole_tensors = true;
      NetworkRun apart(network, options);
      const Outputs truth = apart.run(inputs);
      options.tiling.whole_tensors = false;
      for (const std::string& policy : policy_names()) {
        for (const std::uint32_t threads : {1u, 4u}) {
          options.mapping.policy = policy;
          options.num_threads = threads;
          NetworkRun run(network, options);
          CAPTURE(name, to_string(layout), policy, threads);
          CHECK(run.run(inputs) == truth);
          CHECK(run.run(inputs) == truth);
          if (policy != "staged") continue;
          CHECK(run.plan.workspace_bytes() < apart.plan.workspace_bytes());
        }
      }
    }
  }
}

TEST_CASE("a value that only some tasks of an operator read keeps its memory until then") {
  // The first tasks of the padding write zeros alone.
  Network network{.inputs = {{"x", {1, 16, 32, 32}}}, .outputs = {"sum"}};
  const auto conv = [](std::uint64_t seed) {
    return Convolution{.k = 16, .w = whole_weights(256, seed, 0.1)};
  };
  network.operators = {{"a", conv(2), {"x"}},
                       {"b", conv(3), {"a"}},
                       {"c", conv(4), {"b"}},
                       {"d", conv(5), {"c"}},
                       {"pad", Rearrangement{.top = 16, .bottom = -16}, {"a"}},
                       {"sum", Add{}, {"d", "pad"}}};
  const Outputs inputs = random_inputs(network, kWhole);
  check_exact(network, inputs, truth_of(network, inputs), {1u, 2u});
}

TEST_CASE("a proof fails where who overwrites a value does not wait for those that read it") {
  // With two workers tasks are so large that other waits imply those for readers.
  const Plan plan = Plan::create(make_network("resnet18", {.image = 128}), {.num_threads = 4});
  TaskGraph graph = plan.lowering().graph;
  CHECK(!validate(graph, plan.lowering().mapping));
  const auto reuses = [](const Edge& edge) { return edge.reuse; };
  CHECK(std::count_if(graph.edges.begin(), graph.edges.end(), reuses) > 10);
  std::erase_if(graph.edges, reuses);
  count_signals(graph);
  const auto violation = validate(graph, plan.lowering().mapping);
  REQUIRE(violation);
  CHECK(violation->property == Violation::Property::complete_waits);

  // Two values at the same place that are in use at the same time.
  graph = plan.lowering().graph;
  const std::vector<Node>& nodes = plan.lowering().nodes;
  graph.buffers[nodes[1].buffers.y].place = graph.buffers[nodes[0].buffers.y].place;
  CHECK(validate(graph, plan.lowering().mapping));
}

TEST_CASE("a network of one pooling runs") {
  Network network{.inputs = {{"x", {1, 5, 9, 7}}}, .outputs = {"pool"}, .layout = Layout::nchw};
  network.operators = {{"pool", Pooling{PoolMode::max, 3, 3, 1, 1, 2, 2}, {"x"}}};
  const Outputs inputs = random_inputs(network, {});
  NetworkRun run(network, {});
  CHECK(run.plan.prepared_filter_bytes() == 0);
  CHECK(run.run(inputs) == truth_of(network, inputs));
  CHECK_THAT(error_of([&] { run.plan.problem(); }), ContainsSubstring("must be one convolution"));
}

TEST_CASE("a network of one convolution gives the bits of the convolution") {
  const ConvProblem problem = parse_problem("n2c16h14k32+bias+relu+nhwc");
  std::vector<float> x(static_cast<std::size_t>(problem.x_size()));
  std::vector<float> w(static_cast<std::size_t>(problem.w_size())), bias(32);
  fill_normal(x, 1);
  fill_normal(w, 2);
  fill_normal(bias, 3);
  Network network{.inputs = {{"x", {2, 16, 14, 14}}}, .outputs = {"conv"}};
  network.operators = {{"conv",
                        Convolution{.k = 32,
                                    .r = 3,
                                    .s = 3,
                                    .pad_h = 1,
                                    .pad_w = 1,
                                    .w = view_weights(w),
                                    .bias = view_weights(bias),
                                    .relu = true},
                        {"x"}}};
  std::vector<float> x_nhwc(x.size()), w_krsc(w.size());
  convert(network, {2, 16, 14, 14}, x, x_nhwc.data(), true);
  convert(network, {32, 16, 3, 3}, w, w_krsc.data(), true);
  // By name, since a network may choose otherwise: its filters are in no cache.
  for (const Algorithm algorithm : {Algorithm::direct, Algorithm::winograd}) {
    PlanOptions options{.source = PlanSource::heuristic, .num_threads = 2};
    options.tiling.algorithm = algorithm;
    const std::vector<float> y = NetworkRun(network, options).run({{"x", x}}).at("conv");
    const Plan plan = Plan::create(problem, options);
    const Memory workspace(plan.workspace_bytes());
    std::vector<float> y_nhwc(y.size()), expected(y.size());
    plan.execute({.x = x_nhwc.data(), .w = w_krsc.data(), .bias = bias.data(), .y = y_nhwc.data()},
                 workspace.get(), workspace.bytes);
    convert(network, {2, 32, 14, 14}, expected, y_nhwc.data(), false);
    CAPTURE(to_string(algorithm));
    CHECK(y == expected);
  }
}

TEST_CASE("networks that are wrong are refused with operator, value and what is allowed") {
  const Network good = everything(Layout::nhwc);
  const auto at = [](Network& network, const char* name) -> Operator& {
    return *std::find_if(network.operators.begin(), network.operators.end(),
                         [&](const Operator& op) { return op.name == name; });
  };
  const auto refusal = [&](auto change, Status status = Status::invalid_argument) {
    Network network = good;
    change(network);
    const std::string message = error_of([&] { validate(network); }, status);
    CHECK(error_of([&] { Plan::create(network); }, status) == message);
    return message;
  };
  CHECK(refusal([](Network& n) { n.operators.clear(); }) ==
        "network: no operators, must be at least 1");
  CHECK(refusal([](Network& n) { n.outputs.clear(); }) ==
        "network: no outputs, must be at least 1");
  CHECK(refusal([](Network& n) {
          n.outputs = {"fc", "nothing"};
        }) == "network: output \"nothing\" is none, must be the name of an operator, once");
  CHECK(refusal([](Network& n) {
          n.outputs = {"fc", "fc"};
        }) == "network: output \"fc\" is there twice, must be the name of an operator, once");
  CHECK(refusal([](Network& n) { n.outputs = {"x"}; }) ==
        "network: output \"x\" is an input, must be the name of an operator, once");
  CHECK(refusal([](Network& n) { n.operators[1].name = "conv1"; }) ==
        "operator \"conv1\": another input or operator has this name");
  CHECK(refusal([](Network& n) { n.operators[1].name = n.inputs[0].name; }) ==
        "operator \"x\": another input or operator has this name");
  CHECK(refusal([](Network& n) { n.operators[1].name = "a\nb"; }) ==
        "operator \"a?b\": its name must be 1 to 80 printable characters");
  CHECK(refusal([](Network& n) { n.inputs[0].name.clear(); }) ==
        "input \"\": its name must be 1 to 80 printable characters");
  CHECK(refusal([](Network& n) { n.inputs[0].shape.w = 0; }) ==
        "input \"x\": w = 0: must be 1 to 2147483647");
  CHECK(refusal([](Network& n) { n.operators[1].reads = {"conv0"}; }) ==
        "operator \"bn1\": reads \"conv0\", which is none; must be an input or an operator before "
        "it");
  CHECK(refusal([](Network& n) { n.operators[0].reads = {"relu1"}; }) ==
        "operator \"conv1\": reads \"relu1\", which it makes itself or a later operator makes; "
        "must be an input or an operator before it, without cycles");
  CHECK(refusal([](Network& n) { n.operators[1].reads = {}; }) ==
        "operator \"bn1\": reads 0 values, a batch norm must read 1");
  CHECK(refusal([&](Network& n) {
          at(n, "conv1").reads = {"x", "x", "x"};
        }) == "operator \"conv1\": reads 3 values, a convolution must read 1 to 2");
  CHECK(refusal([&](Network& n) {
          at(n, "conv1").reads = {"x", "x"};
        }) == "operator \"conv1\": the residual, \"x\", is n2c16h16w16, must be n2c24h16w16");
  CHECK(refusal([&](Network& n) {
          at(n, "add").reads = {"bn2", "one"};
        }) == "operator \"add\": the second summand, \"one\", is n2c16h8w8, must be n2c24h8w8");
  CHECK(refusal([&](Network& n) {
          at(n, "cat").reads = {"one", "relu1"};
        }) ==
        "operator \"cat\": what is concatenated, \"relu1\", is n2c24h16w16, must be n2c24h8w8");
  CHECK(refusal([&](Network& n) { std::get<Convolution>(at(n, "one").does).w = {}; }) ==
        "operator \"one\": w is missing, must be [16][24][1][1]");
  CHECK(refusal([&](Network& n) { std::get<Convolution>(at(n, "one").does).k = 15; }) ==
        "operator \"one\": w has 384 numbers, must have 360, [15][24][1][1]");
  CHECK(refusal([&](Network& n) { std::get<Convolution>(at(n, "one").does).groups = 5; }) ==
        "operator \"one\": groups = 5: must divide c = 24 and k = 16, reads \"pool\" of "
        "n2c24h8w8");
  CHECK(refusal([&](Network& n) { at(n, "one.relu").does = Rearrangement{.groups = 5}; }) ==
        "operator \"one.relu\": groups = 5: must divide the 16 channels, reads \"one\" of "
        "n2c16h8w8");
  CHECK(refusal([&](Network& n) {
          at(n, "one.relu").does = Pixelwise{.function = PixelFunction::softmax, .size = 0};
        }) ==
        "operator \"one.relu\": size of the window = 0: must be 1 to 2147483647, reads \"one\" of "
        "n2c16h8w8");
  CHECK(refusal([&](Network& n) { at(n, "one.relu").does = Pixelwise{}; }) ==
        "operator \"one.relu\": reads 1 values, a multiply must read 2");
  CHECK(refusal([&](Network& n) {
          at(n, "add").does = Pixelwise{};
          at(n, "add").reads = {"bn2", "one"};
        }) == "operator \"add\": the second factor, \"one\", is n2c16h8w8, must be n2c24h8w8");
  CHECK(refusal([&](Network& n) {
          std::get<Convolution>(at(n, "one").does).bias = constant(3, 1);
        }) == "operator \"one\": bias has 3 numbers, must have 16, [K]");
  CHECK(refusal([&](Network& n) { std::get<BatchNorm>(at(n, "bn1").does).mean = {}; }) ==
        "operator \"bn1\": mean is missing, must be [C]");
  CHECK(refusal([&](Network& n) {
          std::get<BatchNorm>(at(n, "bn1").does).variance = constant(24, -1);
        }) == "operator \"bn1\": variance -1.000000 + epsilon 0.000000, must be more than 0");
  CHECK(refusal([&](Network& n) { std::get<FullyConnected>(at(n, "fc").does).k = 11; }) ==
        "operator \"fc\": w has 400 numbers, must have 440, [11][40][1][1]");
  CHECK(refusal([&](Network& n) { std::get<Clamp>(at(n, "cut").does).most = -9; }) ==
        "operator \"cut\": least -8.000000, must be below most, -9.000000");
  CHECK_THAT(refusal([&](Network& n) { std::get<Pooling>(at(n, "pool").does).pad_h = 3; }),
             ContainsSubstring("operator \"pool\": vertical padding = 3: must be 0 to 2"));
  CHECK(refusal([](Network& n) { n.dtype = DataType::i8; }, Status::unsupported) ==
        "network: storage type i8, must be f32, f16 or bf16");
  CHECK(refusal([](Network& n) { n.layout = Layout::chwn; }, Status::unsupported) ==
        "network: layout chwn, must be nchw or nhwc");

  CHECK_THAT(error_of([&] { Plan::create(good, {.tiling = {.v_slots = 1}}); }, Status::unsupported),
             ContainsSubstring("network: a window"));
  CHECK(error_of([] { make_network("resnet51"); }) ==
        "network \"resnet51\", must be one of resnet18, resnet50, resnext50, vgg16, mobilenet_v2, "
        "densenet121, densenet161, inception_v3, yolov3, unet");
  CHECK(error_of([] { make_network("vgg16", {.batch = 0}); }) ==
        "network vgg16: batch = 0, must be 1 to 65536");
  CHECK_THAT(error_of([] { make_network("inception_v3", {.image = 20}); }),
             ContainsSubstring("operator \""));
}

TEST_CASE("a run of a network is refused when a tensor is missing, too many or in the way") {
  const Network network = chain(Layout::nhwc, PoolMode::max);
  NetworkRun run(network, {.num_threads = 1});
  const auto refusal = [&](auto change, Status status = Status::invalid_argument) {
    std::vector<const void*> inputs = run.inputs();
    std::vector<void*> outputs = run.outputs();
    const void* prepared = run.tensors().prepared_filters;
    void* workspace = run.workspace().get();
    std::size_t bytes = run.workspace().bytes;
    change(inputs, outputs, prepared, workspace, bytes);
    return error_of(
        [&] {
          run.plan.execute(
              NetworkTensors{.inputs = inputs, .outputs = outputs, .prepared_filters = prepared},
              workspace, bytes);
        },
        status);
  };
  CHECK(refusal([](auto& in, auto&, auto&, auto&, auto&) { in.clear(); }) == "0 inputs, must be 1");
  CHECK(refusal([](auto&, auto& out, auto&, auto&, auto&) { out.push_back(nullptr); }) ==
        "2 outputs, must be 1");
  CHECK(refusal([](auto& in, auto&, auto&, auto&, auto&) { in[0] = nullptr; }) == "x is null");
  CHECK(refusal([](auto&, auto& out, auto&, auto&, auto&) { out[0] = nullptr; }) ==
        "conv2.y is null");
  CHECK(refusal([](auto&, auto&, auto& prepared, auto&, auto&) { prepared = nullptr; }) ==
        "prepared_filters is null");
  CHECK(refusal([](auto& in, auto& out, auto&, auto&, auto&) {
          out[0] = const_cast<void*>(in[0]);
        }) == "x overlaps conv2.y");
  CHECK(refusal([](auto&, auto& out, auto&, auto& workspace, auto&) { out[0] = workspace; }) ==
        "conv2.y overlaps workspace");
  CHECK(refusal([](auto&, auto&, auto&, auto& workspace, auto&) { workspace = nullptr; }) ==
        "workspace is null");
  CHECK_THAT(
      refusal([](auto&, auto&, auto&, auto&, auto& bytes) { --bytes; }, Status::out_of_memory),
      ContainsSubstring("workspace of "));
  CHECK_THAT(
      error_of([&] { run.plan.execute(Tensors{}, run.workspace().get(), run.workspace().bytes); }),
      ContainsSubstring("must be NetworkTensors"));
  CHECK_THAT(error_of([&] { run.plan.prepare_filters(&network, run.workspace().get()); }),
             ContainsSubstring("a plan of a network has its weights"));
  CHECK(error_of([&] { run.plan.prepare_filters(nullptr); }) == "prepared_filters is null");
  const Plan one = Plan::create(parse_problem("c16h8k16"));
  CHECK_THAT(error_of([&] { one.prepare_filters(run.workspace().get()); }),
             ContainsSubstring("w is missing"));
  CHECK_THAT(error_of([&] { one.execute(NetworkTensors{}, run.workspace().get(), 64); }),
             ContainsSubstring("must be Tensors"));
}
