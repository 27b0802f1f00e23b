// SPDX-License-Identifier: Apache-2.0
// Pooling: problems, cuts, what tasks read and write, and the tasks of every instruction set
// against pooling in double.
#include "tasks/pooling/pooling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/mapping.hpp"
#include "tasks/cpu/kernels.hpp"
#include "tasks/pooling/cpu/pooling.hpp"
#include "tasks/pooling/cuda/pool_task_args.hpp"
#include "tasks/pooling/reference.hpp"
#include "tests/catch.hpp"
#include "tests/dice.hpp"
#include "tests/tasks/cpu_layer.hpp"

namespace megaconv {
namespace {

using test::Dice;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

PoolProblem random_problem(Dice& dice) {
  PoolProblem a;
  a.mode = dice.one_in(2) ? PoolMode::max : PoolMode::average;
  a.layout = dice.one_in(2) ? Layout::nchw : Layout::nhwc;
  a.dtype = static_cast<DataType>(dice.between(0, 2));
  a.n = dice.between(1, 3);
  a.c = dice.one_in(3) ? dice.between(1, 6) : dice.between(7, 90);
  a.h = dice.between(1, 14);
  a.w = dice.one_in(3) ? dice.between(30, 75) : dice.between(1, 29);
  a.r = dice.between(1, 4);
  a.s = dice.between(1, 4);
  if (dice.one_in(8)) a.r = a.h, a.s = a.w;  // the whole image
  a.pad_h = dice.between(0, a.r - 1);
  a.pad_w = dice.between(0, a.s - 1);
  a.r = std::min(a.r, a.h + 2 * a.pad_h);  // which may be larger than the image
  a.s = std::min(a.s, a.w + 2 * a.pad_w);
  a.pad_h = std::min(a.pad_h, a.r - 1);
  a.pad_w = std::min(a.pad_w, a.s - 1);
  a.stride_h = dice.between(1, 5);
  a.stride_w = dice.one_in(4) ? dice.between(3, 5) : dice.between(1, 2);
  if (a.r > a.h + 2 * a.pad_h || a.s > a.w + 2 * a.pad_w) return random_problem(dice);
  return a;
}

PoolCut random_cut(const PoolProblem& problem, Dice& dice) {
  PoolCut cut{.problem = problem};
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::uint32_t>(dice.one_in(2) ? most : dice.between(1, most));
  };
  cut.rows_per_group = up_to(problem.p());
  cut.cols_per_group = up_to(problem.q());
  cut.channels_per_task = up_to(problem.c);
  derive_counts(cut);
  return cut;
}

/// Tensors of one pooling, poisoned and fenced.
struct PoolLayer {
  explicit PoolLayer(const PoolCut& c)
      : cut(c),
        x(static_cast<std::size_t>(c.problem.x_size()), c.problem.dtype),
        y(static_cast<std::size_t>(c.problem.y_size()), c.problem.dtype) {}

  void set_x(std::size_t i, float value) { set(x, i, value); }
  void run_task(const cpu::PoolKernels& kernels, std::uint32_t group, std::uint32_t block) {
    const cpu::PoolArgs args{.cut = &cut, .x = x.data(), .y = y.data()};
    kernels.run(cut.problem.dtype)(args, group, block, nullptr);
  }
  void run(const cpu::PoolKernels& kernels) {
    for (std::uint32_t group = 0; group < cut.num_groups; ++group) {
      for (std::uint32_t block = 0; block < cut.tasks_per_group; ++block) {
        run_task(kernels, group, block);
      }
    }
  }
  std::vector<double> reference(std::vector<double>* magnitude = nullptr) {
    std::vector<double> truth(static_cast<std::size_t>(cut.problem.y_size()));
    if (magnitude != nullptr) magnitude->resize(truth.size());
    reference_pooling(cut.problem, x.data(), truth.data(),
                      magnitude != nullptr ? magnitude->data() : nullptr);
    return truth;
  }
  std::vector<std::byte> y_bytes() {
    const auto* const first = static_cast<const std::byte*>(y.data());
    return {first, first + cut.problem.y_size() * size_of(cut.problem.dtype)};
  }

  PoolCut cut;
  FencedBuffer x, y;

