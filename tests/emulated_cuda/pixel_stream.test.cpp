// SPDX-License-Identifier: Apache-2.0
// Direct CUDA tasks that stream pixels, without a GPU.
#include <string>

#include "tasks/direct/direct_shapes.hpp"
#include "tests/catch.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

namespace megaconv {
namespace {

void check(const std::string& text, bool integers) {
  CAPTURE(text, integers);
  const ConvProblem problem = parse_problem(text);
  REQUIRE(streams_pixels(problem));
  test::check_emulated(
      text, integers,
      {.algorithm = Algorithm::direct, .arithmetic = mma_arithmetic(problem.dtype)});
}

// Pixels that are many and short, long and not aligned, or of odd filters: channels in whole
// eights, fours, or not; filters in whole columns or not; tiles that begin anywhere in a sector.
TEST_CASE("emulated CUDA: streams of pixels are right for any layer that they take") {
  check("n1c3h1w150001k5r1p0+nhwc+f16+bias", true);
  check("n2c24h250w301k16r1p0+nhwc+bf16+scale+bias", false);
  check("n1c5h388w389k3r1p0+nhwc+f16+relu", false);
  check("n3c16h223w225k33r1p0+nhwc", false);
  check("n1c170h173w173k8r1p0+nhwc+f16+scale+bias+residual+silu", false);
  check("n5c266h67w59k11r1p0+nhwc+bf16", true);
  check("n3c128h53w61k101r1p0+nhwc+f16+bias+residual", false);
  check("n9c24h31w33k230r1p0+nhwc+bf16+scale", true);
  check("n3c48h53w61k37r1p0+nhwc+relu", false);
}

}  // namespace
}  // namespace megaconv
