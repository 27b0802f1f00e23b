// SPDX-License-Identifier: Apache-2.0
// The layers that real networks contain: nothing is refused, in any precision, and what multiplies.
#include <fstream>
#include <string>

#include "megaconv/lowering.hpp"
#include "tasks/direct/direct_shapes.hpp"
#include "tests/catch.hpp"

namespace megaconv {
namespace {

template <class Check>
void for_each_layer(Check check) {
  std::ifstream layers(MEGACONV_SOURCE_DIR "/tests/mapping/network_layers.txt");
  std::size_t count = 0;
  for (std::string line; std::getline(layers, line);) {
    if (line.empty() || line.front() == '#') continue;
    ++count;
    for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
      ConvProblem problem = parse_problem(line);
      problem.layout = layout;
      CAPTURE(line, to_string(layout));
      check(problem);
    }
  }
  CHECK(count == 655);
}

TEST_CASE("every layer of 21 networks has a plan in every precision") {
  const Target hopper{
      .backend = Backend::cuda, .workers = 132, .split_f16 = true, .multiprocessors = 132};
  const Target cpu{.workers = 8};
  for_each_layer([&](ConvProblem problem) {
    for (const DataType dtype : {DataType::f32, DataType::f16, DataType::bf16}) {
      problem.dtype = dtype;
      CHECK_NOTHROW(lower(problem, {}, {}, cpu));
      CHECK_NOTHROW(lower(problem, {}, {}, hopper));
      if (dtype != DataType::f32) continue;
      CHECK_NOTHROW(lower(problem, {.precision = Precision::tf32}, {}, hopper));
    }
  });
}

// Zeros for 15 of 16 products are too many for three products a number.
TEST_CASE("layers of 21 networks run on tensor cores, but for depthwise and very narrow ones") {
  const Target hopper{
      .backend = Backend::cuda, .workers = 132, .split_f16 = true, .multiprocessors = 132};
  for_each_layer([&](const ConvProblem& problem) {
    if (problem.depthwise() || problem.c < 16) return;
    const auto arithmetic = [&](Precision precision) {
      return make_tiling(problem, {.precision = precision}, hopper).arithmetic;
    };
    const bool few = has_few_channels_of_pixels(problem);
    CHECK((arithmetic(Precision::tf32) == Arithmetic::fma) ==
          (few && problem.c <= 16 && problem.k > 16 && problem.k % 4 != 0));
    const bool narrow =
        (problem.groups != 1 && problem.c / problem.groups < 8) || (few && problem.c <= 24);
    CHECK((arithmetic(Precision::f32) == Arithmetic::fma) == narrow);
  });
}

}  // namespace
}  // namespace megaconv