 private:
  void set(FencedBuffer& tensor, std::size_t i, float value) const {
    with_storage(cut.problem.dtype, [&](auto number) {
      static_cast<decltype(number)*>(tensor.data())[i] = from_float<decltype(number)>(value);
    });
  }
};

/// The bits that `value`, a number of float or a NaN, is stored as; any NaN is the same.
std::uint32_t stored_bits(DataType dtype, double value) {
  return with_storage(dtype, [&](auto number) -> std::uint32_t {
    number = from_float<decltype(number)>(static_cast<float>(value));
    return std::isnan(to_float(number)) ? 0xffffffffu
                                        : std::bit_cast<std::uint32_t>(to_float(number));
  });
}
std::uint32_t bits_of(float value) {
  return std::isnan(value) ? 0xffffffffu : std::bit_cast<std::uint32_t>(value);
}

/// Elements of y that are not the reference, rounded once; signs of zeros count.
std::int64_t count_wrong(PoolLayer& layer) {
  const std::vector<double> truth = layer.reference();
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    wrong += bits_of(layer.y[i]) != stored_bits(layer.cut.problem.dtype, truth[i]);
  }
  return wrong;
}

/// Largest error in units of its bound. Of T numbers, the first sum is exact, the others and the
/// division round: |error| <= T u S (1 + T u), S the average of |x|; u = 2^-24. From 2^24 on the
/// number T itself is rounded, which no test reaches. Storing rounds once more.
double worst_error(PoolLayer& layer) {
  const PoolProblem& a = layer.cut.problem;
  std::vector<double> magnitude;
  const std::vector<double> truth = layer.reference(&magnitude);
  const double sums = static_cast<double>(a.r * a.s) * 0x1p-24 * 1.001;
  double worst = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double summed = sums * magnitude[i] + 0x1p-149;
    const double stored = a.dtype == DataType::f32
                              ? 0
                              : unit_roundoff(a.dtype) *
                                    std::max(std::fabs(truth[i]) + summed, least_normal(a.dtype));
    const double error = std::fabs(double{layer.y[i]} - truth[i]) / (summed + stored);
    worst = std::isnan(error) ? kInfinity : std::max(worst, error);
  }
  return worst;
}

TEST_CASE("max pooling takes the very number, on every instruction set, in any cut") {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Dice dice(seed);
    PoolProblem problem = random_problem(dice);
    problem.mode = PoolMode::max;
    const PoolCut cut = random_cut(problem, dice);
    CAPTURE(seed, to_string(problem), cut.rows_per_group, cut.cols_per_group,
            cut.channels_per_task);
    for (const std::string& isa : cpu::available_isas()) {
      CAPTURE(isa);
      PoolLayer layer(cut);
      layer.x.fill({}, seed);
      if (seed % 2 == 0) {  // numbers that are equal, zeros of both signs, and no number at all
        constexpr float kValues[] = {0.f, -0.f, -1.f, -kInfinity, -kInfinity, -2.f, kInfinity};
        const std::size_t most = seed % 4 == 0 ? 6 : 7;
        for (std::size_t i = 0; i < static_cast<std::size_t>(problem.x_size()); ++i) {
          layer.set_x(i, kValues[random_bits(seed, i) % most]);
        }
      }
      layer.run(cpu::pool_kernels_for(isa));
      REQUIRE(count_wrong(layer) == 0);
      REQUIRE((layer.x.fences_whole() && layer.y.fences_whole()));
    }
  }
}

TEST_CASE("average pooling errs by no more than FP32 sums do, with the same bits everywhere") {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Dice dice(1000 + seed);
    PoolProblem problem = random_problem(dice);
    problem.mode = PoolMode::average;
    const PoolCut cut = random_cut(problem, dice);
    CAPTURE(seed, to_string(problem), cut.rows_per_group, cut.cols_per_group,
            cut.channels_per_task);
    std::vector<std::byte> first;
    for (const std::string& isa : cpu::available_isas()) {
      CAPTURE(isa);
      PoolLayer layer(cut);
      layer.x.fill({}, seed);
      layer.run(cpu::pool_kernels_for(isa));
      const double error = worst_error(layer);
      REQUIRE(error <= 1);
      worst = std::max(worst, error);
      REQUIRE((layer.x.fences_whole() && layer.y.fences_whole() && layer.y.all_written()));
      if (first.empty()) first = layer.y_bytes();
      REQUIRE(layer.y_bytes() == first);
    }
  }
  CHECK(worst > 0.3);  // the bound is not far from what is met
}

