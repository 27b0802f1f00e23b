// SPDX-License-Identifier: Apache-2.0
// The truth itself: against the definition of a convolution, on what no other test relies on.
#include "tasks/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tasks/activation.hpp"
#include "tasks/strides.hpp"
#include "tests/catch.hpp"

namespace megaconv {
namespace {

struct Data {
  explicit Data(const ConvProblem& problem)
      : x(static_cast<std::size_t>(problem.x_size())),
        w(static_cast<std::size_t>(problem.w_size())),
        scale(static_cast<std::size_t>(problem.k)),
        bias(scale.size()),
        residual(static_cast<std::size_t>(problem.y_size())),
        y(residual.size()),
        magnitude(residual.size()) {
    fill_integers(x, 1, 0.5);
    fill_integers(w, 2, 0.5);
    fill_integers(bias, 3, 0.5);
    fill_integers(residual, 4, 0.5);
    fill_integers(scale, 5, 1.0, 0.5f);
    reference_convolution(problem, tensors(), y.data(), magnitude.data());
  }
  Tensors tensors() const {
    return {.x = x.data(),
            .w = w.data(),
            .scale = scale.data(),
            .bias = bias.data(),
            .residual = residual.data()};
  }
  std::vector<float> x, w, scale, bias, residual;
  std::vector<double> y, magnitude;
};

// One output by the definition, NCHW; `of` is applied to every term.
template <class Of>
double defined_output(const ConvProblem& a, const Data& data, std::int64_t n, std::int64_t k,
                      std::int64_t p, std::int64_t q, const Of& of) {
  const std::int64_t channels = a.c / a.groups, group = k / (a.k / a.groups);
  double sum = 0;
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t r = 0; r < a.r; ++r) {
      for (std::int64_t s = 0; s < a.s; ++s) {
        const std::int64_t row = p * a.stride_h + r * a.dilation_h - a.pad_h;
        const std::int64_t col = q * a.stride_w + s * a.dilation_w - a.pad_w;
        if (row < 0 || row >= a.h || col < 0 || col >= a.w) continue;
        sum += of(
            static_cast<double>(data.x[((n * a.c + group * channels + c) * a.h + row) * a.w + col] *
                                data.w[((k * channels + c) * a.r + r) * a.s + s]));
      }
    }
  }
  if (a.epilogue.scale) sum *= of(data.scale[k]);
  if (a.epilogue.bias) sum += of(data.bias[k]);
  if (a.epilogue.residual) sum += of(data.residual[((n * a.k + k) * a.p() + p) * a.q() + q]);
  return sum;
}

TEST_CASE("the reference is the definition of a convolution") {
  for (const char* text : {"n2c5h7w9k6r3s3", "c6h9w8k9r3s2p1x0u2x1d1x2g3+bias+residual",
                           "c4h5w6k4g4r3s3+bias+relu", "n2c3h4w4k5r1s1p0+residual+relu",
                           "c3h4w6k7+scale", "c3h4w6k7+clamp:-1:0.5", "c3h4w6k7+leaky_relu:-0.5",
                           "c4h3w5k6r1+scale+bias+residual+relu", "c2h11w13k7r5s4p3x2u3x2d2x1"}) {
    INFO(text);
    const ConvProblem problem = parse_problem(text);
    const Data data(problem);
    std::size_t at = 0;
    for (std::int64_t n = 0; n < problem.n; ++n) {
      for (std::int64_t k = 0; k < problem.k; ++k) {
        for (std::int64_t p = 0; p < problem.p(); ++p) {
          for (std::int64_t q = 0; q < problem.q(); ++q, ++at) {
            const double sum =
                defined_output(problem, data, n, k, p, q, [](double term) { return term; });
            const double magnitude = defined_output(problem, data, n, k, p, q,
                                                    [](double term) { return std::fabs(term); });
            REQUIRE(data.y[at] == activated(problem.epilogue.activation, sum));
            REQUIRE(data.magnitude[at] == magnitude);
          }
        }
      }
    }
  }
}

TEST_CASE("the reference gives the same values in both layouts") {
  const ConvProblem nchw = parse_problem("n2c6h5w4k8r3s2p1g2+residual");
  ConvProblem nhwc = nchw;
  nhwc.layout = Layout::nhwc;
  const Data a(nchw);
  Data b(nhwc);
  const auto to_nhwc = [](const auto& from, auto& to, std::int64_t n, std::int64_t c,
                          std::int64_t pixels) {
    for (std::int64_t i = 0; i < n * c * pixels; ++i) {
      to[(i / (c * pixels) * pixels + i % pixels) * c + i / pixels % c] = from[i];
    }
  };
  const std::int64_t outputs = nchw.p() * nchw.q();
  to_nhwc(a.x, b.x, nchw.n, nchw.c, nchw.h * nchw.w);
  to_nhwc(a.w, b.w, nchw.k, nchw.c / nchw.groups, nchw.r * nchw.s);
  to_nhwc(a.residual, b.residual, nchw.n, nchw.k, outputs);
  std::vector<double> expected(a.y.size());
  to_nhwc(a.y, expected, nchw.n, nchw.k, outputs);
  reference_convolution(nhwc, b.tensors(), b.y.data());
  CHECK(b.y == expected);
}

