// SPDX-License-Identifier: Apache-2.0
// Rearrangements: problems, cuts, what tasks read and write, and tasks against a reference.
#include "tasks/rearrangement/rearrangement.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/mapping.hpp"
#include "tasks/conv_graph.hpp"
#include "tasks/rearrangement/cpu/rearrangement.hpp"
#include "tasks/rearrangement/reference.hpp"
#include "tasks/row_bands.hpp"
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
using test::random_rearrangement_cut;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<std::size_t> places(Layout layout, std::int64_t n, std::int64_t c,
                                std::int64_t pixels) {
  const Strides at = strides_of(layout, n, c, pixels);
  std::vector<std::size_t> all;
  for (std::int64_t i = 0; i < n * c * pixels; ++i) {
    all.push_back(static_cast<std::size_t>(i / (c * pixels) * at.image +
                                           i / pixels % c * at.channel + i % pixels * at.pixel));
  }
  return all;
}

TEST_CASE("rearrangements move every number to its place, in both layouts and every type") {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const RearrangementCut cut = random_rearrangement_cut(seed);
    const RearrangementProblem& a = cut.problem;
    CAPTURE(seed, to_string(a), cut.rows_per_group);
    FencedBuffer x(static_cast<std::size_t>(a.x_size()), a.dtype);
    FencedBuffer y(static_cast<std::size_t>(a.y_size()), a.dtype);
    x.fill({}, seed);
    for (std::uint32_t group = 0; group < cut.num_groups; ++group) {
      cpu::run_rearrangement({.cut = &cut, .x = x.data(), .y = y.data()}, group);
    }
    REQUIRE((x.fences_whole() && y.fences_whole() && y.all_written()));
    std::vector<double> x_nchw, y_nchw;
    for (const std::size_t place : places(a.layout, a.n, a.c, a.h * a.w)) {
      x_nchw.push_back(x[place]);
    }
    for (const std::size_t place : places(a.y_layout(), a.n, a.k(), a.p() * a.q())) {
      y_nchw.push_back(y[place]);
    }
    REQUIRE(y_nchw == reference_rearrangement(a, x_nchw));
  }
}

TEST_CASE("rearrangements write all of y once, and what they read has every number of y") {
  for (std::uint64_t seed = 2000; seed < 2200; ++seed) {
    const RearrangementCut cut = random_rearrangement_cut(seed);
    const RearrangementProblem& a = cut.problem;
    CAPTURE(seed, to_string(a));
    TaskGraph graph;
    graph.kinds = task_kinds();
    graph.buffers.push_back(
        {.name = "x", .extent = tensor_extent(a.n, a.c, a.h, a.w), .given = true});
    const BufferId y = add_rearrangement(graph, "moved", cut, 0);
    CHECK(graph.buffers[y].extent == tensor_extent(a.n, a.k(), a.p(), a.q()));
    link(graph);
    count_signals(graph);
    TaskMapping order{.policy = "staged", .options = {}, .order = {}};
    order.order.resize(graph.tasks.size());
    std::iota(order.order.begin(), order.order.end(), 0u);
    CHECK(!validate(graph, order));  // which proves that writes are disjoint

    // A task runs in memory where all but what it says it reads is NaN.
    for (std::uint32_t group = 0; group < cut.num_groups; ++group) {
      std::vector<Access> accesses;
      graph.list_accesses(0, group, 0, accesses);
      RearrangementCut wide = cut;
      wide.problem.dtype = DataType::f32;
      FloatTensor in(a.layout, a.n, a.c, a.h, a.w, kNan);
      FloatTensor out(a.y_layout(), a.n, a.k(), a.p(), a.q(), 7);
      for (const Access& access : accesses) {
        if (access.mode != Mode::read) continue;
        in.for_each(access.region, [](float& number) { number = 1; });
      }
      cpu::run_rearrangement({.cut = &wide, .x = in.numbers.data(), .y = out.numbers.data()},
                             group);
      out.for_each(accesses.back().region, [](float& number) { REQUIRE(!std::isnan(number)); });
    }
  }
}

TEST_CASE("rearrangements that are wrong are refused with value and limit") {
  const RearrangementProblem good{.does = {}, .c = 6, .h = 4, .w = 4};
  const auto refusal = [&](auto change, Status status = Status::invalid_argument) {
    RearrangementProblem problem = good;
    change(problem);
    return error_of([&] { validate(problem); }, status);
  };
  CHECK(refusal([](auto& a) { a.n = 0; }) == "n = 0: must be 1 to 2147483647");
  CHECK(refusal([](auto& a) { a.does.first_channel = 6; }) == "first_channel = 6: must be 0 to 5");
  CHECK(refusal([](auto& a) { a.does.first_channel = 2, a.does.channels = 5; }) ==
        "channels = 5: must be 0 to 4");
  CHECK(refusal([](auto& a) { a.does.groups = 4; }) == "groups = 4: must divide the 6 channels");
  CHECK(refusal([](auto& a) { a.does.repeat_h = 1 << 30; }) ==
        "repeat_h = 1073741824: must be 1 to 536870911");
  CHECK(refusal([](auto& a) { a.does.top = -4; }) == "top = -4: must be -3 to 2147483647");
  CHECK(refusal([](auto& a) { a.does.left = a.does.right = -2; }) ==
        "columns of y = 0: must be 1 to 2147483647");
  CHECK(refusal([](auto& a) { a.does.fill = std::numeric_limits<float>::quiet_NaN(); }) ==
        "fill = nan: must be a number");
  CHECK(refusal([](auto& a) { a.does.bottom = a.does.right = 1 << 20; }) ==
        "output of 1x6x1048580x1048580 elements: must be at most 2^40 in all");
  CHECK(refusal([](auto& a) { a.dtype = DataType::i8; }, Status::unsupported) ==
        "rearrangement: storage type i8, must be f32, f16 or bf16");
  CHECK(to_string(RearrangementProblem{.does = {.first_channel = 2, .repeat_h = 2, .top = -1},
                                       .c = 6,
                                       .h = 4,
                                       .w = 4,
                                       .layout = Layout::nhwc}) ==
        "channels 2-6, upsampling 2x1, padding -1 0 0 0, n1c6h4w4+nhwc");
}

}  // namespace
}  // namespace megaconv