TEST_CASE("averages of whole numbers under windows of a power of two are exact") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Dice dice(2000 + seed);
    PoolProblem problem = random_problem(dice);
    problem.mode = PoolMode::average;
    problem.r = std::int64_t{1} << dice.between(0, 2);
    problem.s = std::int64_t{1} << dice.between(0, 2);
    problem.pad_h = problem.pad_w = 0;
    problem.h = std::max(problem.h, problem.r);
    problem.w = std::max(problem.w, problem.s);
    const PoolCut cut = random_cut(problem, dice);
    for (const std::string& isa : cpu::available_isas()) {
      CAPTURE(seed, to_string(problem), isa);
      PoolLayer layer(cut);
      layer.x.fill({.kind = Filling::Kind::integers, .multiple = 3}, seed);
      layer.run(cpu::pool_kernels_for(isa));
      REQUIRE(count_wrong(layer) == 0);
    }
  }
}

TEST_CASE("padding counts neither for an average's sum nor for its number") {
  // Of ones, every average is one, also at borders and corners.
  PoolProblem problem{.mode = PoolMode::average, .c = 20, .h = 9, .w = 40, .r = 3, .s = 4};
  problem.pad_h = 2;
  problem.pad_w = 3;
  problem.stride_h = problem.stride_w = 1;
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    problem.layout = layout;
    for (const std::string& isa : cpu::available_isas()) {
      PoolLayer layer(cut_pooling(problem, 2));
      for (std::size_t i = 0; i < static_cast<std::size_t>(problem.x_size()); ++i) {
        layer.set_x(i, 1);
      }
      layer.run(cpu::pool_kernels_for(isa));
      for (std::size_t i = 0; i < static_cast<std::size_t>(problem.y_size()); ++i) {
        REQUIRE(layer.y[i] == 1);
      }
    }
  }
}

TEST_CASE("a NaN spoils the outputs whose windows have it, and no other") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Dice dice(3000 + seed);
    const PoolProblem problem = random_problem(dice);
    const PoolCut cut = random_cut(problem, dice);
    for (const std::string& isa : cpu::available_isas()) {
      CAPTURE(seed, to_string(problem), isa);
      PoolLayer layer(cut);
      layer.x.fill({.kind = Filling::Kind::integers}, seed);
      for (std::size_t i = 0; i < static_cast<std::size_t>(problem.x_size()); ++i) {
        if (random_bits(seed, i) % 13 == 0) layer.set_x(i, kNan);
      }
      layer.run(cpu::pool_kernels_for(isa));
      const std::vector<double> truth = layer.reference();
      std::size_t different = 0, nans = 0;
      for (std::size_t i = 0; i < truth.size(); ++i) {
        different += std::isnan(truth[i]) != std::isnan(layer.y[i]);
        nans += std::isnan(truth[i]);
      }
      REQUIRE(different == 0);
      if (problem.y_size() > 1000 && problem.r * problem.s > 1) REQUIRE(nans > 0);
    }
  }
}

TEST_CASE(
    "a window of minus infinities has minus infinity, and infinities of both signs no average") {
  PoolProblem problem{.c = 17, .h = 6, .w = 36};
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    for (const DataType dtype : {DataType::f32, DataType::f16, DataType::bf16}) {
      problem.layout = layout;
      problem.dtype = dtype;
      for (const std::string& isa : cpu::available_isas()) {
        CAPTURE(to_string(problem), isa);
        for (const PoolMode mode : {PoolMode::max, PoolMode::average}) {
          problem.mode = mode;
          PoolLayer layer(cut_pooling(problem, 1));
          const auto size = static_cast<std::size_t>(problem.x_size());
          for (std::size_t i = 0; i < size; ++i) layer.set_x(i, -kInfinity);
          layer.run(cpu::pool_kernels_for(isa));
          for (std::size_t i = 0; i < static_cast<std::size_t>(problem.y_size()); ++i) {
            REQUIRE(layer.y[i] == -kInfinity);
          }
          layer.set_x(0, kInfinity);
          layer.run(cpu::pool_kernels_for(isa));
          if (mode == PoolMode::max) REQUIRE(layer.y[0] == kInfinity);
          if (mode == PoolMode::average) REQUIRE(std::isnan(layer.y[0]));
          REQUIRE(layer.y[1] == -kInfinity);
        }
      }
    }
  }
}

