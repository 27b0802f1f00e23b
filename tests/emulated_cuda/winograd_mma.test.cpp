// SPDX-License-Identifier: Apache-2.0
// Winograd's CUDA tasks on tensor cores of compute capability 8.0, without any.
#include "tests/catch.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

namespace megaconv {
namespace {

const char* const kOddShapes[] = {"n1c1h1k1", "n3c20h13w9k37+scale+bias+relu", "n2c17h6w5k65p0",
                                  "n1c70h10k48p2+relu+residual", "n1c8h7w3k200p3+bias"};

TEST_CASE("emulated CUDA: Winograd by three products of a warp's tensor cores is right") {
  TilingOptions options;
  options.algorithm = Algorithm::winograd;
  options.arithmetic = Arithmetic::split_f16;
  for (const char* shape : kOddShapes) {
    for (const std::uint32_t m : {2u, 4u}) {
      options.m = m;
      test::check_in_both_layouts(shape, false, options);
    }
  }
}

TEST_CASE("emulated CUDA: Winograd by one product of a warp's tensor cores is right") {
  TilingOptions options;
  options.algorithm = Algorithm::winograd;
  options.arithmetic = Arithmetic::f16;
  options.m = 4;
  for (const char* shape : kOddShapes) test::check_in_both_layouts(shape, false, options);
}

// Filters are multiples of 576, which no guessed scale suits.
TEST_CASE("emulated CUDA: Winograd's tasks on a warp's tensor cores are exact on integers") {
  TilingOptions options;
  options.algorithm = Algorithm::winograd;
  options.arithmetic = Arithmetic::split_f16;
  options.points = Points::integer;
  for (const std::uint32_t m : {2u, 4u}) {
    options.m = m;
    test::check_in_both_layouts("n2c33h10k48p2+scale+relu+residual", true, options);
  }
}

TEST_CASE("emulated CUDA: Winograd on a warp's tensor cores is as accurate at any magnitude") {
  TilingOptions options;
  options.algorithm = Algorithm::winograd;
  options.m = 4;
  for (const Arithmetic arithmetic : {Arithmetic::split_f16, Arithmetic::f16}) {
    options.arithmetic = arithmetic;
    test::check_magnitudes("n2c20h6w5k37+nhwc", options);
  }
}

// What the tensor cores cut off grows with the sums that they add to; these are small.
TEST_CASE("emulated CUDA: three products on a warp's tensor cores err less than multiply-adds") {
  for (const std::uint32_t m : {2u, 4u}) {
    TilingOptions options;
    options.algorithm = Algorithm::winograd;
    options.m = m;
    const char* const problem = "n1c512h8k64+nhwc";
    const ErrorReport fma = test::emulated_error(problem, options);
    options.arithmetic = Arithmetic::split_f16;
    const ErrorReport split = test::emulated_error(problem, options);
    INFO("F(" << m << "x" << m << "): " << to_string(split) << "; fma: " << to_string(fma));
    CHECK(split.relative_l2 < fma.relative_l2);
  }
}

}  // namespace
}  // namespace megaconv
