// SPDX-License-Identifier: Apache-2.0
// Convolution, pooling, convolution: the tasks of one graph, in its order, as a GPU runs them.
#include <cstddef>
#include <string>
#include <vector>

#include "runtime/cuda/kernel_set.cuh"
#include "runtime/cuda/task_arguments.hpp"
#include "tasks/pooling/cuda/pool_task_args.hpp"
#include "tasks/pooling/cuda/pooling.cuh"
#include "tasks/pooling/reference.hpp"
#include "tasks/reference.hpp"
#include "tests/catch.hpp"
#include "tests/emulated_cuda/emulated_kernels.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

constexpr int kPoolThreads = 128;
constexpr float kPoison = 1e30f;

std::vector<float> numbers(std::int64_t count, float value = 0) {
  return std::vector<float>(static_cast<std::size_t>(count), value);
}

// A node's kernels and arguments, bound to memory.
struct Bound {
  cuda::KernelSet kernels{};
  cuda::TaskArgs conv{};
  cuda::PoolTaskArgs pool{};
  std::vector<float> u;
};

Bound bind_node(const Cut& cut, float* x, float* w, float* bias, float* y) {
  Bound bound;
  if (const auto* pool = std::get_if<PoolCut>(&cut)) {
    bound.pool = cuda::node_args(*pool, {.x = x, .y = y});
    return bound;
  }
  const Tiling& tiling = std::get<Tiling>(cut);
  bound.kernels = emulated_kernels(tiling);
  bound.conv = make_task_args(tiling, bound.kernels);
  const cuda::TaskMemory bytes =
      memory_of_tasks(tiling, bound.kernels, bound.conv, build_filter_graph(tiling).tasks.size());
  bound.u = numbers(static_cast<std::int64_t>(bytes.u_bytes / sizeof(float)), kPoison);
  bound.conv.x = x;
  bound.conv.w = w;
  bound.conv.bias = bias;
  bound.conv.y = y;
  bound.conv.u = bound.u.data();
  return bound;
}

void run(const Bound& bound, const Task& task, ThreadOrder order, std::vector<std::byte>& shared) {
  if (kind_of(task) == TaskKind::pooling) {
    run_block(kPoolThreads, order, [&] {
      cuda::PoolingTask<float, kPoolThreads>::run(bound.pool, task.group, task.block, [] {});
    });
    return;
  }
  const auto body =
      reinterpret_cast<cuda::EmulatedTask>(const_cast<void*>(bound.kernels.stage[task.kind]));
  run_block(bound.kernels.num_threads, order, [&] { body(bound.conv, task, shared.data()); });
}

}  // namespace

TEST_CASE("conv, pool, conv of CUDA tasks is exact on integers in every order of the graph") {
  for (const std::string layout : {"", "+nhwc"}) {
    const ConvProblem conv1 = parse_problem("n2c5h13w18k20+bias+relu" + layout);
    const PoolProblem pool{.n = 2,
                           .c = 20,
                           .h = 13,
                           .w = 18,
                           .r = 3,
                           .s = 3,
                           .pad_h = 1,
                           .pad_w = 1,
                           .layout = conv1.layout};
    const ConvProblem conv2 = parse_problem("n2c20h7w9k12" + layout);
    std::vector<float> x = numbers(conv1.x_size()), w1 = numbers(conv1.w_size());
    std::vector<float> w2 = numbers(conv2.w_size()), bias = numbers(conv1.k);
    fill_integers(x, 1);
    fill_integers(w1, 2);
    fill_integers(w2, 3);
    fill_integers(bias, 4, 1.0);

    std::vector<double> wide(static_cast<std::size_t>(conv1.y_size()));
    reference_convolution(conv1, {.x = x.data(), .w = w1.data(), .bias = bias.data()}, wide.data());
    std::vector<float> between(wide.begin(), wide.end());
    wide.assign(static_cast<std::size_t>(pool.y_size()), 0);
    reference_pooling(pool, between.data(), wide.data());
    between.assign(wide.begin(), wide.end());
    wide.assign(static_cast<std::size_t>(conv2.y_size()), 0);
    reference_convolution(conv2, {.x = between.data(), .w = w2.data()}, wide.data());
    const std::vector<float> truth(wide.begin(), wide.end());

    const auto weights = [&](const ConvProblem& problem, const std::vector<float>& w) {
      // Only their number counts here.
      return Convolution{.k = problem.k,
                         .r = 3,
                         .s = 3,
                         .pad_h = 1,
                         .pad_w = 1,
                         .w = view_weights(w),
                         .bias = problem.epilogue.bias ? view_weights(bias) : Weights{},
                         .relu = problem.epilogue.activation == kRelu};
    };
    Network network{
        .inputs = {{"x", {2, 5, 13, 18}}}, .outputs = {"conv2"}, .layout = conv1.layout};
    network.operators = {{"conv1", weights(conv1, w1), {"x"}},
                         {"pool", Pooling{PoolMode::max, 3, 3, 1, 1, 2, 2}, {"conv1"}},
                         {"conv2", weights(conv2, w2), {"pool"}}};
    for (const std::string& policy : policy_names()) {
      const Lowering lowering = lower(network, {.algorithm = Algorithm::direct}, {.policy = policy},
                                      {.backend = Backend::cuda, .workers = 8});
      for (const ThreadOrder order : {ThreadOrder::forward, ThreadOrder::shuffled}) {
        std::vector<float> y1 = numbers(conv1.y_size(), kPoison);
        std::vector<float> y2 = numbers(pool.y_size(), kPoison);
        std::vector<float> y = numbers(conv2.y_size(), kPoison);
        const Bound bound[] = {
            bind_node(lowering.nodes[0].cut, x.data(), w1.data(), bias.data(), y1.data()),
            bind_node(lowering.nodes[1].cut, y1.data(), nullptr, nullptr, y2.data()),
            bind_node(lowering.nodes[2].cut, y2.data(), w2.data(), nullptr, y.data())};
        std::vector<std::byte> shared(1 << 17);
        set_shared_memory(shared.data());
        for (std::size_t node = 0; node < 3; ++node) {  // filters are prepared
          const auto* const tiling = std::get_if<Tiling>(&lowering.nodes[node].cut);
          if (tiling == nullptr) continue;
          for (const Task& task : build_filter_graph(*tiling).tasks) {
            run(bound[node], task, order, shared);
          }
        }
        for (const std::uint32_t id : lowering.mapping.order) {
          const Task& task = lowering.graph.tasks[id];
          run(bound[task.node], task, order, shared);
        }
        CAPTURE(layout, policy);
        CHECK(y == truth);
      }
    }
  }
}
