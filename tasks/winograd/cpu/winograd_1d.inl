// SPDX-License-Identifier: Apache-2.0
// One-dimensional Winograd transforms of vectors, unrolled from the exact matrices: no product with
// 0, +-1 is made, and the rows of points +a and -a share their even and odd powers.
#pragma once

#include "tasks/cpu/simd.hpp"
#include "tasks/winograd/winograd_matrices.hpp"

namespace megaconv::cpu::MEGACONV_ISA {

/// F(m x m, 3 x 3) with a set of points.
template <int kOutputs, Points kPoints>
struct Winograd {
  static constexpr int kM = kOutputs, kStride = 1;
  static constexpr int kAlpha = kM + kWinogradR - 1;
  static constexpr std::int64_t kGDenominator = g_denominator<kM>(kPoints);
  static constexpr WinogradMatrices<kM, double> kTerms = winograd_terms<kM>(kPoints, kGDenominator);
  /// What brings G g G^T back to scale.
  static constexpr double kGScale = static_cast<double>(Rational(1, kGDenominator* kGDenominator));
};

/// F(2 x 2, 3 x 3) under stride 2.
struct StridedWinograd {
  static constexpr int kM = StridedMatrices::kM, kStride = 2;
  static constexpr int kAlpha = StridedMatrices::kAlpha;
  static constexpr StridedMatrices kTerms{};
  static constexpr double kGScale = 1;
};

// The three matrices under one shape: rows, columns, coefficient.
template <class W>
struct InputTerms {
  static constexpr int kRows = W::kAlpha, kCols = W::kAlpha;
  static constexpr double at(int row, int col) { return W::kTerms.bt[row][col]; }
};
template <class W>
struct FilterTerms {
  static constexpr int kRows = W::kAlpha, kCols = kWinogradR;
  static constexpr double at(int row, int col) { return W::kTerms.g[row][col]; }
};
template <class W>
struct OutputTerms {
  static constexpr int kRows = W::kM, kCols = W::kAlpha;
  static constexpr double at(int row, int col) { return W::kTerms.at[row][col]; }
};

MEGACONV_INLINE Vec scaled(double factor, Vec v) { return static_cast<float>(factor) * v; }
MEGACONV_INLINE DoubleVec scaled(double factor, DoubleVec v) { return factor * v; }

/// out = terms * in
template <class Terms, class V>
MEGACONV_INLINE void multiply(const V (&in)[Terms::kCols], V (&out)[Terms::kRows]) {
  unroll<Terms::kRows>([&](auto row) __attribute__((always_inline)) {
    V sum{};
    bool empty = true;  // known when compiling, like the coefficients
    unroll<Terms::kCols>([&](auto col) __attribute__((always_inline)) {
      constexpr double kFactor = Terms::at(row, col);
      if constexpr (kFactor != 0) {
        const V term = kFactor == 1 ? in[col] : kFactor == -1 ? -in[col] : scaled(kFactor, in[col]);
        sum = empty ? term : sum + term;
        empty = false;
      }
    });
    out[row] = sum;
  });
}

/// (v[2i+1], v[2i+2]) -> their sum and difference, of points +a and -a.
template <class W, int kSize, class V>
MEGACONV_INLINE void butterflies(V (&v)[kSize]) {
  constexpr int kPairs = W::kStride == 1 ? kSize / 2 - 1 : 0;
  unroll<kPairs>([&](auto i) __attribute__((always_inline)) {
    const V even = v[2 * i + 1], odd = v[2 * i + 2];
    v[2 * i + 1] = even + odd;
    v[2 * i + 2] = even - odd;
  });
}

/// out = B^T in
template <class W>
MEGACONV_INLINE void input_1d(const Vec (&in)[W::kAlpha], Vec (&out)[W::kAlpha]) {
  multiply<InputTerms<W>>(in, out);
  butterflies<W>(out);
}

/// out = kGDenominator G in
template <class W>
MEGACONV_INLINE void filter_1d(const DoubleVec (&in)[kWinogradR], DoubleVec (&out)[W::kAlpha]) {
  multiply<FilterTerms<W>>(in, out);
  butterflies<W>(out);
}

/// out = A^T in; `in` is overwritten
template <class W>
MEGACONV_INLINE void output_1d(Vec (&in)[W::kAlpha], Vec (&out)[W::kM]) {
  butterflies<W>(in);
  multiply<OutputTerms<W>>(in, out);
}

/// Calls body(Winograd<...>{}) for the m and points of the tiles.
template <class Body>
MEGACONV_INLINE void with_winograd(const WinogradTiles& tiles, const Body& body) {
  if (tiles.stride == 2) return body(StridedWinograd{});
  switch (tiles.m) {
    case 2:
      return body(Winograd<2, Points::low_error>{});
    case 4:
      if (tiles.points == Points::integer) return body(Winograd<4, Points::integer>{});
      return body(Winograd<4, Points::low_error>{});
    default:
      return body(Winograd<6, Points::low_error>{});
  }
}

}  // namespace megaconv::cpu::MEGACONV_ISA
