// SPDX-License-Identifier: Apache-2.0
// INT8 tasks of every instruction set at the ends of their range, against the definition of
// DataType::i8 written out here. (cpu_direct.test.cpp compares them with the reference.)
#include <cmath>
#include <limits>
#include <tuple>

#include "tasks/activation.hpp"
#include "tasks/tiling.hpp"
#include "tests/catch.hpp"
#include "tests/tasks/cpu_layer.hpp"

namespace megaconv {
namespace {

Int8 int8(int value) { return {static_cast<std::uint8_t>(value & 0xff)}; }
int value_of(Int8 number) { return static_cast<int>(to_float(number)); }

int saturated(float value) {
  return static_cast<int>(std::fmin(127.0f, std::fmax(-128.0f, std::nearbyint(value))));
}

/// A layer of direct convolution with its tensors as arrays.
struct Int8Layer {
  Int8Layer(const std::string& text, const std::string& isa)
      : layer(make_tiling(parse_problem(text + "+i8"), {.algorithm = Algorithm::direct},
                          Target{.workers = 1}),
              cpu::kernels_for(isa)),
        x(static_cast<Int8*>(layer.x.data())),
        w(static_cast<Int8*>(layer.w.data())),
        residual(static_cast<Int8*>(layer.residual.data())),
        y(static_cast<Int8*>(layer.y.data())),
        scale(layer.scale.floats()),
        bias(layer.bias.floats()) {}
  const ConvProblem& problem() const { return layer.tiling.problem; }

  CpuLayer layer;
  Int8 *x, *w, *residual, *y;
  float *scale, *bias;
};

// The largest sums that are allowed, of both signs, 2^14 times 2^17 - 1 products or as many as fit;
// and small ones of large parts, which a sum of floats would round; quads and depthwise.
TEST_CASE("i8 sums are exact up to the largest that are allowed") {
  for (const std::string shape :
       {"c131071h1w2k3r1p0", "c14563h3k3r3p0", "c2h181w724k2r181s724p0g2"}) {
    for (const char* layout : {"+nchw", "+nhwc"}) {
      for (const std::string& isa : cpu::available_isas()) {
        Int8Layer data(shape + layout + "+scale+bias", isa);
        const ConvProblem& a = data.problem();
        const std::int64_t products = a.c / a.groups * a.r * a.s;
        REQUIRE(products < 1 << 17);
        REQUIRE(products > (1 << 17) - 256);
        const std::int64_t half = products / 2;
        for (const auto& [input, first, last] :
             {std::tuple{-128, -128, -128}, std::tuple{-128, 127, 127}, std::tuple{127, 127, 127},
              std::tuple{127, 127, -127}, std::tuple{-128, -128, 127}}) {
          CAPTURE(shape, layout, isa, input, first, last);
          std::fill_n(data.x, a.x_size(), int8(input));
          for (std::int64_t i = 0; i < a.w_size(); ++i) {
            data.w[i] = int8(i % products < half ? first : last);
          }
          const std::int64_t sum = input * (first * half + last * (products - half));
          std::int64_t wrong = 0;
          for (const float scale : {1.0f, 0x1p-25f}) {
            const float bias = scale == 1 ? 5 - static_cast<float>(sum) : 0;
            std::fill_n(data.scale, a.k, scale);
            std::fill_n(data.bias, a.k, bias);
            data.layer.run();
            const int truth = saturated(std::fma(static_cast<float>(sum), scale, bias));
            for (std::int64_t i = 0; i < a.y_size(); ++i) wrong += value_of(data.y[i]) != truth;
          }
          CHECK(wrong == 0);
          CHECK(data.layer.fences_whole());
        }
      }
    }
  }
}

// A 1x1 filter of one product: x times -1, 1 or 2, in lanes of filters and in lanes of channels.
TEST_CASE("i8 outputs are rounded to the nearest, ties to even, and saturate at both ends") {
  for (const char* shape : {"c1h16w16k3r1", "c3h16w16k3r1g3"}) {
    for (const char* layout : {"+nchw", "+nhwc"}) {
      for (const char* relu : {"", "+relu", "+clamp:-20:50", "+leaky_relu:0.3"}) {
        for (const std::string& isa : cpu::available_isas()) {
          CAPTURE(shape, layout, relu, isa);
          Int8Layer data(std::string(shape) + layout + "+scale+bias+residual" + relu, isa);
          const ConvProblem& a = data.problem();
          const bool nhwc = a.layout == Layout::nhwc;
          const int weights[] = {-1, 1, 2};
          for (int k = 0; k < 3; ++k) data.w[k] = int8(weights[k]);
          for (std::int64_t c = 0; c < a.c; ++c) {
            for (int i = 0; i < 256; ++i) data.x[nhwc ? i * a.c + c : c * 256 + i] = int8(i);
          }
          for (const float scale : {0.5f, 0.25f, -1.5f, 0.3f, 1e-3f, 1e30f}) {
            for (const float bias : {0.0f, 0.5f, -0.25f, 100.5f, -1e30f}) {
              std::fill_n(data.scale, 3, scale);
              std::fill_n(data.bias, 3, bias);
              for (int i = 0; i < 3 * 256; ++i) data.residual[i] = int8(i * 7 / 3);
              data.layer.run();
              std::int64_t wrong = 0;
              for (int k = 0; k < 3; ++k) {
                for (int i = 0; i < 256; ++i) {
                  const int at = nhwc ? i * 3 + k : k * 256 + i;
                  const auto sum = static_cast<float>(value_of(int8(i)) * weights[k]);
                  float value = std::fma(sum, scale, bias) + to_float(data.residual[at]);
                  value = static_cast<float>(activated(a.epilogue.activation, double{value}));
                  wrong += value_of(data.y[at]) != saturated(value);
                }
              }
              CHECK(wrong == 0);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("an i8 output that is not a number is the least there is") {
  for (const std::string& isa : cpu::available_isas()) {
    CAPTURE(isa);
    Int8Layer data("c1h1w1k3r1+scale+relu", isa);
    data.x[0] = int8(0);
    for (int k = 0; k < 3; ++k) data.w[k] = int8(1);
    data.scale[0] = std::numeric_limits<float>::quiet_NaN();
    data.scale[1] = std::numeric_limits<float>::infinity();
    data.scale[2] = 1;
    data.layer.run();
    CHECK(value_of(data.y[0]) == -128);
    CHECK(value_of(data.y[1]) == -128);
    CHECK(value_of(data.y[2]) == 0);
  }
}

}  // namespace
}  // namespace megaconv
