// SPDX-License-Identifier: Apache-2.0
// Winograd's CUDA tasks on tensor cores, without any.
#include "tests/catch.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

namespace megaconv {
namespace {

TEST_CASE("emulated CUDA: Winograd's tasks on tensor cores are right on odd shapes") {
  for (const char* shape : {"n1c1h1k1", "n3c20h13w9k37+scale+bias+relu", "n2c17h6w5k65p0",
                            "n1c70h10k48p2+relu+residual", "n1c8h7w3k200p3+bias"}) {
    TilingOptions options;
    options.algorithm = Algorithm::winograd;
    options.arithmetic = Arithmetic::split_f16;
    options.m = 2;
    test::check_in_both_layouts(shape, false, options);
    options.m = 4;
    test::check_in_both_layouts(shape, false, options);
    options.arithmetic = Arithmetic::f16;
    test::check_in_both_layouts(shape, false, options);
  }
}

TEST_CASE("emulated CUDA: Winograd on tensor cores is as accurate at any magnitude") {
  TilingOptions options;
  options.algorithm = Algorithm::winograd;
  options.m = 4;
  options.arithmetic = Arithmetic::split_f16;
  test::check_magnitudes("n2c20h6w5k37+nchw", options);
  options.arithmetic = Arithmetic::f16;
  test::check_magnitudes("n2c20h6w5k37+nhwc", options);
}

// FP32-accurate means this. Tensor cores cut sums off by a share of them: if they were not folded,
// F(2x2) of 512 channels would err by 1.8e-6, three times as much as multiply-adds do.
TEST_CASE("emulated CUDA: three products on tensor cores err no more than multiply-adds") {
  for (const char* shape : {"n1c32h12k32", "n1c64h8k64", "n1c512h8k64", "n1c1280h6k80"}) {
    for (const std::uint32_t m : {2u, 4u}) {
      for (const char* order : {"+nchw", "+nhwc"}) {
        const std::string problem = std::string(shape) + order;
        TilingOptions options;
        options.algorithm = Algorithm::winograd;
        options.m = m;
        const ErrorReport fma = test::emulated_error(problem.c_str(), options);
        options.arithmetic = Arithmetic::split_f16;
        const ErrorReport split = test::emulated_error(problem.c_str(), options);
        INFO(problem << ", F(" << m << "x" << m << "): " << to_string(split)
                     << "; fma: " << to_string(fma));
        CHECK(split.relative_l2 < fma.relative_l2);
      }
    }
  }
}

}  // namespace
}  // namespace megaconv
