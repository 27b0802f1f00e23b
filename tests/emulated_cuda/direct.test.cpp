// SPDX-License-Identifier: Apache-2.0
// Direct CUDA tasks, without a GPU.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tasks/cuda/activation.cuh"
#include "tasks/direct/direct_shapes.hpp"
#include "tests/catch.hpp"
#include "tests/emulated_cuda/emulated_kernels.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

namespace megaconv {
namespace {

TEST_CASE(
    "emulated CUDA: direct tasks are right for any filter, stride, dilation and conv groups") {
  for (const char* shape :
       {"n1c1h1k1r1p0", "n2c3h29w17k20r7u2p3+scale+bias+relu", "n1c33h12w9k70r1p0+residual",
        "n2c20h8k300", "n2c16h23w21k40r5s3d2x3u1x2p4x1+bias+residual+relu", "n1c4h40k8r7d6p0",
        "n2c24h11k48g4+residual", "n1c6h9k352g2", "n1c12h10w3k6g6p0",
        "n3c19h14w15k19g19r3u2+scale+bias+relu", "n2c64h9w40k64g64r5d2+residual"}) {
    for (const bool integers : {false, true}) {
      TilingOptions options;
      options.algorithm = Algorithm::direct;
      test::check_in_both_layouts(shape, integers, options);
    }
  }
}

TEST_CASE("emulated CUDA: activations err by what is stated, and know infinite numbers and NaN") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const Activation& activation :
       {kSigmoid, hard_sigmoid(0.2f, 0.5f), kSilu, kHardSwish, kGelu, kGeluTanh}) {
    CAPTURE(to_string(activation));
    const ActivationTerms terms = terms_of(activation);
    const auto y = [&](float x) { return double{cuda::activate(terms, x)}; };
    for (const float x : {-kInfinity, kInfinity}) CHECK(y(x) == activated(activation, double{x}));
    CHECK(std::isnan(y(std::numeric_limits<float>::quiet_NaN())));
    const ActivationError error = error_of(activation);
    double most = 0;  // in units of 2^-24 (|x| + offset)
    for (int i = -100'000; i <= 100'000; ++i) {
      const float x = static_cast<float>(i) * 3e-4f;
      const double distance = std::fabs(y(x) - activated(activation, double{x}));
      if (distance > 0x1p-126) {
        most = std::max(most, distance * 0x1p24 / (std::fabs(double{x}) + error.offset));
      }
    }
    CHECK(most <= error.units);
  }
}