TEST_CASE("the reference pools by hand") {
  // 1 2 3       windows of 2x2 at stride 1, padded by a row and a column
  // 4 5 -6
  const std::vector<float> x = {1, 2, 3, 4, 5, -6};
  PoolProblem problem{.h = 2, .w = 3};
  problem.pad_h = problem.pad_w = problem.stride_h = problem.stride_w = 1;
  std::vector<double> y(12), magnitude(12);
  reference_pooling(problem, x.data(), y.data(), magnitude.data());
  CHECK(y == std::vector<double>{1, 2, 3, 3, 4, 5, 5, 3, 4, 5, 5, -6});
  CHECK(magnitude[6] == 4);
  problem.mode = PoolMode::average;
  reference_pooling(problem, x.data(), y.data());
  CHECK(y == std::vector<double>{1, 1.5, 2.5, 3, 2.5, 3, 1, -1.5, 4, 4.5, -0.5, -6});
}

// --- accesses ---

/// A graph with a given x, and its poolings.
TaskGraph graph_of_x(const PoolProblem& problem) {
  TaskGraph graph;
  for (KindId kind = 0; kind < kPoolingKind; ++kind) graph.kinds.push_back({"another", '?'});
  graph.kinds.push_back({"pooling", 'P'});
  graph.buffers.push_back(
      {.name = "x",
       .extent = x_extent(problem),
       .bytes = static_cast<std::uint64_t>(problem.x_size()) * size_of(problem.dtype),
       .given = true});
  return graph;
}

template <class Visit>
void for_each_point(const Region& region, const Visit& visit) {
  for (std::uint64_t row = region.rows.begin; row < region.rows.end; ++row) {
    for (std::uint64_t col = region.cols.begin; col < region.cols.end; ++col) {
      for (std::uint64_t c = region.channels.begin; c < region.channels.end; ++c) {
        visit(row, col, c);
      }
    }
  }
}

/// Where an element lies in a tensor of `rows` rows an image.
std::size_t place(const PoolProblem& a, std::int64_t rows, std::int64_t cols, std::uint64_t row,
                  std::uint64_t col, std::uint64_t channel) {
  const Strides strides = strides_of(a.layout, a.n, a.c, rows * cols);
  const auto image = static_cast<std::int64_t>(row) / rows;
  return static_cast<std::size_t>(
      image * strides.image + static_cast<std::int64_t>(channel) * strides.channel +
      (static_cast<std::int64_t>(row) % rows * cols + static_cast<std::int64_t>(col)) *
          strides.pixel);
}

