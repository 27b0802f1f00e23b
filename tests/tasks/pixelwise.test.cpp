// SPDX-License-Identifier: Apache-2.0
// Pixelwise operations: problems, cuts, what tasks read and write, and tasks against the same in
// double.
#include "tasks/pixelwise/pixelwise.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/mapping.hpp"
#include "tasks/conv_graph.hpp"
#include "tasks/pixelwise/cpu/pixelwise.hpp"
#include "tasks/pixelwise/reference.hpp"
#include "tasks/strides.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"
#include "tests/tasks/cpu_layer.hpp"
#include "tests/tasks/float_tensor.hpp"
#include "tests/tasks/random_cuts.hpp"

namespace megaconv {
namespace {

using test::error_of;
using test::FloatTensor;
using test::random_pixelwise_cut;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// The place of every number of [N][C][H][W] in a tensor.
std::vector<std::size_t> places(const PixelwiseProblem& a, std::int64_t pixels) {
  const Strides at = strides_of(a.layout, a.n, a.c, pixels);
  std::vector<std::size_t> all;
  for (std::int64_t image = 0; image < a.n; ++image) {
    for (std::int64_t c = 0; c < a.c; ++c) {
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
        all.push_back(
            static_cast<std::size_t>(image * at.image + c * at.channel + pixel * at.pixel));
      }
    }
  }
  return all;
}

TEST_CASE("pixelwise tasks round once from double, in both layouts and every type") {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const PixelwiseCut cut = random_pixelwise_cut(seed);
    const PixelwiseProblem& a = cut.problem;
    CAPTURE(seed, to_string(a), cut.rows_per_group);
    const std::int64_t pixels = a.h * a.w, b_pixels = a.per_channel ? 1 : pixels;
    const auto size = static_cast<std::size_t>(a.y_size());
    FencedBuffer x(size, a.dtype), y(size, a.dtype);
    FencedBuffer b(static_cast<std::size_t>(a.n * a.c * b_pixels), a.dtype);
    x.fill({}, seed);
    b.fill({}, seed + 1000);
    const bool multiplies = a.does.function == PixelFunction::multiply;
    const cpu::PixelwiseArgs args{
        .cut = &cut, .x = x.data(), .b = multiplies ? b.data() : nullptr, .y = y.data()};
    for (std::uint32_t group = 0; group < cut.num_groups; ++group) cpu::run_pixelwise(args, group);
    REQUIRE((x.fences_whole() && b.fences_whole() && y.fences_whole() && y.all_written()));

    std::vector<double> x_nchw, b_nchw;
    const std::vector<std::size_t> at = places(a, pixels);
    for (const std::size_t place : at) x_nchw.push_back(x[place]);
    for (const std::size_t place : places(a, b_pixels)) b_nchw.push_back(b[place]);
    const std::vector<double> truth = reference_pixelwise(a, x_nchw, b_nchw);
    REQUIRE(truth.size() == at.size());
    for (std::size_t i = 0; i < truth.size(); ++i) {
      // To FP32 and to the storage type; errors of doubles are a billionth of that.
      const double rounded = 0x1p-24 * 1.001 * std::fabs(truth[i]) + 0x1p-149;
      const double stored = a.dtype == DataType::f32
                                ? 0
                                : unit_roundoff(a.dtype) * std::max(std::fabs(truth[i]) + rounded,
                                                                    least_normal(a.dtype));
      const double error = std::fabs(double{y[at[i]]} - truth[i]);
      REQUIRE(error <= rounded + stored);
      worst = std::max(worst, error / (rounded + stored));
    }
  }
  CHECK(worst > 0.5);  // the bound is not far from what is met
}

TEST_CASE("softmax of one channel is 1, of equal numbers even, and large numbers do not overflow") {
  const PixelwiseCut cut = cut_pixelwise(
      {.does = {.function = PixelFunction::softmax}, .c = 4, .w = 3, .layout = Layout::nhwc}, 1);
  const std::vector<float> x{1, 1, 1, 1, 3e38f, 0, 0, 0, -3e38f, -3e38f, -3e38f, -3e38f};
  std::vector<float> y(x.size());
  cpu::run_pixelwise({.cut = &cut, .x = x.data(), .y = y.data()}, 0);
  CHECK(y ==
        std::vector<float>{0.25f, 0.25f, 0.25f, 0.25f, 1, 0, 0, 0, 0.25f, 0.25f, 0.25f, 0.25f});
}