TEST_CASE("emulated CUDA: numbers may be cut off after they are rounded to 16 bits") {
  const auto bits = [](float number) { return from_float<Float16>(number).bits; };
  for (const Activation& activation :
       {kRelu, clamp(0, 6), clamp(-0.3f, 0.7f), clamp(-1e6f, 1e5f), clamp(1e-9f, 3e-7f)}) {
    const ActivationTerms terms = terms_of(activation);
    REQUIRE(cuda::cuts_off(terms));
    for (int i = -40'000; i <= 40'000; ++i) {
      const float x = std::ldexp(static_cast<float>(i) / 20'000, i % 41 - 24);
      const std::uint32_t both = bits(x) | std::uint32_t{bits(-x)} << 16;
      const std::uint32_t cut = cuda::cut_off<__half>(terms, both);
      const auto is_same = [&](std::uint32_t half, float number) {  // or any zero
        const std::uint32_t expected = bits(cuda::cut_off(terms, number));
        return half == expected || ((half | expected) & 0x7fff) == 0;
      };
      CAPTURE(to_string(activation), x);
      REQUIRE(is_same(cut & 0xffff, x));
      REQUIRE(is_same(cut >> 16, -x));
    }
    const std::uint32_t nan = cuda::cut_off<__half>(terms, bits(std::nanf("")));
    CHECK(std::isnan(to_float(Float16{static_cast<std::uint16_t>(nan)})));
  }
  CHECK_FALSE(cuda::cuts_off(terms_of({})));
}

TEST_CASE("emulated CUDA: direct tasks have every activation") {
  for (const char* activation :
       {"+sigmoid", "+hard_sigmoid:0.2:0.5", "+silu", "+hard_swish", "+gelu", "+gelu_tanh"}) {
    for (const char* shape : {"n1c20h9w11k21+bias+residual", "n1c19h11w9k19g19+bias"}) {
      test::check_in_both_layouts(std::string(shape) + activation, false,
                                  {.algorithm = Algorithm::direct});
    }
  }
}

// Threads take four channels of 4 x 2 outputs, or one. Filters of 3 x 3 with one stride both ways
// have a path of their own, and those of five or seven rows.
TEST_CASE("emulated CUDA: depthwise tasks are right at all borders, whatever the channels") {
  for (const char* shape :
       {"n2c40h9w7k40g40+scale+bias+relu", "n1c7h8w9k7g7+scale",
        "n1c20h13w10k20g20u2+bias+residual", "n1c9h13w10k9g9u2+residual",
        "n1c36h6w5k36g36p0+residual", "n1c16h3w37k16g16p2", "n1c52h1w1k52g52+relu",
        "n1c24h10w9k24g24u2x1", "n1c8h9w11k8g8d2x1p2x1", "n1c44h11w13k44g44u3",
        "n1c36h9w11k36g36r5u2p2+scale+bias", "n2c6h5w2k6g6r3s2p1x0", "n2c20h11w9k20g20r7+bias",
        "n1c9h10w9k9g9r7u2", "n1c8h12w7k8g8r5s3u1x2p2x0d1x2"}) {
    for (const bool integers : {false, true}) {
      for (const char* dtype : {"", "+f16", "+bf16"}) {
        test::check_in_both_layouts(std::string(shape) + dtype, integers,
                                    {.algorithm = Algorithm::direct});
      }
    }
  }
}

// In NHWC. Threads have four filters of eight pixels, or one of eight, and load four channels
// together, or one. Of many filters they have columns of y, whose vectors are of one pixel or,
// where filters do not come in fours or eights, of several. A task has whole rows, or a part of
// them, and all filters or some.
TEST_CASE("emulated CUDA: 1x1 tasks on few channels are right for any channels and filters") {
  for (const char* shape : {"n2c3h5w7k40r1p0+bias+relu",
                            "n1c4h9w11k36r1p0+scale+bias+residual",
                            "n1c5h1w1k1r1p0",
                            "n3c8h13w10k7r1p0+residual",
                            "n1c13h6w17k52r1p0+scale",
                            "n2c16h7w9k4r1p0+bias+residual",
                            "n1c24h11w37k19r1p0+relu",
                            "n1c32h9w8k144r1p0+bias",
                            "n1c12h3w65k300r1p0+residual",
                            "n3c6h5w5k627r1p0+scale+bias",
                            "n1c7h8w11k50r1p0+silu",
                            "n1c1h9w7k33r1p0+bias",
                            "n2c2h5w13k35r1p0+scale+residual",
                            "n1c8h4w9k439r1p0",
                            "n1c5h7w6k304r1p0+bias+residual",
                            "n1c3h3w260k34r1p0",
                            "n1c6h60w17k37r1p0+relu",
                            "n1c16h9w11k50r1p0+bias",
                            "n2c11h7w9k51r1p0+scale+residual",
                            "n1c9h3w160k33r1p0"}) {
    for (const bool integers : {false, true}) {
      for (const char* dtype : {"", "+f16", "+bf16"}) {
        TilingOptions options;
        options.algorithm = Algorithm::direct;
        test::check_in_both_layouts(std::string(shape) + dtype, integers, options);
        options.rows_per_group = options.cols_per_group = 1;
        test::check_in_both_layouts(std::string(shape) + dtype, integers, options);
        options.cols_per_group = 5;
        options.rows_per_group = 3;
        options.filter_blocks_per_gemm_task = 1;
        if (parse_problem(shape).h < 3 || parse_problem(shape).w < 5) continue;
        test::check_in_both_layouts(std::string(shape) + dtype, integers, options);
      }
    }
  }
}

// More pixels than a task keeps of x at a time; and vectors of one pixel, of which a y has many.
TEST_CASE("emulated CUDA: columns are as long as x that a task keeps, and are continued") {
  TilingOptions options{.algorithm = Algorithm::direct};
  options.rows_per_group = 40;
  for (const char* shape :
       {"n1c5h40w18k33r1p0+nhwc+bias", "n1c3h41w52k33r1p0+nhwc", "n1c4h52w51k404r1p0+nhwc+scale",
        "n1c7h68w40k392r1p0+nhwc+f16", "n1c2h53w50k396r1p0+nhwc+f16+bias+relu"}) {
    CHECK(writes_columns(parse_problem(shape)));
    test::check_emulated(shape, true, options);
  }
}

TEST_CASE("emulated CUDA: depthwise tasks have at most a million outputs") {
  TilingOptions options;
  options.algorithm = Algorithm::direct;
  options.filter_blocks_per_gemm_task = 4;
  options.rows_per_group = 128;
  const Target target{.backend = Backend::cuda, .workers = 8};
  for (const std::uint32_t cols : {128, 129}) {
    options.cols_per_group = cols;
    const auto kernels = [&] {
      return test::emulated_kernels(make_tiling(parse_problem("c64h200k64g64"), options, target));
    };
    if (cols == 128) {
      CHECK_NOTHROW(kernels());
    } else {
      CHECK_THROWS_WITH(kernels(),
                        "cuda: depthwise tasks of 1056768 outputs, must be at most "
                        "1048576");
    }
  }
}

// Tensors of 16 bits become floats on their way; sums are floats and rounded once.
TEST_CASE("emulated CUDA: direct tasks take tensors of 16 bits") {
  for (const char* shape :
       {"n1c1h1k1r1p0", "n2c3h29w17k20r7u2p3+scale+bias+relu", "n1c33h12w9k70r1p0u2+residual",
        "n2c20h8k300", "n1c12h16k32r16u16p0", "n2c24h11k48g4+residual",
        "n3c19h14w15k19g19r3u2+scale+bias+relu", "n1c40h20w11k40g40r7+bias+residual"}) {
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