TEST_CASE("tasks write every output once, and their reads are the halos of their windows") {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Dice dice(4000 + seed);
    const PoolProblem problem = random_problem(dice);
    const PoolCut cut = random_cut(problem, dice);
    CAPTURE(seed, to_string(problem));
    TaskGraph graph = graph_of_x(problem);
    const BufferId y = add_pooling(graph, "pool1", cut, 0);
    REQUIRE(graph.stages.size() == 1);
    const Stage& stage = graph.stages[0];
    REQUIRE((stage.groups == cut.num_groups && stage.per_group == cut.tasks_per_group));

    std::vector<int> writes(static_cast<std::size_t>(problem.y_size()));
    std::vector<Access> accesses;
    for (std::uint32_t group = 0; group < stage.groups; ++group) {
      Region read_by_group;
      for (std::uint32_t block = 0; block < stage.per_group; ++block) {
        accesses.clear();
        graph.list_accesses(0, group, block, accesses);
        REQUIRE(accesses.size() == 2);
        REQUIRE((accesses[0].buffer == 0 && accesses[0].mode == Mode::read));
        REQUIRE((accesses[1].buffer == y && accesses[1].mode == Mode::write));
        const Region &read = accesses[0].region, &written = accesses[1].region;
        REQUIRE(x_extent(problem).contains(read));
        REQUIRE(y_extent(problem).contains(written));
        if (block > 0) REQUIRE(read == read_by_group);
        read_by_group = read;
        // Every window by itself.
        Region needed{.rows = {~0ull, 0}, .cols = {~0ull, 0}};
        for_each_point(written, [&](std::uint64_t row, std::uint64_t col, std::uint64_t c) {
          ++writes[place(problem, problem.p(), problem.q(), row, col, c)];
          const auto image = static_cast<std::int64_t>(row) / problem.p();
          for (std::int64_t r = 0; r < problem.r; ++r) {
            const std::int64_t h =
                static_cast<std::int64_t>(row) % problem.p() * problem.stride_h - problem.pad_h + r;
            if (h < 0 || h >= problem.h) continue;
            const auto at = static_cast<std::uint64_t>(image * problem.h + h);
            needed.rows = {std::min(needed.rows.begin, at), std::max(needed.rows.end, at + 1)};
          }
          for (std::int64_t s = 0; s < problem.s; ++s) {
            const std::int64_t w =
                static_cast<std::int64_t>(col) * problem.stride_w - problem.pad_w + s;
            if (w < 0 || w >= problem.w) continue;
            const auto at = static_cast<std::uint64_t>(w);
            needed.cols = {std::min(needed.cols.begin, at), std::max(needed.cols.end, at + 1)};
          }
        });
        REQUIRE((read.rows == needed.rows && read.cols == needed.cols));
        REQUIRE(read.channels == Interval{0, static_cast<std::uint64_t>(problem.c)});
      }
    }
    REQUIRE(std::all_of(writes.begin(), writes.end(), [](int count) { return count == 1; }));
  }
}

TEST_CASE("the bodies read and write no more than their accesses say") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Dice dice(5000 + seed);
    const PoolProblem problem = random_problem(dice);
    const PoolCut cut = random_cut(problem, dice);
    TaskGraph graph = graph_of_x(problem);
    add_pooling(graph, "pool1", cut, 0);
    std::vector<Access> accesses;
    const auto group = static_cast<std::uint32_t>(dice.between(0, cut.num_groups - 1));
    const auto block = static_cast<std::uint32_t>(dice.between(0, cut.tasks_per_group - 1));
    graph.list_accesses(0, group, block, accesses);
    for (const std::string& isa : cpu::available_isas()) {
      CAPTURE(seed, to_string(problem), isa, group, block);
      PoolLayer layer(cut);  // all NaN
      for_each_point(accesses[0].region, [&](auto row, auto col, auto c) {
        layer.set_x(place(problem, problem.h, problem.w, row, col, c), 1);
      });
      layer.run_task(cpu::pool_kernels_for(isa), group, block);
      std::uint64_t written = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(problem.y_size()); ++i) {
        if (layer.y[i] == 1) ++written;
      }
      std::uint64_t expected = 0;
      for_each_point(accesses[1].region, [&](auto row, auto col, auto c) {
        expected += layer.y[place(problem, problem.p(), problem.q(), row, col, c)] == 1;
      });
      REQUIRE(expected == accesses[1].region.size());
      REQUIRE(written == expected);
      // Elsewhere the poison lies as it was: a NaN that was computed would be another.
      PoolLayer untouched(cut);
      for_each_point(accesses[1].region, [&](auto row, auto col, auto c) {
        const std::size_t at = place(problem, problem.p(), problem.q(), row, col, c);
        const std::size_t bytes = size_of(problem.dtype);
        std::memcpy(static_cast<std::byte*>(untouched.y.data()) + at * bytes,
                    static_cast<std::byte*>(layer.y.data()) + at * bytes, bytes);
      });
      REQUIRE(layer.y.same_numbers(untouched.y));
      REQUIRE(layer.y.fences_whole());
    }
  }
}