TEST_CASE("pixelwise tasks write all of y once and read what their rows need") {
  for (std::uint64_t seed = 2000; seed < 2100; ++seed) {
    const PixelwiseCut cut = random_pixelwise_cut(seed);
    const PixelwiseProblem& a = cut.problem;
    CAPTURE(seed, to_string(a));
    TaskGraph graph;
    graph.kinds = task_kinds();
    const Region whole{.rows = {0, static_cast<std::uint64_t>(a.n * a.h)},
                       .cols = {0, static_cast<std::uint64_t>(a.w)},
                       .channels = {0, static_cast<std::uint64_t>(a.c)}};
    Region b = whole;
    if (a.per_channel) b.rows = {0, static_cast<std::uint64_t>(a.n)}, b.cols = {0, 1};
    graph.buffers.push_back({.name = "x", .extent = whole, .given = true});
    graph.buffers.push_back({.name = "b", .extent = b, .given = true});
    const BufferId y = add_pixelwise(graph, "f", cut, 0, 1);
    link(graph);
    count_signals(graph);
    CHECK(graph.edges.empty());
    CHECK(graph.buffers[y].extent == whole);
    TaskMapping order{.policy = "staged", .options = {}, .order = {}};
    order.order.resize(graph.tasks.size());
    std::iota(order.order.begin(), order.order.end(), 0u);
    CHECK(!validate(graph, order));  // which proves that writes are disjoint

    // A task runs in memory where all but what it says it reads is NaN, and writes no more than it
    // says.
    PixelwiseCut wide = cut;
    wide.problem.dtype = DataType::f32;
    for (std::uint32_t group = 0; group < cut.num_groups; ++group) {
      std::vector<Access> accesses;
      graph.list_accesses(0, group, 0, accesses);
      FloatTensor in(a.layout, a.n, a.c, a.h, a.w, kNan), out(a.layout, a.n, a.c, a.h, a.w, 7);
      FloatTensor second(a.layout, a.n, a.c, a.per_channel ? 1 : a.h, a.per_channel ? 1 : a.w,
                         kNan);
      for (const Access& access : accesses) {
        if (access.mode != Mode::read) continue;
        (access.buffer == 0 ? in : second).for_each(access.region, [](float& number) {
          number = 1;
        });
      }
      cpu::run_pixelwise({.cut = &wide,
                          .x = in.numbers.data(),
                          .b = second.numbers.data(),
                          .y = out.numbers.data()},
                         group);
      out.for_each(accesses.back().region, [](float& number) {
        REQUIRE(!std::isnan(number));
        number = 7;
      });
      REQUIRE(std::count(out.numbers.begin(), out.numbers.end(), 7.0f) == a.y_size());
    }
  }
}

TEST_CASE("pixelwise problems that are wrong are refused with value and limit") {
  const PixelwiseProblem good{.does = {}, .c = 3, .h = 4, .w = 4};
  const auto refusal = [&](auto change, Status status = Status::invalid_argument) {
    PixelwiseProblem problem = good;
    change(problem);
    return error_of([&] { validate(problem); }, status);
  };
  CHECK(refusal([](auto& a) { a.n = 0; }) == "n = 0: must be 1 to 2147483647");
  CHECK(refusal([](auto& a) { a.h = a.w = 1 << 20; }) ==
        "output of 1x3x1048576x1048576 elements: must be at most 2^40 in all");
  CHECK(refusal([](auto& a) { a.does.size = 0; }) ==
        "size of the window = 0: must be 1 to 2147483647");
  CHECK(refusal([](auto& a) { a.does.alpha = std::numeric_limits<float>::infinity(); }) ==
        "alpha = inf: must be finite");
  CHECK(refusal([](auto& a) { a.does.function = static_cast<PixelFunction>(99); }) ==
        "pixel function 99: must be 0 to 9");
  CHECK(refusal([](auto& a) { a.dtype = DataType::i8; }, Status::unsupported) ==
        "pixelwise: storage type i8, must be f32, f16 or bf16");
  CHECK(refusal([](auto& a) { a.layout = Layout::chwn; }, Status::unsupported) ==
        "pixelwise: layout chwn, must be nchw or nhwc");
  PixelwiseCut cut{.problem = good, .rows_per_group = 5};
  CHECK(error_of([&] { derive_counts(cut); }) == "rows_per_group = 5: must be 1 to 4");
  CHECK(error_of([&] { cut_pixelwise(good, 0); }) == "workers = 0: must be at least 1");
  TaskGraph graph;
  CHECK(error_of([&] { add_pixelwise(graph, "f", cut_pixelwise(good, 1), 0, 1); }) ==
        "f: reads rows 0-4, columns 0-4, channels 0-3, there is no buffer 0");
  CHECK(to_string(PixelwiseProblem{.does = {.function = PixelFunction::leaky_relu, .alpha = 0.1f},
                                   .c = 8,
                                   .layout = Layout::nhwc}) == "leaky_relu 0.1 n1c8h1w1+nhwc");
}

}  // namespace
}  // namespace megaconv
