// SPDX-License-Identifier: Apache-2.0
// Direct convolution tasks of every instruction set, against direct convolution in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tasks/activation.hpp"
#include "tasks/tiling.hpp"
#include "tests/catch.hpp"
#include "tests/tasks/cpu_layer.hpp"

namespace megaconv {
namespace {

/// NCHW and NHWC of `text`, each with other floating-point types and with i8, and nchw16c where it
/// can be, cut small so that tasks, rectangles and conv groups do not coincide.
std::vector<Tiling> tilings_of(const std::string& text) {
  std::vector<Tiling> tilings;
  for (const char* layout :
       {"+nchw", "+nhwc", "+nchw+bf16", "+nhwc+bf16", "+nhwc+f16", "+nchw+i8", "+nhwc+i8"}) {
    TilingOptions options;
    options.algorithm = Algorithm::direct;
    tilings.push_back(make_tiling(parse_problem(text + layout), options, Target{.workers = 3}));
  }
  const ConvProblem problem = parse_problem(text);
  if (problem.groups == 1 || problem.depthwise() || problem.k / problem.groups % 16 == 0) {
    TilingOptions options;
    options.algorithm = Algorithm::direct;
    tilings.push_back(make_tiling(parse_problem(text + "+nchw16c"), options, Target{.workers = 3}));
  }
  return tilings;
}

void check_layer(const Tiling& tiling, const cpu::Kernels& kernels) {
  INFO(to_string(tiling) << "isa: " << kernels.isa);
  CpuLayer layer(tiling, kernels);

  layer.fill_random(1);
  layer.run();
  CHECK(layer.fences_whole());
  CHECK(layer.u.all_written());
  if (tiling.problem.dtype != DataType::i8) CHECK(layer.y.all_written());
  const ErrorReport report = layer.error();
  INFO(to_string(report));
  CHECK(error_bound(tiling).covers(report));

  layer.fill_whole_numbers(5, 1);
  layer.run();
  CHECK(layer.exact());
}

void check_problem(const std::string& text) {
  for (const Tiling& tiling : tilings_of(text)) {
    for (const std::string& isa : cpu::available_isas()) {
      check_layer(tiling, cpu::kernels_for(isa));
    }
  }
}

// y = activation(x), of a single channel and a filter that is 1.
void check_activation(const Activation& activation, const std::string& isa) {
  CAPTURE(to_string(activation), isa);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr int kSize = 256, kCount = kSize * kSize;
  const ConvProblem problem{.h = kSize,
                            .w = kSize,
                            .r = 1,
                            .s = 1,
                            .pad_h = 0,
                            .pad_w = 0,
                            .epilogue = {.activation = activation}};
  CpuLayer layer(make_tiling(problem, {.algorithm = Algorithm::direct}, Target{.workers = 3}),
                 cpu::kernels_for(isa));
  float *const x = layer.x.floats(), *const y = layer.y.floats();
  for (int i = 0; i < kCount; ++i) {  // -16 to 16; of one in four less or much more
    x[i] = static_cast<float>(i - kCount / 2) * 0x1p-11f;
    if (i % 4 == 0) x[i] *= std::ldexp(1.0f, i / 4 % 12 - 8);
  }
  x[0] = -kInfinity, x[1] = kInfinity, x[2] = std::numeric_limits<float>::quiet_NaN();
  layer.w.floats()[0] = 1;
  layer.run();
  CHECK(y[0] == (activation.function == ActivationFunction::leaky_relu
                     ? -kInfinity
                     : activated(activation, -kInfinity)));
  CHECK(y[1] == activated(activation, kInfinity));
  CHECK(std::isnan(y[2]));
  const ActivationError error = error_of(activation);
  double most = 0;  // in units of 2^-24 (|x| + offset)
  for (int i = 3; i < kCount; ++i) {
    const double distance = std::fabs(double{y[i]} - activated(activation, double{x[i]}));
    if (distance > 0x1p-126) {
      most = std::max(most, distance * 0x1p24 / (std::fabs(double{x[i]}) + error.offset));
    }
  }
  INFO("most units: " << most);
  CHECK(most <= std::max(error.units, 0.5));
}

TEST_CASE("activations err by what is stated, and know infinite numbers and NaN") {
  for (const std::string& isa : cpu::available_isas()) {
    for (const Activation& activation :
         {kRelu, clamp(-3, 6), leaky_relu(0.1f), kSigmoid, hard_sigmoid(0.2f, 0.5f),
          hard_sigmoid(-4, 1.5f), kSilu, kHardSwish, kGelu, kGeluTanh}) {
      check_activation(activation, isa);
    }
  }
}

TEST_CASE("tasks of every kind apply every activation") {
  for (const char* activation :
       {"+sigmoid", "+hard_sigmoid:0.2:0.5", "+silu", "+hard_swish", "+gelu", "+gelu_tanh"}) {
    for (const char* layer : {"n1c19h9w11k21+bias+residual", "n1c19h9k19g19+scale+bias",
                              "c5h12w17k33r5s5u2", "c16h9k32+nchw16c+bias", "c40h12k24+nhwc+f16"}) {
      for (const Algorithm algorithm : {Algorithm::direct, Algorithm::winograd}) {
        const ConvProblem problem = parse_problem(std::string(layer) + activation);
        if (algorithm == Algorithm::winograd && (problem.r != 3 || problem.groups != 1)) continue;
        const Tiling tiling = make_tiling(problem, {.algorithm = algorithm}, Target{.workers = 3});
        for (const std::string& isa : cpu::available_isas()) {
          CpuLayer computed(tiling, cpu::kernels_for(isa));
          computed.fill_random(1);
          computed.run();
          INFO(to_string(problem) << ' ' << to_string(algorithm) << ' ' << isa << ' '
                                  << to_string(computed.error()));
          CHECK(error_bound(tiling).covers(computed.error()));
        }
      }
    }
  }
}

TEST_CASE("direct tasks compute every filter size") {
  check_problem("n2c16h9w13k16r3s3");
  check_problem("n2c20h11w7k35r1s1");
  check_problem("c5h12w17k33r5s5");
  check_problem("c3h19w23k7r7s7");
  check_problem("c18h10w9k16r3s1");
  check_problem("c18h10w9k16r1s3");
  check_problem("c17h6w5k48r2s4p1");
  check_problem("c1h1w1k1r1s1+bias+residual");
}

TEST_CASE("direct tasks compute every padding from none to the filter's extent") {
  for (int pad = 0; pad <= 3; ++pad) {
    check_problem("c19h6w8k17r3s3p" + std::to_string(pad));
    check_problem("c4h7w5k20r3s2d2p" + std::to_string(pad) + "x" + std::to_string(3 - pad));
  }
}

TEST_CASE("direct tasks compute every stride and dilation") {
  for (const char* stride : {"1", "2", "3", "1x2", "3x1"}) {
    for (const char* dilation : {"1", "2", "3", "2x1", "1x3"}) {
      check_problem(std::string("c18h14w15k19r3s3p2u") + stride + "d" + dilation);
    }
  }
  check_problem("n3c12h18w27k17r2s4p1u3x1");  // rows between filters are not read
  check_problem("n3c33h15w16k32r1s1p0u2+scale");
  check_problem("c70h9w35k17r1s1p1u2");
  check_problem("c3h37w41k24r7s7p3u2");
  check_problem("c6h20w20k8r1s1p0u5");
}

TEST_CASE("direct tasks keep conv groups apart") {
  check_problem("n2c12h7w9k8r3s3g4+bias+residual+relu");
  check_problem("c40h8w8k60r3s3g2");
  check_problem("c24h7w9k32r3s3g2+bias");  // groups in one channel block
  check_problem("c6h5w6k48r2s3p1g3");
  check_problem("c34h5w6k102r1s1p0g2+bias");
  check_problem("c96h6w5k6r3s3u2g3");
  check_problem("c150h5w6k40r2s3p1g2+scale+residual");
  check_problem("c5h8w8k10r3s3g5");
  check_problem("n2c36h7w9k64r3s3g2+bias+residual+relu");
  check_problem("c40h9w6k96r1s1p0u2g2+bias");
}

TEST_CASE("depthwise tasks have channels in their lanes") {
  check_problem("n2c37h9w14k37r3s3g37+bias+residual+relu");
  check_problem("n2c37h9w14k37r3s3g37+bias+clamp:0:6");
  check_problem("c16h12w12k16r5s5u2g16");
  check_problem("c48h15w17k48r3s3p2d2g48+scale+bias");
  check_problem("c3h8w20k3r3s3u3x2p3x0g3");
}

TEST_CASE("depthwise tasks compute every filter, stride, dilation and padding") {
  for (const char* filter : {"r3s3", "r5s5", "r7s7", "r1s1", "r2s4"}) {
    for (const char* rest : {"", "u2", "d2", "u2d3", "p0", "p0u3", "p1x0"}) {
      check_problem(std::string("n2c35h15w27k35g35") + filter + rest + "+bias+relu");
    }
  }
  check_problem("c70h7w7k70r3s3g70+scale+residual");
  check_problem("c16h40w130k16r3s3u2g16");
  check_problem("c17h3w2k17r7s7g17");
}

TEST_CASE("depthwise tasks compute rows of any width") {
  for (const char* width : {"3", "4", "5", "7", "8", "13", "14", "30"}) {
    for (const char* rest : {"r3s3", "r3s3u2", "r3s3u2p0", "r5s3p2x1", "r3s3u3"}) {
      check_problem(std::string("n2c40h9w") + width + "k40g40" + rest + "+residual+relu");
    }
  }
  check_problem("n2c40h9w1k40g40r3s3+bias");
  check_problem("n2c40h9w2k40g40r3s3u2+bias");
}

TEST_CASE("direct tasks compute every number of filters") {
  for (const int k : {1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 33, 40, 41, 56, 64}) {
    check_problem("c35h5w9r1s1p0k" + std::to_string(k) + "+scale+bias");
    check_problem("c520h3w7r1s1p0u2k" + std::to_string(k) + "+residual");
  }
}

TEST_CASE("direct tasks compute every number of channels") {
  for (const int c : {2, 4, 6, 8, 30, 32, 34, 62, 64, 66, 70, 96, 128, 130, 132, 192, 260}) {
    check_problem("h5w9k24r1s1p0c" + std::to_string(c) + "+bias");
    check_problem("n2h5w21k40r1s1p0u2c" + std::to_string(c) + "+residual");
    check_problem("h6w7k20r3s3c" + std::to_string(c));
    check_problem("h6w7k20r2s3p0d2x1c" + std::to_string(c));
  }
}

TEST_CASE("direct tasks read taps of a row that are neighbours together") {
  for (const char* filter : {"r7s7p3u2", "r3s3p1", "r1s5p0x2", "r3s2p2u1x3", "r5s8p4"}) {
    for (const int c : {1, 2, 3, 4}) {
      check_problem("n2h19w23k37c" + std::to_string(c) + filter + "+scale+bias+relu");
    }
  }
}

TEST_CASE("direct tasks whose sums have few products compute rows of any width") {
  for (const int width : {1, 7, 14, 16, 28, 33, 48, 112}) {
    const std::string w = std::to_string(width);
    check_problem("n2c21h9w" + w + "k37r1s1p0+scale+bias+residual+relu");
    check_problem("c5h9w" + w + "k20r3s3+residual");
    check_problem("c5h9w" + w + "k20r3s3u2+bias");
  }
  check_problem("c30h11w9k24r3s2p0g3+bias+residual");  // x in place, columns between rows
}

TEST_CASE("direct tasks apply every epilogue") {
  for (const char* epilogue :
       {"+bias", "+residual", "+relu", "+bias+residual", "+bias+relu", "+residual+relu",
        "+bias+residual+relu", "+scale", "+scale+relu", "+scale+bias+residual+relu",
        "+bias+clamp:-0.5:6", "+residual+leaky_relu:0.1"}) {
    check_problem(std::string("n2c17h5w19k21r3s3") + epilogue);
  }
}

TEST_CASE("direct tasks compute rectangles and filter chunks of any size") {
  for (const char* problem : {"n2c24h13w31k72r3s3p1+bias", "n2c7h13w31k72r3s3p1+residual",
                              "n2c24h13w31k72r1s1p0+bias", "n2c40h13w31k40r3s3g40+bias"}) {
    for (Tiling tiling : tilings_of(problem)) {
      for (const std::uint32_t rows : {1u, 5u, 13u}) {
        for (const std::uint32_t cols : {1u, 15u, 17u, 31u}) {
          for (const std::uint32_t blocks : {1u, 2u, 3u}) {
            tiling.cut = DirectCut{rows, cols, blocks};
            derive_counts(tiling);
            check_layer(tiling, cpu::kernels_for());
          }
        }
      }
    }
  }
}

#if defined(__x86_64__)
TEST_CASE("a task leaves no tile registers to the thread that ran it") {
  for (const std::string& isa : cpu::available_isas()) {
    if (isa != "avx512_amx") continue;
    const Tiling tiling = make_tiling(parse_problem("c64h9w9k32+nhwc+bf16"),
                                      {.algorithm = Algorithm::direct}, Target{.workers = 1});
    CpuLayer layer(tiling, cpu::kernels_for(isa));
    layer.fill_random(1);
    layer.run();
    std::uint8_t shapes[64];
    asm volatile("sttilecfg %0" : "=m"(shapes));
    CHECK(std::count(std::begin(shapes), std::end(shapes), 0) == 64);
  }
}
#endif

TEST_CASE("an instruction set that is not there is refused with those that are") {
  CHECK_THROWS_WITH(cpu::kernels_for("mmx"),
                    ContainsSubstring("\"mmx\"") && ContainsSubstring("portable"));
  for (const std::string& isa : cpu::available_isas()) CHECK(cpu::kernels_for(isa).isa == isa);
}

}  // namespace
}  // namespace megaconv