TEST_CASE("poolings that follow each other link, and every order of their tasks is proven") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Dice dice(6000 + seed);
    const PoolProblem first = random_problem(dice);
    PoolProblem second = first;
    second.h = first.p();
    second.w = first.q();
    second.r = std::min<std::int64_t>(3, second.h);
    second.s = std::min<std::int64_t>(2, second.w);
    second.pad_h = second.pad_w = 0;
    second.stride_h = second.stride_w = 1;
    CAPTURE(seed, to_string(first), to_string(second));
    TaskGraph graph = graph_of_x(first);
    const BufferId between = add_pooling(graph, "pool1", random_cut(first, dice), 0);
    const BufferId last = add_pooling(graph, "pool2", random_cut(second, dice), between);
    CHECK(graph.nodes == std::vector<std::string>{"pool1", "pool2"});
    CHECK(graph.buffers[last].name == "pool2.y");
    CHECK_FALSE(graph.buffers[last].given);
    link(graph);
    count_signals(graph);
    CHECK(std::all_of(graph.edges.begin(), graph.edges.end(), [](const Edge& edge) {
      return edge.consumer.stage == 1 && edge.producer.stage == 0;
    }));
    for (const std::string& policy : policy_names()) {
      MappingOptions options;
      options.policy = policy;
      TaskMapping mapping = make_mapping(graph, options);
      CHECK_FALSE(validate(graph, mapping));
      std::reverse(mapping.order.begin(), mapping.order.end());
      CHECK(validate(graph, mapping));
    }
    CHECK(name(graph, graph.tasks.back()).substr(0, 8) == "pool2/P[");
  }
}

TEST_CASE("a stage's cost adds up to that of its pooling") {
  // 56 rows in groups of 8: a group reads 17 of its 16 rows, and all columns.
  PoolProblem problem{.n = 2, .c = 64, .h = 112, .w = 112, .r = 3, .s = 3};
  problem.pad_h = problem.pad_w = 1;
  problem.dtype = DataType::f16;
  PoolCut cut{.problem = problem, .rows_per_group = 8, .cols_per_group = 56};
  cut.channels_per_task = 32;
  TaskGraph graph = graph_of_x(problem);
  const BufferId y = add_pooling(graph, "pool1", cut, 0);
  const Stage& stage = graph.stages[0];
  CHECK(stage.role == Role::product);
  CHECK((stage.groups == 14 && stage.per_group == 2));
  CHECK(stage.operations == Approx(8 * 56 * 32 * 9));
  const double own = 16 * 112 * 32 * 2, halo = 112 * 32 * 2, written = 8 * 56 * 32 * 2;
  CHECK(stage.bytes == Approx(own + halo + written));
  double read = 0;
  for (const Traffic& traffic : stage.traffic) {
    if (traffic.mode == Mode::read) read += traffic.bytes;
    CHECK((traffic.neighbour == 0 || traffic.bytes == Approx(halo / 2)));
  }
  CHECK(read == Approx(own + halo));
  CHECK(stage.traffic.size() == 4);
  CHECK((stage.traffic.back().buffer == y && stage.traffic.back().mode == Mode::write));
  CHECK(stage.traffic.back().bytes == Approx(written));
  CHECK(graph.buffers[y].bytes == 2 * 56 * 56 * 64 * 2);

  // What another stage writes comes in the pieces that it writes.
  PoolProblem next{.n = 2, .c = 64, .h = 56, .w = 56, .r = 56, .s = 56};
  next.dtype = DataType::f16;
  add_pooling(graph, "pool2", cut_pooling(next, 1), y);
  CHECK(graph.stages[1].traffic[0].piece == Traffic::Piece::evenly);
}

// --- cuts and errors ---

TEST_CASE("cuts have tasks enough for all workers, and whole rows where these suffice") {
  const auto cut = [](std::int64_t n, std::int64_t c, std::int64_t size, std::int64_t window,
                      std::int64_t stride, std::uint32_t workers) {
    PoolProblem problem{.n = n, .c = c, .h = size, .w = size, .r = window, .s = window};
    problem.stride_h = problem.stride_w = stride;
    return cut_pooling(problem, workers);
  };
  const auto tasks = [](const PoolCut& of) { return of.num_groups * of.tasks_per_group; };
  for (const std::uint32_t workers : {1u, 2u, 8u, 32u}) {
    const PoolCut rows = cut(1, 64, 112, 2, 2, workers);
    CHECK((rows.cols_per_group == 56 && tasks(rows) >= std::min(4 * workers, 112u)));
    if (workers <= 8) CHECK(rows.channels_per_task == 64);
  }
  const PoolCut global = cut(1, 2048, 7, 7, 1, 4);  // one output of each channel
  CHECK((global.num_groups == 1 && global.channels_per_task % 16 == 0));
  CHECK(global.tasks_per_group >= 8);
  CHECK(tasks(cut(1, 3, 8, 2, 2, 64)) == 1);  // too little to share out
  const PoolCut flat = cut_pooling({.c = 1, .h = 2, .w = 4'000'000}, 8);
  CHECK((flat.num_groups >= 32 && flat.cols_per_group < 2'000'000));
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Dice dice(7000 + seed);
    const PoolProblem problem = random_problem(dice);
    PoolCut chosen = cut_pooling(problem, static_cast<std::uint32_t>(dice.between(1, 200)));
    const PoolCut before = chosen;
    derive_counts(chosen);
    CHECK(chosen == before);
  }
}

