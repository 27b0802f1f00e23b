// SPDX-License-Identifier: Apache-2.0
// Direct CUDA tasks, without a GPU.
#include "tests/catch.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

namespace megaconv {
namespace {

TEST_CASE(
    "emulated CUDA: direct tasks are right for any filter, stride, dilation and conv groups") {
  for (const char* shape :
       {"n1c1h1k1r1p0", "n2c3h29w17k20r7u2p3+bias+relu", "n1c33h12w9k70r1p0+residual",
        "n2c20h8k300", "n2c16h23w21k40r5s3d2x3u1x2p4x1+bias+residual+relu", "n1c4h40k8r7d6p0",
        "n2c24h11k48g4+residual", "n1c6h9k352g2", "n1c12h10w3k6g6p0",
        "n3c19h14w15k19g19r3u2+bias+relu", "n2c64h9w40k64g64r5d2+residual"}) {
    for (const bool integers : {false, true}) {
      TilingOptions options;
      options.algorithm = Algorithm::direct;
      test::check_in_both_layouts(shape, integers, options);
    }
  }
}

// Tensors of 16 bits become floats on their way; sums are floats and rounded once.
TEST_CASE("emulated CUDA: direct tasks take tensors of 16 bits") {
  for (const char* shape :
       {"n1c1h1k1r1p0", "n2c3h29w17k20r7u2p3+bias+relu", "n1c33h12w9k70r1p0u2+residual",
        "n2c20h8k300", "n1c12h16k32r16u16p0", "n2c24h11k48g4+residual",
        "n3c19h14w15k19g19r3u2+bias+relu", "n1c40h20w11k40g40r7+bias+residual"}) {
    for (const bool integers : {false, true}) {
      TilingOptions options;
      options.algorithm = Algorithm::direct;
      for (const char* suffix : {"+nchw+f16", "+nhwc+f16", "+nchw+bf16", "+nhwc+bf16"}) {
        test::check_emulated(std::string(shape) + suffix, integers, options);
      }
    }
  }
}

}  // namespace
}  // namespace megaconv
