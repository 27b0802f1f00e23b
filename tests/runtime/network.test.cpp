// SPDX-License-Identifier: Apache-2.0
// Convolution, pooling, convolution as one task graph in one run.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "megaconv/plan.hpp"
#include "megaconv/simulation.hpp"
#include "tasks/pooling/reference.hpp"
#include "tasks/reference.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

struct Workspace {
  explicit Workspace(const Plan& plan)
      : bytes(plan.workspace_bytes()),
        memory(std::aligned_alloc(Plan::kAlignment, bytes), &std::free) {
    std::fill_n(static_cast<unsigned char*>(memory.get()), bytes, 0xff);  // floats: NaN
  }
  std::size_t bytes;
  std::unique_ptr<void, decltype(&std::free)> memory;
};

// conv1 -> pool -> conv2 on integers, and what must come of it.
struct Chain {
  Chain(const char* first, const PoolProblem& pooled, const char* second)
      : conv1(parse_problem(first)), pool(pooled), conv2(parse_problem(second)) {
    pool.n = conv1.n;
    pool.c = conv1.k;
    pool.h = conv1.p();
    pool.w = conv1.q();
    pool.layout = conv1.layout;
    network.operators = {{"conv1", conv1}, {"pool", pool}, {"conv2", conv2}};
    fill_integers(x, 1);
    fill_integers(w1, 2, 0.11, 4);  // exact in F(2x2, 3x3), too
    fill_integers(w2, 3, 0.11, 4);
    fill_integers(bias, 4, 1.0);
    compute_truth();
  }

  std::vector<Tensors> tensors(float* y) const {
    return {{.x = x.data(), .w = w1.data(), .bias = bias.data()}, {}, {.w = w2.data(), .y = y}};
  }

  std::vector<float> run(const Plan& plan, Trace* trace = nullptr) const {
    std::vector<float> y(truth.size(), -1.0f);
    const Workspace workspace(plan);
    const std::vector<Tensors> all = tensors(y.data());
    plan.execute(all, workspace.memory.get(), workspace.bytes, {.trace = trace});
    return y;
  }

  ConvProblem conv1;
  PoolProblem pool;
  ConvProblem conv2;
  Network network;
  std::vector<float> x = numbers(conv1.x_size()), w1 = numbers(conv1.w_size()),
                     w2 = numbers(conv2.w_size()), bias = numbers(conv1.k), truth;

 private:
  static std::vector<float> numbers(std::int64_t count) {
    return std::vector<float>(static_cast<std::size_t>(count));
  }
  void compute_truth() {
    std::vector<double> wide(static_cast<std::size_t>(conv1.y_size()));
    reference_convolution(conv1, {.x = x.data(), .w = w1.data(), .bias = bias.data()}, wide.data());
    const std::vector<float> y1(wide.begin(), wide.end());
    wide.assign(static_cast<std::size_t>(pool.y_size()), 0);
    reference_pooling(pool, y1.data(), wide.data());
    const std::vector<float> pooled(wide.begin(), wide.end());
    wide.assign(static_cast<std::size_t>(conv2.y_size()), 0);
    reference_convolution(conv2, {.x = pooled.data(), .w = w2.data()}, wide.data());
    truth.assign(wide.begin(), wide.end());
  }
};

const PoolProblem kMax3x3{.r = 3, .s = 3, .pad_h = 1, .pad_w = 1};
const PoolProblem kAverage2x2{.mode = PoolMode::average, .pad_h = 0};

Chain make_chain(const char* layout, const PoolProblem& pool) {
  return Chain((std::string("n2c16h22w30k24+bias+relu") + layout).c_str(), pool,
               (std::string("n2c24h11w15k20") + layout).c_str());
}

}  // namespace

TEST_CASE("conv, pool, conv is exact on integers in one run, in every order and by any workers") {
  for (const char* layout : {"", "+nhwc"}) {
    for (const PoolProblem& pool : {kMax3x3, kAverage2x2}) {
      const Chain chain = make_chain(layout, pool);
      for (const Algorithm algorithm :
           {Algorithm::direct, Algorithm::winograd, Algorithm::fused_winograd}) {
        for (const std::string& policy : policy_names()) {
          for (const std::uint32_t threads : {1u, 3u}) {
            PlanOptions options;
            options.tiling.algorithm = algorithm;
            if (algorithm != Algorithm::direct) options.tiling.m = 2;
            options.mapping.policy = policy;
            options.num_threads = threads;
            const Plan plan = Plan::create(chain.network, options);
            CAPTURE(layout, policy, threads, plan.describe());
            CHECK(chain.run(plan) == chain.truth);
          }
        }
      }
    }
  }
}

TEST_CASE("tasks of a network begin as soon as what they read is there") {
  // Depth-first, the first outputs of conv2 stand before the last of conv1.
  const Chain chain = make_chain("", kMax3x3);
  PlanOptions options;
  options.tiling = {.algorithm = Algorithm::direct, .rows_per_group = 2};
  options.mapping.policy = "depth_first";
  const Plan plan = Plan::create(chain.network, options);
  const Lowering& lowering = plan.lowering();
  const auto position = [&](NodeId node, bool last) {
    std::size_t found = 0;
    for (std::size_t p = 0; p < lowering.mapping.order.size(); ++p) {
      const Task& task = lowering.graph.tasks[lowering.mapping.order[p]];
      if (task.node != node || kind_of(task) == TaskKind::filter_transform) continue;
      if (last || found == 0) found = p;
    }
    return found;
  };
  CHECK(position(2, false) < position(0, true));

  // Every edge between operators is as narrow as the windows ask for: rows and their halo.
  for (const Edge& edge : lowering.graph.edges) {
    const Stage& from = lowering.graph.stages[edge.producer.stage];
    const Stage& to = lowering.graph.stages[edge.consumer.stage];
    if (from.node == to.node) continue;
    CHECK(edge.producer.groups.size() < from.groups);
  }
}