TEST_CASE("cuts for tasks that run at once have no more of them, unless images are more") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Dice dice(9000 + seed);
    const PoolProblem problem = random_problem(dice);
    const auto blocks = static_cast<std::uint32_t>(dice.between(1, 300));
    PoolCut chosen = cut_pooling_at_once(problem, blocks);
    CAPTURE(to_string(problem), blocks, to_string(chosen));
    CHECK(std::uint64_t{chosen.num_groups} * chosen.tasks_per_group <=
          std::max<std::uint64_t>(blocks, static_cast<std::uint64_t>(problem.n)));
    const PoolCut before = chosen;
    derive_counts(chosen);
    CHECK(chosen == before);
  }
  const PoolCut rows = cut_pooling_at_once(
      {.n = 8, .c = 64, .h = 112, .w = 112, .r = 3, .s = 3, .pad_h = 1, .pad_w = 1}, 264);
  CHECK((rows.rows_per_group == 2 && rows.num_groups == 224 && rows.tasks_per_group == 1));
}

template <class Call>
std::string message_of(Status status, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.status() == status);
    return error.what();
  }
  return "no error";
}

TEST_CASE("problems and cuts that cannot be are refused with value and limit") {
  const PoolProblem good{.c = 8, .h = 6, .w = 5, .r = 3, .s = 2, .pad_h = 2, .pad_w = 1};
  CHECK_NOTHROW(validate(good));
  const auto refuses = [&](Status status, const char* expected, auto change) {
    PoolProblem problem = good;
    change(problem);
    CHECK(message_of(status, [&] { validate(problem); }) == expected);
  };
  constexpr Status kBad = Status::invalid_argument, kUnsupported = Status::unsupported;
  using P = PoolProblem;
  refuses(kBad, "c = 0: must be 1 to 2147483647", [](P& a) { a.c = 0; });
  refuses(kBad, "h = 2147483648: must be 1 to 2147483647", [](P& a) { a.h = 1ll << 31; });
  refuses(kBad, "s = -1: must be 1 to 2147483647", [](P& a) { a.s = -1; });
  refuses(kBad, "vertical stride = 0: must be 1 to 2147483647", [](P& a) { a.stride_h = 0; });
  refuses(kBad, "vertical padding = 3: must be 0 to 2, less than the window",
          [](P& a) { a.pad_h = 3; });
  refuses(kBad, "horizontal padding = -1: must be 0 to 1, less than the window",
          [](P& a) { a.pad_w = -1; });
  refuses(kBad, "window of 3x8: must be at most the padded input, 10x7", [](P& a) { a.s = 8; });
  refuses(kBad, "input of 2097152x8x2097152x5 elements: must be at most 2^40 in all",
          [](P& a) { a.n = a.h = 1 << 21; });
  refuses(kBad, "output of 1x2147483647x21x26 elements: must be at most 2^40 in all", [](P& a) {
    a = {.c = 0x7fffffff, .h = 20, .w = 25, .r = 2, .s = 2, .pad_h = 1, .pad_w = 1};
    a.stride_h = a.stride_w = 1;
  });
  refuses(kBad, "pool mode 7: must be max or average",
          [](P& a) { a.mode = static_cast<PoolMode>(7); });
  refuses(kUnsupported, "pooling: storage type i8, must be f32, f16 or bf16",
          [](P& a) { a.dtype = DataType::i8; });
  refuses(kUnsupported, "pooling: layout chwn, must be nchw or nhwc",
          [](P& a) { a.layout = Layout::chwn; });

  const auto refuses_cut = [&](Status status, const char* expected, PoolCut cut) {
    CHECK(message_of(status, [&] { derive_counts(cut); }) == expected);
  };
  refuses_cut(kBad, "rows_per_group = 0: must be 1 to 4", {.problem = good, .rows_per_group = 0});
  refuses_cut(kBad, "cols_per_group = 4: must be 1 to 3", {.problem = good, .cols_per_group = 4});
  refuses_cut(kBad, "channels_per_task = 9: must be 1 to 8",
              {.problem = good, .channels_per_task = 9});
  refuses_cut(kUnsupported, "4294967296 tasks: must be at most 2^31; use larger groups",
              {.problem = {.n = 1 << 16, .h = 512, .w = 512}});
  CHECK(message_of(kBad, [&] { cut_pooling(good, 0); }) == "workers = 0: must be at least 1");
  CHECK(message_of(kUnsupported, [] {
          cuda::node_args(cut_pooling({.h = 0x7fffffff, .r = 3, .s = 1, .pad_h = 1}, 1), {});
        }) == "pooling on CUDA: 2147483649 rows with padding, must be less than 2^31");
  PoolCut large{.problem = {.c = 1 << 15, .h = 512, .w = 512}, .rows_per_group = 256};
  large.cols_per_group = 256;
  large.channels_per_task = 1 << 15;
  CHECK(message_of(kUnsupported, [&] { cuda::node_args(large, {}); }) ==
        "pooling on CUDA: tasks of 2147483648 outputs, must be at most 2^30; use smaller groups");
}

