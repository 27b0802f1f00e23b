// SPDX-License-Identifier: Apache-2.0
// Elementwise operations: problems, cuts, what tasks read and write, and the tasks of every
// instruction set against the same in double.
#include "tasks/elementwise/elementwise.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/mapping.hpp"
#include "tasks/conv_graph.hpp"
#include "tasks/cpu/kernels.hpp"
#include "tasks/elementwise/cpu/elementwise.hpp"
#include "tasks/elementwise/reference.hpp"
#include "tests/catch.hpp"
#include "tests/dice.hpp"
#include "tests/mapping/shapes.hpp"
#include "tests/tasks/cpu_layer.hpp"
#include "tests/tasks/float_tensor.hpp"
#include "tests/tasks/random_cuts.hpp"

namespace megaconv {
namespace {

using test::between;
using test::error_of;
using test::FloatTensor;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Tensors of one operation, poisoned and fenced.
struct ElementwiseLayer {
  explicit ElementwiseLayer(const ElementwiseCut& c)
      : cut(c),
        residual(static_cast<std::size_t>(c.problem.y_size()), c.problem.dtype),
        scale(static_cast<std::size_t>(c.problem.c())),
        bias(static_cast<std::size_t>(c.problem.c())),
        y(static_cast<std::size_t>(c.problem.y_size()), c.problem.dtype) {
    const ElementwiseProblem& a = cut.problem;
    for (const std::int64_t channels : a.channels) {
      x.emplace_back(static_cast<std::size_t>(a.n * channels * a.h * a.w), a.dtype);
    }
    for (FencedBuffer& part : x) inputs.push_back(part.data());
  }

  void fill(const Filling& filling, std::uint64_t seed) {
    for (FencedBuffer& part : x) part.fill(filling, ++seed * 77);
    residual.fill(filling, seed + 1001);
    scale.fill(filling, seed + 1002);
    bias.fill(filling, seed + 1003);
  }
  void run(const cpu::ElementwiseKernels& kernels) {
    const cpu::ElementwiseArgs args{.cut = &cut,
                                    .x = inputs.data(),
                                    .residual = cut.problem.residual ? residual.data() : nullptr,
                                    .scale = cut.problem.affine ? scale.floats() : nullptr,
                                    .bias = cut.problem.affine ? bias.floats() : nullptr,
                                    .y = y.data()};
    for (std::uint32_t group = 0; group < cut.num_groups; ++group) {
      kernels.run(cut.problem.dtype)(args, group);
    }
  }
  std::vector<double> reference(std::vector<double>& magnitude) {
    std::vector<double> truth(static_cast<std::size_t>(cut.problem.y_size()));
    magnitude.resize(truth.size());
    reference_elementwise(
        cut.problem,
        {.x = inputs, .residual = residual.data(), .scale = scale.floats(), .bias = bias.floats()},
        truth.data(), magnitude.data());
    return truth;
  }
  bool fences_whole() {
    return std::all_of(x.begin(), x.end(),
                       [](FencedBuffer& part) { return part.fences_whole(); }) &&
           residual.fences_whole() && scale.fences_whole() && bias.fences_whole() &&
           y.fences_whole();
  }