TEST_CASE("a run of a network records a trace of all operators") {
  const Chain chain = make_chain("+nhwc", kMax3x3);
  const Plan plan =
      Plan::create(chain.network, {.tiling = {.algorithm = Algorithm::direct}, .num_threads = 2});
  Trace trace;
  CHECK(chain.run(plan, &trace) == chain.truth);
  const TraceAnalysis analysis = analyse(plan.lowering(), trace);
  CHECK(analysis.kinds[static_cast<std::size_t>(TaskKind::pooling)].num > 0);
  CHECK(analysis.kinds[static_cast<std::size_t>(TaskKind::pooling)].work_us > 0);
}

TEST_CASE("the simulator says when every task of a network runs") {
  const Chain chain = make_chain("+nhwc", kMax3x3);
  const Plan plan = Plan::create(chain.network, {.num_threads = 2});
  for (const char* machine : {"toy", "cpu", "h200_fma"}) {
    const Simulation simulation = simulate(plan.lowering(), machine_preset(machine));
    CAPTURE(machine);
    CHECK(simulation.trace.records.size() == plan.lowering().graph.tasks.size());
    CHECK(simulation.analysis.kinds[static_cast<std::size_t>(TaskKind::pooling)].work_us > 0);
    CHECK(lower_bounds(plan.lowering().graph, machine_preset(machine)).least_us() <=
          simulation.time_us);
  }
}

TEST_CASE("a network of one pooling runs") {
  PoolProblem pool = kMax3x3;
  pool.c = 5;
  pool.h = 9;
  pool.w = 7;
  std::vector<float> x(static_cast<std::size_t>(pool.x_size()));
  fill_normal(x, 1);
  std::vector<float> y(static_cast<std::size_t>(pool.y_size()));
  std::vector<double> truth(y.size());
  reference_pooling(pool, x.data(), truth.data());
  const Plan plan = Plan::create(Network{{{"pool", pool}}});
  const Workspace workspace(plan);
  plan.execute(Tensors{.x = x.data(), .y = y.data()}, workspace.memory.get(), workspace.bytes);
  CHECK(std::equal(y.begin(), y.end(), truth.begin()));
  CHECK_THAT(error_of([&] { plan.problem(); }), ContainsSubstring("must be one convolution"));
}

TEST_CASE("networks whose operators do not fit are refused by name") {
  const Chain chain = make_chain("", kMax3x3);
  const auto refusal = [&](auto change) {
    Network network = chain.network;
    change(network);
    return error_of([&] { Plan::create(network); });
  };
  CHECK(refusal([](Network& n) { n.operators.clear(); }) ==
        "network: no operators, must be at least 1");
  CHECK(refusal([](Network& n) { n.operators[1].name = "conv1"; }) ==
        "operator \"conv1\": another operator has this name");
  CHECK(refusal([](Network& n) { n.operators[1].name = "a\nb"; }) ==
        "operator \"a?b\": its name must be 1 to 80 printable characters");
  CHECK(refusal([](Network& n) { std::get<PoolProblem>(n.operators[1].problem).c = 25; }) ==
        "operator \"pool\": its input is n2c25h22w30+nchw+f32, must be n2c24h22w30+nchw+f32, the "
        "output of \"conv1\"");
  CHECK_THAT(refusal([](Network& n) { std::get<PoolProblem>(n.operators[1].problem).pad_h = 3; }),
             ContainsSubstring("operator \"pool\": "));
  CHECK_THAT(refusal([](Network& n) {
               std::get<ConvProblem>(n.operators[2].problem).layout = Layout::nhwc;
             }),
             ContainsSubstring("operator \"conv2\": its input is n2c24h11w15+nhwc+f32"));
}

TEST_CASE("a run of a network is refused when a tensor is missing or one too many is given") {
  const Chain chain = make_chain("", kMax3x3);
  const Plan plan = Plan::create(chain.network);
  const Workspace workspace(plan);
  std::vector<float> y(chain.truth.size());
  const auto refusal = [&](auto change) {
    std::vector<Tensors> all = chain.tensors(y.data());
    change(all);
    return error_of([&] { plan.execute(all, workspace.memory.get(), workspace.bytes); });
  };
  CHECK(refusal([](auto& all) { all.pop_back(); }) == "tensors of 2 operators, must be of 3");
  CHECK(refusal([](auto& all) { all[0].x = nullptr; }) == "x is null");
  CHECK(refusal([](auto& all) { all[2].w = nullptr; }) == "w is null");
  CHECK(refusal([](auto& all) { all[2].y = nullptr; }) == "y is null");
  CHECK_THAT(refusal([&](auto& all) { all[1].x = chain.x.data(); }),
             ContainsSubstring("x given, but"));
  CHECK_THAT(refusal([&](auto& all) { all[0].y = y.data(); }), ContainsSubstring("y given, but"));
}