TEST_CASE("an input that does not fit is refused by name, and the graph stays as it was") {
  const PoolProblem problem{.n = 2, .c = 8, .h = 6, .w = 5};
  const PoolCut cut = cut_pooling(problem, 1);
  TaskGraph graph = graph_of_x(problem);
  graph.buffers[0].name = "conv1.y";
  const auto refuses = [&](const std::string& expected) {
    CHECK(message_of(Status::invalid_argument, [&] { add_pooling(graph, "pool1", cut, 0); }) ==
          expected + " for max pooling n2c8h6w5r2s2p0u2");
    CHECK((graph.nodes.empty() && graph.stages.empty() && graph.tasks.empty()));
    CHECK((graph.accesses.empty() && graph.buffers.size() == 1));
    graph.buffers[0].extent = x_extent(problem);
  };
  graph.buffers[0].extent.rows.end = 11;
  refuses("pool1: x is conv1.y with 11 rows, must have 12");
  graph.buffers[0].extent.cols.end = 6;
  refuses("pool1: x is conv1.y with 6 columns, must have 5");
  graph.buffers[0].extent.channels.end = 16;
  refuses("pool1: x is conv1.y with 16 channels, must have 8");
  graph.buffers[0].extent.positions.end = 2;
  refuses("pool1: x is conv1.y with 2 positions, must have 1");
  graph.buffers[0].bytes = 960;
  refuses("pool1: x is conv1.y of 960 bytes, must have at least 1920");
  CHECK(message_of(Status::invalid_argument, [&] { add_pooling(graph, "pool1", cut, 3); }) ==
        "pool1: x is buffer 3, must be one of the graph's 1");
}

TEST_CASE("a pooling's text has what differs from others") {
  PoolProblem problem{.c = 64, .h = 112, .w = 112, .r = 3, .s = 3};
  problem.pad_h = problem.pad_w = 1;
  problem.layout = Layout::nhwc;
  CHECK(to_string(problem) == "max pooling n1c64h112w112r3s3p1u2+nhwc");
  problem.mode = PoolMode::average;
  problem.pad_w = 2;
  problem.stride_h = 1;
  problem.layout = Layout::nchw;
  problem.dtype = DataType::bf16;
  CHECK(to_string(problem) == "average pooling n1c64h112w112r3s3p1x2u1x2+bf16");
}

TEST_CASE("every instruction set has pooling bodies of its own") {
  for (const std::string& isa : cpu::available_isas()) {
    const cpu::PoolKernels& kernels = cpu::pool_kernels_for(isa);
    CHECK(isa.substr(0, std::string(kernels.isa).size()) == kernels.isa);
    CHECK(kernels.run(DataType::i8) == nullptr);
  }
  CHECK_THROWS_AS(cpu::pool_kernels_for("mmx"), Error);
}

}  // namespace
}  // namespace megaconv
