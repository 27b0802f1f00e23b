// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM's CUDA tasks that load and convert x themselves, without tensor cores.
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
  for (const char* shape : {"n1c1h1k1", "n2c20h7w9k37r5+bias+relu", "n2c17h6w5k65p0",
                            "n1c40h7k48r1p0+relu+residual", "n1c33h18k130+bias"}) {
    check(shape);
  }
}

TEST_CASE("emulated CUDA: filters of few taps leave pipeline stages of input to load into") {
  for (const char* shape : {"n1c80h5k16r1p0", "n1c144h4k20r1p0+bias", "n1c70h6k16r1s3p0"}) {
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
    "emulated CUDA: implicit GEMM takes rows of taps as channels, of tensors of 16 bits, too") {
  TilingOptions options;
  options.algorithm = Algorithm::implicit_gemm;
  options.arithmetic = Arithmetic::f16;
  for (const char* shape : {"n2c3h20w23k24r7u2+bias", "n2c3h9w11k20u2", "n3c5h6w4k16r3s4p1x3u1x2",
                            "n1c4h12k9r4p0u4+residual", "n1c3h18k8r16p0u16", "n2c11h7w6k12"}) {
    test::check_emulated(std::string(shape) + "+nhwc+f16", false, options);
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

}  // namespace
}  // namespace megaconv