  ElementwiseCut cut;
  std::vector<FencedBuffer> x;
  FencedBuffer residual, scale, bias, y;
  std::vector<const void*> inputs;
};

TEST_CASE("elementwise tasks err by no more than FP32 does, with the same bits everywhere") {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const ElementwiseCut cut = test::random_elementwise_cut(seed);
    const ElementwiseProblem& a = cut.problem;
    CAPTURE(seed, to_string(a), cut.rows_per_group, cut.channels_per_task);
    std::vector<float> first;
    for (const std::string& isa : cpu::available_isas()) {
      CAPTURE(isa);
      ElementwiseLayer layer(cut);
      layer.fill({}, seed);
      layer.run(cpu::elementwise_kernels_for(isa));
      std::vector<double> magnitude;
      const std::vector<double> truth = layer.reference(magnitude);
      std::vector<float> y;
      for (std::size_t i = 0; i < truth.size(); ++i) {
        y.push_back(layer.y[i]);
        // One rounding of scale x + bias, one of the sum with the residual, and one when stored.
        const double sums = (a.affine + a.residual) * 0x1p-24 * 1.001 * magnitude[i];
        const double stored = a.dtype == DataType::f32
                                  ? 0
                                  : unit_roundoff(a.dtype) *
                                        std::max(std::fabs(truth[i]) + sums, least_normal(a.dtype));
        const double error = std::fabs(double{y.back()} - truth[i]);
        REQUIRE(error <= sums + stored);
        if (sums + stored > 0) worst = std::max(worst, error / (sums + stored));
      }
      REQUIRE((layer.fences_whole() && layer.y.all_written()));
      if (first.empty()) first = y;
      REQUIRE(y == first);
    }
  }
  CHECK(worst > 0.5);  // the bound is not far from what is met
}

TEST_CASE("elementwise tasks are exact on whole numbers") {
  for (std::uint64_t seed = 1000; seed < 1100; ++seed) {
    const ElementwiseCut cut = test::random_elementwise_cut(seed);
    CAPTURE(seed, to_string(cut.problem));
    ElementwiseLayer layer(cut);
    layer.fill({.kind = Filling::Kind::integers, .density = 0.8}, seed);
    layer.run(cpu::elementwise_kernels_for());
    std::vector<double> magnitude;
    const std::vector<double> truth = layer.reference(magnitude);
    for (std::size_t i = 0; i < truth.size(); ++i) REQUIRE(double{layer.y[i]} == truth[i]);
  }
}

TEST_CASE("a clamp keeps NaN, and infinities become its ends") {
  const ElementwiseProblem a{.h = 1, .w = 40, .channels = {3}, .least = 0, .most = 6};
  for (const std::string& isa : cpu::available_isas()) {
    CAPTURE(isa);
    ElementwiseLayer layer(cut_elementwise(a, 1));
    const float numbers[] = {
        std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, 7, -1, 3};
    float* const x = layer.x[0].floats();
    for (std::size_t i = 0; i < 120; ++i) x[i] = numbers[i % 6];
    layer.run(cpu::elementwise_kernels_for(isa));
    for (std::size_t i = 0; i < 120; i += 6) {
      REQUIRE(std::isnan(layer.y[i]));
      const float expected[] = {6, 0, 6, 0, 3};
      for (std::size_t k = 0; k < 5; ++k) REQUIRE(layer.y[i + 1 + k] == expected[k]);
    }
  }
}

TEST_CASE(
    "elementwise tasks write all of y once and wait for nobody when they read what is given") {
  for (std::uint64_t seed = 2000; seed < 2100; ++seed) {
    const ElementwiseCut cut = test::random_elementwise_cut(seed);
    CAPTURE(seed, to_string(cut.problem), cut.channels_per_task);
    TaskGraph graph;
    graph.kinds = task_kinds();
    NodeBuffers read;
    for (std::size_t i = 0; i < cut.problem.channels.size(); ++i) {
      read.inputs.push_back(static_cast<BufferId>(graph.buffers.size()));
      graph.buffers.push_back({.name = "x", .extent = x_extent(cut.problem, i), .given = true});
    }
    read.residual = static_cast<BufferId>(graph.buffers.size());
    graph.buffers.push_back({.name = "r", .extent = y_extent(cut.problem), .given = true});
    const NodeBuffers buffers = add_elementwise(graph, "sum", cut, read);
    link(graph);
    count_signals(graph);
    CHECK(graph.edges.empty());
    std::uint64_t written = 0;
    std::vector<Access> accesses;
    for (std::uint32_t group = 0; group < cut.num_groups; ++group) {
      accesses.clear();
      graph.list_accesses(0, group, 0, accesses);
      // A task runs in memory where all but what it says it reads is NaN.
      const ElementwiseProblem& a = cut.problem;
      ElementwiseCut wide = cut;
      wide.problem.dtype = DataType::f32;
      std::vector<FloatTensor> tensors;  // by buffer
      std::vector<const void*> inputs;
      for (const std::int64_t channels : a.channels) {
        tensors.emplace_back(a.layout, a.n, channels, a.h, a.w, kNan);
        inputs.push_back(tensors.back().numbers.data());
      }
      tensors.emplace_back(a.layout, a.n, a.c(), a.h, a.w, kNan);
      FloatTensor y(a.layout, a.n, a.c(), a.h, a.w, 7);
      const std::vector<float> ones(static_cast<std::size_t>(a.c()), 1);
      for (const Access& access : accesses) {
        if (access.mode != Mode::read) continue;
        tensors[access.buffer].for_each(access.region, [](float& number) { number = 1; });
      }
      cpu::elementwise_kernels_for().run(DataType::f32)(
          {.cut = &wide,
           .x = inputs.data(),
           .residual = a.residual ? tensors.back().numbers.data() : nullptr,
           .scale = a.affine ? ones.data() : nullptr,
           .bias = a.affine ? ones.data() : nullptr,
           .y = y.numbers.data()},
          group);
      for (const Access& access : accesses) {
        if (access.mode != Mode::write) continue;
        written += access.region.size();
        y.for_each(access.region, [](float& number) {
          REQUIRE(!std::isnan(number));
          number = 7;
        });
      }
      REQUIRE(std::count(y.numbers.begin(), y.numbers.end(), 7.0f) == a.y_size());
    }
    CHECK(written == graph.buffers[buffers.y].extent.size());
    TaskMapping order{.policy = "staged", .options = {}, .order = {}};
    order.order.resize(graph.tasks.size());
    std::iota(order.order.begin(), order.order.end(), 0u);
    CHECK(!validate(graph, order));  // which proves that writes are disjoint
  }
}

TEST_CASE("a chosen cut has tasks for all workers, and none that is tiny") {
  const auto groups = [](std::int64_t n, std::int64_t h, std::int64_t c, std::uint32_t workers) {
    return cut_elementwise({.n = n, .h = h, .w = h, .channels = {c}}, workers).num_groups;
  };
  for (const std::uint32_t workers : {2u, 4u, 8u}) {
    CHECK(groups(1, 56, 256, workers) >= 4 * workers);
    CHECK(groups(32, 7, 512, workers) >= 4 * workers);
  }
  CHECK(groups(1, 7, 16, 8) == 1);    // 784 numbers
  CHECK(groups(1, 1, 2048, 4) == 1);  // a row
}

TEST_CASE("tasks of older tensors do not read the last one, where workers are many") {
  // DenseNet-161: 56 rows of 8192 numbers and more are enough tasks, but not as many as workers.
  for (const std::int64_t h : {56, 28, 14, 7}) {
    const ElementwiseProblem a{.h = h, .w = h, .channels = {96, 48, 48, 48}, .affine = true};
    CAPTURE(h);
    const ElementwiseCut cut = cut_elementwise(a, 66);
    REQUIRE(older_channels(cut) == 192);
    CHECK(last_chunks(cut) == 1);
    std::int64_t older = 0, last = 0;
    for (std::uint32_t group = 0; group < cut.num_groups; ++group) {
      const ElementwiseTask task = task_of(cut, group);
      CHECK((task.end_channel <= 192 || task.first_channel >= 192));
      (task.first_channel < 192 ? older : last) +=
          task.rows * (task.end_channel - task.first_channel);
      CHECK((task.first_channel < 192 || older == h * 192));  // older ones stand before
    }
    CHECK((older == h * 192 && last == h * 48));
    // Those of the last tensor wait for it alone, the others for the older ones.
    TaskGraph graph;
    graph.kinds = task_kinds();
    std::vector<Access> accesses;
    NodeBuffers read;
    for (std::size_t i = 0; i < a.channels.size(); ++i) {
      read.inputs.push_back(static_cast<BufferId>(i));
      graph.buffers.push_back({.name = "x", .extent = x_extent(a, i), .given = true});
    }
    add_elementwise(graph, "cat", cut, read);
    for (std::uint32_t group = 0; group < cut.num_groups; ++group) {
      accesses.clear();
      graph.list_accesses(0, group, 0, accesses);
      const bool reads_last = task_of(cut, group).first_channel >= 192;
      REQUIRE(accesses.size() == (reads_last ? 2u : 4u));
      for (const Access& access : accesses) {
        if (access.mode == Mode::read) CHECK((access.buffer == 3) == reads_last);
      }
    }
  }
  // Few workers have enough with bands of rows; one tensor has nothing older.
  const ElementwiseProblem a{.h = 56, .w = 56, .channels = {96, 48}};
  CHECK(older_channels(cut_elementwise(a, 8)) == 0);
  CHECK(older_channels(cut_elementwise({.h = 7, .w = 7, .channels = {2048}}, 66)) == 0);
}

TEST_CASE("elementwise problems that are wrong are refused with value and limit") {
  const ElementwiseProblem good{.h = 4, .w = 4, .channels = {3, 5}};
  const auto refusal = [&](auto change, Status status = Status::invalid_argument) {
    ElementwiseProblem problem = good;
    change(problem);
    return error_of([&] { validate(problem); }, status);
  };
  CHECK(refusal([](auto& a) { a.n = 0; }) == "n = 0: must be 1 to 2147483647");
  CHECK(refusal([](auto& a) { a.channels = {}; }) == "tensors of x: 0, must be at least 1");
  CHECK(refusal([](auto& a) { a.channels = {3, 0}; }) == "c = 0: must be 1 to 2147483647");
  CHECK(refusal([](auto& a) { a.most = -1, a.least = 2; }) ==
        "clamped to 2 to -1: the least must be below the most");
  CHECK(refusal([](auto& a) { a.h = a.w = 1 << 20; }) ==
        "output of 1x8x1048576x1048576 elements: must be at most 2^40 in all");
  CHECK(refusal([](auto& a) { a.dtype = DataType::i8; }, Status::unsupported) ==
        "elementwise: storage type i8, must be f32, f16 or bf16");
  CHECK(refusal([](auto& a) { a.layout = Layout::chwn; }, Status::unsupported) ==
        "elementwise: layout chwn, must be nchw or nhwc");
  ElementwiseCut cut{.problem = good, .rows_per_group = 5};
  CHECK(error_of([&] { derive_counts(cut); }) == "rows_per_group = 5: must be 1 to 4");
  cut.rows_per_group = 4;
  cut.channels_per_task = 9;
  CHECK(error_of([&] { derive_counts(cut); }) == "channels_per_task = 9: must be 1 to 8");
  CHECK(error_of([&] { cut_elementwise(good, 0); }) == "workers = 0: must be at least 1");
  TaskGraph graph;
  CHECK(error_of([&] { add_elementwise(graph, "cat", cut_elementwise(good, 1), {}); }) ==
        "cat: reads 0 tensors, must read 2");
  graph.buffers.push_back({.name = "x", .extent = y_extent(good), .given = true});
  CHECK(error_of([&] {
          add_elementwise(graph, "cat", cut_elementwise(good, 1), {.inputs = {0, 0}});
        }) ==
        "cat: reads rows 0-4, columns 0-4, channels 0-3, buffer x has rows 0-4, columns 0-4, "
        "channels 0-8");
}

TEST_CASE("texts say what an elementwise operation does") {
  CHECK(to_string(ElementwiseProblem{.h = 7,
                                     .w = 7,
                                     .channels = {64, 32},
                                     .affine = true,
                                     .residual = true,
                                     .least = 0,
                                     .layout = Layout::nhwc}) ==
        "concatenation of 64+32 channels, scaled, addition, clamped to 0 to inf, n1c96h7w7+nhwc");
  CHECK(to_string(ElementwiseProblem{}) == "copy, n1c1h1w1");
  CHECK(to_string(cut_elementwise({.h = 4, .channels = {2}, .residual = true}, 1)) ==
        "problem: addition, n1c2h4w1\nrows of a task: 4\nchannels of a task: 2\ntasks: 1\n");
}

}  // namespace
}  // namespace megaconv