TEST_CASE("nchw16c has channels in blocks of 16, and in the last block those that are left") {
  const Strides at = strides_of(Layout::nchw16c, 2, 40, 6);
  CHECK(at.at(0, 0, 0) == 0);
  CHECK(at.at(0, 15, 0) == 15);
  CHECK(at.at(0, 0, 1) == 16);           // the next pixel
  CHECK(at.at(0, 16, 0) == 16 * 6);      // the next block
  CHECK(at.at(0, 33, 0) == 32 * 6 + 1);  // the last one has 8 channels
  CHECK(at.at(0, 33, 5) == 32 * 6 + 5 * 8 + 1);
  CHECK(at.at(1, 39, 5) == 2 * 40 * 6 - 1);
  std::vector<bool> taken(2 * 40 * 6);
  for (int n = 0; n < 2; ++n) {
    for (int c = 0; c < 40; ++c) {
      for (int pixel = 0; pixel < 6; ++pixel) {
        taken[static_cast<std::size_t>(at.at(n, c, pixel))] = true;
      }
    }
  }
  CHECK(std::count(taken.begin(), taken.end(), true) == 2 * 40 * 6);
}

TEST_CASE("seeded data is the same with every compiler") {
  float values[1];  // expected: the same formulas, in Python
  fill_normal(values, 1);
  CHECK(values[0] == 0x1.b12cb6p+0f);
  fill_integers(values, 1, 1.0, 4);
  CHECK(values[0] == -4);

  std::vector<float> many(100'000);
  fill_normal(many, 2);
  double sum = 0, squares = 0;
  for (const float value : many) {
    sum += value;
    squares += value * value;
  }
  CHECK(std::fabs(sum / 1e5) < 0.01);           // three standard errors
  CHECK(std::fabs(squares / 1e5 - 1) < 0.013);  // likewise
}

TEST_CASE("compare finds what is wrong, and where") {
  Tiling tiling;
  tiling.problem = parse_problem("c1h2w2k1r1p0+relu");
  const double reference[4] = {0, 1, 2, 3}, magnitude[4] = {1, 1, 2, 3};
  constexpr float kUlp = 0x1p-23f;
  const auto report = [&](std::initializer_list<float> y) {
    return compare(tiling, std::data(y), reference, magnitude);
  };
  CHECK(report({0, 1, 2, 3}).worst_index == -1);
  CHECK(report({0, 1 + kUlp, 2, 3}).worst_index == 1);
  CHECK(report({0, 1 + kUlp, 2, 3}).worst_element == 2);
  CHECK(report({0, 1, std::numeric_limits<float>::quiet_NaN(), 3}).worst_index == 2);
  CHECK(std::isinf(report({0, 1, std::numeric_limits<float>::quiet_NaN(), 3}).relative_l2));
  CHECK_FALSE(
      error_bound(tiling).covers(report({0, std::numeric_limits<float>::infinity(), 2, 3})));

  const double zeros[4] = {};
  const float y[4] = {kUlp, 0, 0, 0};
  CHECK(compare(tiling, y, zeros, magnitude).relative_l2 < 1e-7);             // a ReLU left nothing
  CHECK_FALSE(error_bound(tiling).covers(compare(tiling, y, zeros, zeros)));  // nothing went in
}

TEST_CASE("the bound of a narrow type covers its rounding, and no more") {
  for (const DataType dtype : {DataType::f16, DataType::bf16}) {
    Tiling tiling;
    tiling.problem = parse_problem("c1h32w32k1r1p0");
    tiling.problem.dtype = dtype;
    const double u = unit_roundoff(dtype), least = least_normal(dtype);
    // Middles between two numbers of a binade, of normal size and just too small for that.
    for (const double size : {1.0, least, least / 2}) {
      CAPTURE(to_string(dtype), size);
      const double middle = size + u * std::max(size, least);
      const auto covered = [&](double factor) {
        std::vector<double> reference(1024, size + (middle - size) * factor);
        std::vector<std::uint16_t> y(1024);
        with_storage(dtype, [&](auto number) {
          number = from_float<decltype(number)>(static_cast<float>(size));
          for (auto& stored : y)
            std::memcpy(&stored, &number, std::min(sizeof(stored), sizeof(number)));
        });
        return error_bound(tiling).covers(
            compare(tiling, y.data(), reference.data(), reference.data()));
      };
      CHECK(covered(1));
      CHECK_FALSE(covered(1.01));
    }
  }
}

TEST_CASE("an output too large for its type is infinite, and no other may be") {
  Tiling tiling;
  tiling.problem = parse_problem("c1h1w1k1r1p0+f16");
  const auto covered = [&](std::uint16_t bits, double reference) {
    const double magnitude = std::fabs(reference);
    return error_bound(tiling).covers(compare(tiling, &bits, &reference, &magnitude));
  };
  CHECK(covered(0x7c00, 70000));
  CHECK_FALSE(covered(0xfc00, 70000));  // of the other sign
  CHECK_FALSE(covered(0x7e00, 70000));  // NaN
  CHECK_FALSE(covered(0x7c00, 65504));
}

TEST_CASE("exact means rounded once to the storage type") {
  const double reference[3] = {2048, 2049, 2051};  // f16: ties, to 2048 and 2052
  std::uint16_t y[3] = {0x6800, 0x6800, 0x6802};
  CHECK(mismatch(DataType::f16, y, reference, 3).count == 0);
  y[1] = 0x6801;
  CHECK(mismatch(DataType::f16, y, reference, 3).first == 1);
  y[2] = 0x7e00;  // NaN
  CHECK(mismatch(DataType::f16, y, reference, 3).count == 2);
}

}  // namespace
}  // namespace megaconv
