// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM's CUDA tasks that load and convert x themselves, without tensor cores.
#include <cmath>

#include "tests/catch.hpp"
#include "tests/emulated_cuda/emulated_run.hpp"

namespace megaconv {
namespace {

// Of split and of rounded numbers.
void check(const char* shape) {
  for (const Arithmetic arithmetic : {Arithmetic::split_f16, Arithmetic::f16}) {
    TilingOptions options;
    options.algorithm = Algorithm::implicit_gemm;
    options.arithmetic = arithmetic;
    test::check_in_both_layouts(shape, false, options);
  }
}

TEST_CASE("emulated CUDA: implicit GEMM is right on odd shapes, of split and of rounded numbers") {
  for (const char* shape : {"n1c1h1k1", "n2c20h7w9k37r5+scale+bias+relu", "n2c17h6w5k65p0",
                            "n1c40h7k48r1p0+relu+residual", "n1c33h18k130+bias"}) {
    check(shape);
  }
}

TEST_CASE("emulated CUDA: filters of few taps leave pipeline stages of input to load into") {
  for (const char* shape : {"n1c80h5k16r1p0", "n1c144h4k20r1p0+bias", "n1c70h6k16r1s3p0",
                            "n3c48h19k40r1p0+residual", "n2c16h30w31k80r1p0+relu"}) {
    check(shape);
  }
}

TEST_CASE("emulated CUDA: implicit GEMM loads every tap's input by itself under strides") {
  for (const char* shape :
       {"n2c20h13w9k37u2+bias+relu", "n1c40h7k48r1p0u2+residual", "n2c17h23w12k20r5p3u3x2d2",
        "n2c3h20w23k24r7u2+bias", "n2c3h9w11k20u2", "n3c5h6w4k16r3s4p1x3u1x2", "n1c4h12k8r4p0u4",
        "n2c2h33w34k16r16p0u16", "n1c3h40w38k9r5u2d2x1"}) {
    check(shape);
  }
}

TEST_CASE(
    "emulated CUDA: implicit GEMM loads every tap's input by itself where filters reach far") {
  for (const char* shape : {"n1c40h1w300k16r1s3p0x128d1x128", "n2c20h14w17k20d6+bias"}) {
    check(shape);
  }
}

// With a residual of filters that are no whole eights: TMA loads other tensors of 16 bits.
TEST_CASE(
    "emulated CUDA: implicit GEMM multiplies few channels from space to depth, of 16 bits, too") {
  TilingOptions options;
  options.algorithm = Algorithm::implicit_gemm;
  options.arithmetic = Arithmetic::f16;
  for (const char* shape :
       {"n2c3h20w23k23r7u2+scale+bias", "n2c3h9w11k20u2", "n3c5h6w4k17r3s4p1x3u1x2",
        "n1c4h12k9r4p0u4", "n1c3h18k9r16p0u16", "n2c11h7w6k12"}) {
    test::check_emulated(std::string(shape) + "+residual+nhwc+f16", false, options);
  }
}

// Conv groups of 64 channels, of fewer, several at a time, and of a number that tiles do not have.
TEST_CASE("emulated CUDA: implicit GEMM multiplies conv groups, several as one with zeros") {
  for (const char* shape :
       {"n1c128h9k128g2+bias", "n1c128h7w9k128g32+scale+relu", "n1c64h9k128g8r1p0+residual",
        "n2c36h7w5k24g4", "n1c80h9k320g5u2", "n1c6h8k6g6+bias"}) {
    check(shape);
  }
  for (const char* shape : {"n1c128h9k128g16", "n1c24h7k40g2r5"}) {
    test::check_emulated(std::string(shape) + "+nhwc+f16", false,
                         {.algorithm = Algorithm::implicit_gemm, .arithmetic = Arithmetic::f16});
  }
  // Every filter block meets channels of its own: all note how large they are.
  for (const Arithmetic arithmetic : {Arithmetic::split_f16, Arithmetic::f16}) {
    test::check_magnitudes("n1c128h5k128g4",
                           {.algorithm = Algorithm::implicit_gemm, .arithmetic = arithmetic});
  }
}

TEST_CASE("emulated CUDA: implicit GEMM has activations that are no straight lines") {
  for (const char* activation : {"+silu", "+gelu_tanh", "+hard_sigmoid:0.2:0.5"}) {
    test::check_in_both_layouts(
        std::string("n1c20h9w11k37+bias+residual") + activation, false,
        {.algorithm = Algorithm::implicit_gemm, .arithmetic = Arithmetic::split_f16});
  }
}

TEST_CASE("emulated CUDA: implicit GEMM that loads x is as accurate at any magnitude") {
  TilingOptions options;
  options.algorithm = Algorithm::implicit_gemm;
  options.arithmetic = Arithmetic::split_f16;
  test::check_magnitudes("n2c20h9w7k37+nchw", options);
  options.arithmetic = Arithmetic::f16;
  test::check_magnitudes("n2c20h9w7k37+nhwc", options);
}

// Relative L2 of sums by multiply-adds, tap by tap and channel by channel.
double error_of_multiply_adds(const ConvProblem& a) {
  const test::Layer layer(a, false);
  const std::vector<double> truth = layer.reference();
  double errors = 0, squares = 0;
  std::size_t next = 0;
  const auto of_pixel = [&](std::int64_t k, std::int64_t p, std::int64_t q) {
    float sum = 0;
    for (std::int64_t tap = 0; tap < a.r * a.s; ++tap) {
      const std::int64_t row = p * a.stride_h - a.pad_h + tap / a.s;
      const std::int64_t col = q * a.stride_w - a.pad_w + tap % a.s;
      if (row < 0 || row >= a.h || col < 0 || col >= a.w) continue;
      for (std::int64_t c = 0; c < a.c; ++c) {
        sum = std::fma(layer.x[static_cast<std::size_t>((c * a.h + row) * a.w + col)],
                       layer.w[static_cast<std::size_t>((k * a.c + c) * a.r * a.s + tap)], sum);
      }
    }
    return sum;
  };
  for (std::int64_t k = 0; k < a.k; ++k) {
    for (std::int64_t pixel = 0; pixel < a.p() * a.q(); ++pixel, ++next) {
      const double error = of_pixel(k, pixel / a.q(), pixel % a.q()) - truth[next];
      errors += error * error;
      squares += truth[next] * truth[next];
    }
  }
  return std::sqrt(errors / squares);
}

// FP32-accurate means this. 9 taps of 16 channels in a running sum, whatever the number of terms,
// would err by 3.5e-7: 1.7 times as much as multiply-adds of 16 channels.
TEST_CASE("emulated CUDA: three products in implicit GEMM err no more than multiply-adds") {
  for (const char* shape : {"n1c16h19k16", "n1c28h19k16", "n1c48h11k32", "n1c64h19k16",
                            "n1c256h9k16", "n1c16h19k16r1p0", "n1c64h19k16r1p0", "n1c128h9k32r1p0",
                            "n1c256h9k32r1p0", "n1c24h19k16u2", "n1c3h40k16r7u2"}) {
    const double multiply_adds = error_of_multiply_adds(parse_problem(shape));
    for (const char* order : {"+nchw", "+nhwc"}) {
      const std::string problem = std::string(shape) + order;
      const ErrorReport split = test::emulated_error(
          problem.c_str(),
          {.algorithm = Algorithm::implicit_gemm, .arithmetic = Arithmetic::split_f16});
      INFO(problem << ": " << to_string(split) << "; multiply-adds: " << multiply_adds);
      CHECK(split.relative_l2 < multiply_adds);
    }
  }
}

}  // namespace
}  // namespace megaconv
