// SPDX-License-Identifier: Apache-2.0
// What rounding V, U and M to FP16 costs F(4x4,3x3), in an emulation in which all else is exact;
// where the bound of Arithmetic::f16 comes from.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include "tasks/reference.hpp"
#include "tasks/storage.hpp"
#include "tasks/winograd/winograd_matrices.hpp"
#include "tests/catch.hpp"

namespace megaconv {
namespace {

using Matrices = WinogradMatrices<4, double>;
constexpr int kAlpha = Matrices::kAlpha;
using Tile = double[kAlpha][kAlpha];

Matrices matrices(Points points) {
  const WinogradMatrices<4> exact = winograd_matrices<4>(points);
  Matrices result{};
  const auto copy = [](const auto& from, auto& to) {
    for (std::size_t i = 0; i < std::size(from); ++i) {
      for (std::size_t j = 0; j < std::size(from[i]); ++j) {
        to[i][j] = static_cast<double>(from[i][j]);
      }
    }
  };
  copy(exact.at, result.at), copy(exact.g, result.g), copy(exact.bt, result.bt);
  return result;
}

// matrix in matrix^T
template <int kRows, int kCols, class In, class Out>
void transform(const double (&matrix)[kRows][kCols], const In& in, Out& out) {
  double half[kRows][kCols];
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kCols; ++j) {
      half[i][j] = 0;
      for (int l = 0; l < kCols; ++l) half[i][j] += matrix[i][l] * in[l][j];
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kRows; ++j) {
      out[i][j] = 0;
      for (int l = 0; l < kCols; ++l) out[i][j] += half[i][l] * matrix[j][l];
    }
  }
}

// To the bits of FP16, or to so many fewer; a scale has moved it to where FP16 has them all.
double rounded(double value, int bits_off) {
  if (value == 0) return 0;
  const double ulp = std::ldexp(1.0, std::ilogb(value) - 10 + bits_off);
  return std::nearbyint(value / ulp) * ulp;
}

struct Layer {
  explicit Layer(const char* text, std::uint64_t seed)
      : problem(parse_problem(text)),
        x(static_cast<std::size_t>(problem.x_size())),
        w(static_cast<std::size_t>(problem.w_size())),
        y(static_cast<std::size_t>(problem.y_size())),
        reference(y.size()),
        magnitude(y.size()) {
    const RandomData data(problem);
    fill(x, data.x, seed);
    fill(w, data.w, seed + 1);
    reference_convolution(problem, {.x = x.data(), .w = w.data()}, reference.data(),
                          magnitude.data());
  }
  ConvProblem problem;  // one image, NCHW
  std::vector<float> x, w, y;
  std::vector<double> reference, magnitude;

  double input(std::int64_t c, std::int64_t row, std::int64_t col) const {
    const bool inside = row >= 0 && row < problem.h && col >= 0 && col < problem.w;
    return inside ? x[static_cast<std::size_t>((c * problem.h + row) * problem.w + col)] : 0.0f;
  }

  void convolve(int bits_off) {
    const Matrices f = matrices(Points::low_error);
    const std::int64_t p = problem.p(), q = problem.q();
    std::vector<Tile> u(static_cast<std::size_t>(problem.k * problem.c));
    for (std::size_t i = 0; i < u.size(); ++i) {
      double filter[3][3];
      for (std::size_t j = 0; j < 9; ++j) filter[j / 3][j % 3] = w[i * 9 + j];
      transform(f.g, filter, u[i]);
      for (auto& row : u[i]) {
        for (double& value : row) value = rounded(value, bits_off);
      }
    }
    std::vector<Tile> v(static_cast<std::size_t>(problem.c));
    for (std::int64_t row = 0; row < p; row += 4) {
      for (std::int64_t col = 0; col < q; col += 4) {
        for (std::int64_t c = 0; c < problem.c; ++c) {
          Tile in;
          for (int i = 0; i < kAlpha * kAlpha; ++i) {
            in[i / kAlpha][i % kAlpha] =
                input(c, row + i / kAlpha - problem.pad_h, col + i % kAlpha - problem.pad_w);
          }
          Tile& tile = v[static_cast<std::size_t>(c)];
          transform(f.bt, in, tile);
          for (auto& values : tile) {
            for (double& value : values) value = rounded(value, bits_off);
          }
        }
        for (std::int64_t k = 0; k < problem.k; ++k) {
          Tile products = {};
          for (std::size_t c = 0; c < v.size(); ++c) {
            const Tile& filter = u[static_cast<std::size_t>(k) * v.size() + c];
            for (int i = 0; i < kAlpha * kAlpha; ++i) {
              products[i / kAlpha][i % kAlpha] +=
                  v[c][i / kAlpha][i % kAlpha] * filter[i / kAlpha][i % kAlpha];
            }
          }
          for (auto& row : products) {
            for (double& sum : row) sum = rounded(sum, bits_off);
          }
          double out[4][4];
          transform(f.at, products, out);
          for (std::int64_t i = 0; i < std::min<std::int64_t>(4, p - row); ++i) {
            for (std::int64_t j = 0; j < std::min<std::int64_t>(4, q - col); ++j) {
              y[static_cast<std::size_t>((k * p + row + i) * q + col + j)] =
                  static_cast<float>(out[i][j]);
            }
          }
        }
      }
    }
  }
};

Tiling tiling_of(const ConvProblem& problem) {
  Tiling tiling;
  tiling.problem = problem;
  tiling.cut.emplace<WinogradCut>().m = 4;
  tiling.arithmetic = Arithmetic::f16;
  return tiling;
}

// Two bits fewer are four times the error. The measured 3 u, times 4, are above a bound of 6 u
// where outputs are many.
TEST_CASE("the bound of rounded Winograd covers FP16 numbers, and not those of two bits fewer") {
  for (const char* text : {"c16h48k16", "c96h24k16p2", "c5h31w66k9p0"}) {
    Layer layer(text, 1);
    const Tiling tiling = tiling_of(layer.problem);
    const ErrorBound bound = error_bound(tiling);
    const auto error = [&](int bits_off) {
      layer.convolve(bits_off);
      return compare(tiling, layer.y.data(), layer.reference.data(), layer.magnitude.data());
    };
    const ErrorReport half = error(0);
    CAPTURE(text, to_string(half), bound.relative_l2, bound.worst_element);
    CHECK(bound.covers(half));
    CHECK(half.relative_l2 > bound.relative_l2 / 4);
    CHECK_FALSE(bound.covers(error(2)));
  }
}

TEST_CASE("the bound of rounded Winograd covers small images of few channels") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    for (const char* text : {"c2h3w5k3p2", "c6h2w11k4", "c17h5k2p0", "c40h1w9k7"}) {
      Layer layer(text, 2 * seed);
      const Tiling tiling = tiling_of(layer.problem);
      layer.convolve(0);
      const ErrorReport report =
          compare(tiling, layer.y.data(), layer.reference.data(), layer.magnitude.data());
      CAPTURE(text, seed, to_string(report));
      CHECK(error_bound(tiling).covers(report));
    }
  }
}

}  // namespace
}  // namespace megaconv
