// SPDX-License-Identifier: Apache-2.0
// Direct CUDA tasks on tensor cores, without a GPU.
#include <string>
#include <vector>

#include "tasks/direct/direct_shapes.hpp"
#include "tests/catch.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

namespace megaconv {
namespace {

std::vector<ConvProblem> of_every_type(const char* shape) {
  std::vector<ConvProblem> problems;
  for (const DataType dtype : {DataType::f32, DataType::f16, DataType::bf16}) {
    problems.push_back(parse_problem(std::string(shape) + "+nhwc"));
    problems.back().dtype = dtype;
  }
  return problems;
}

void check(const ConvProblem& problem) {
  const TilingOptions on_tensor_cores{.algorithm = Algorithm::direct,
                                      .arithmetic = mma_arithmetic(problem.dtype)};
  for (const bool integers : {false, true}) {
    CAPTURE(to_string(problem), integers);
    test::check_emulated(to_string(problem), integers, on_tensor_cores);
  }
}

// A warp has 32 pixels or 16, by the steps of a sum; it loads quads of channels together, or one by
// one. It stores eight filters of a pixel together, or four, two, or one by one.
TEST_CASE("emulated CUDA: direct tasks on tensor cores are right for any layer that they take") {
  for (const char* shape :
       {"n1c1h1w1k1r1p0", "n1c16h5w7k40r1p0+bias+relu", "n2c20h9w11k36r1p0+scale+bias+residual",
        "n1c48h3w13k50r1p0+residual", "n3c3h13w10k33r3p1+bias", "n1c64h6w17k24r1p0+scale",
        "n2c4h23w21k64r3u2p1+bias+residual+relu", "n1c6h12w11k12r5s3d2x3u1x2p4x1+bias",
        "n1c16h9w8k100r3+residual+silu", "n1c3h16w15k65r7u2p3+bias", "n1c80h4w5k8r1p0",
        "n1c13h11w9k20r3s1p0+scale+residual"}) {
    for (const ConvProblem& problem : of_every_type(shape)) {
      if (mma_need(problem).empty()) check(problem);
    }
  }
}

// Filters in one or two columns of eight; channels in whole eights, fours, or not; one to seven
// steps; with more pixels than a task's warps have at a time.
TEST_CASE("emulated CUDA: direct tasks of few filters are right for any layer that they take") {
  for (const char* shape :
       {"n1c1h1w1k1r1p0", "n2c8h9w11k5r1p0+scale+bias+residual", "n1c76h3w5k16r1p0+bias",
        "n1c96h5w19k8r1p0+residual+relu", "n2c4h13w10k16r3p1+bias+relu",
        "n1c3h16w15k12r3u2p1+residual", "n1c12h9w8k11r3+silu", "n1c40h7w6k10r1p0+bias+residual",
        "n1c6h12w11k13r4s3d2x3u1x2p4x1+bias", "n1c13h11w9k11r3s1p0+scale+residual",
        "n1c112h5w4k4r1p0", "n1c24h4w4k2r2p1+scale"}) {
    for (const ConvProblem& problem : of_every_type(shape)) {
      CAPTURE(to_string(problem));
      REQUIRE(has_few_filters(problem));
      check(problem);
    }
  }
}

}  // namespace
}  // namespace megaconv
