// SPDX-License-Identifier: Apache-2.0
// One-dimensional Winograd transforms of vectors, unrolled from the exact matrices: no product with
// 0, +-1 is made, and the rows of points +a and -a share their even and odd powers.
#pragma once

#include "tasks/cpu/simd.hpp"
#include "tasks/winograd/winograd_matrices.hpp"

namespace megaconv::cpu::MEGACONV_ISA {

/// F(m, 3) with a set of points: a dimension of a tile.
template <int kOutputs, Points kPoints>
struct Winograd {
  static constexpr int kM = kOutputs, kStride = 1;
  static constexpr int kAlpha = kM + kWinogradR - 1;
  static constexpr int kPairs = kAlpha / 2 - 1;  ///< of points +a and -a
  static constexpr bool kHasEdges = has_edge_tiles(kPoints);
  static constexpr int position(int i) { return i; }
  static constexpr WinogradMatrices<kM> kExact = winograd_matrices<kM>(kPoints);
  static constexpr std::int64_t kGDenominator = g_denominator(kExact);
  static constexpr auto kTerms = split_pairs(kExact, kPairs, kGDenominator);
  template <int kEdgeOutputs>
  static constexpr EdgeMatrices<kEdgeOutputs> edge() {
    return edge_matrices<kM, kEdgeOutputs>(kPoints);
  }
};

/// F(m, 3) under stride 2.
template <int kOutputs>
struct StridedWinograd {
  static constexpr int kM = kOutputs, kStride = 2;
  static constexpr int kAlpha = StridedMatrices<kM>::kAlpha;
  static constexpr int kPairs = kM == 2 ? 0 : kM / 2;
  static constexpr bool kHasEdges = kM == 2;
  static constexpr int position(int i) { return i; }
  static constexpr StridedMatrices<kM> kExact = strided_matrices<kM>();
  static constexpr std::int64_t kGDenominator = g_denominator(kExact);
  static constexpr auto kTerms = split_pairs(kExact, kPairs, kGDenominator);
  template <int kEdgeOutputs>
  static constexpr EdgeMatrices<kEdgeOutputs> edge() {
    return strided_edge_matrices();
  }
};

/// The edge tiles of W in one dimension, which have kOutputs outputs.
template <class W, int kOutputs>
struct Edge {
  static constexpr int kM = kOutputs, kStride = W::kStride;
  static constexpr int kAlpha = EdgeMatrices<kOutputs>::kAlpha;
  static constexpr int kPairs = 0;
  static constexpr EdgeMatrices<kOutputs> kTerms = W::template edge<kOutputs>();
  static constexpr int position(int i) { return kTerms.position[i]; }
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

/// The last factor of a row that is not 0.
template <class Terms>
constexpr double last_factor(int row) {
  int col = Terms::kCols - 1;
  while (Terms::at(row, col) == 0) --col;
  return Terms::at(row, col);
}

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
  unroll<W::kPairs>([&](auto i) __attribute__((always_inline)) {
    const V even = v[2 * i + 1], odd = v[2 * i + 2];
    v[2 * i + 1] = even + odd;
    v[2 * i + 2] = even - odd;
  });
}

/// Rows of B^T that are computed together: those of points +a and -a, then those that are left.
template <class W>
inline constexpr int kInputGroups = (W::kAlpha + 1) / 2;
template <class W>
constexpr int input_row(int group, int i) {
  if (group < W::kPairs) return 2 * group + 1 + i;
  const int left = 2 * (group - W::kPairs) + i;
  return left == 0 ? 0 : 2 * W::kPairs + left;
}

/// scale * (a row of B^T) * in, its last coefficient first: most often that is 1.
template <class W, int kRow>
MEGACONV_INLINE Vec input_term(const Vec (&in)[W::kAlpha], double scale) {
  Vec sum{};
  bool empty = true;
  unroll<W::kAlpha>([&](auto i) __attribute__((always_inline)) {
    constexpr int kCol = W::kAlpha - 1 - i;
    constexpr double kFactor = InputTerms<W>::at(kRow, kCol);
    if constexpr (kFactor != 0) {
      const double factor = scale * kFactor;
      const Vec term = factor == 1 ? in[kCol] : factor == -1 ? -in[kCol] : scaled(factor, in[kCol]);
      sum = empty ? term : sum + term;
      empty = false;
    }
  });
  return sum;
}

/// Two rows of out = B^T in; the last group of an odd number has one.
template <class W, int kGroup>
MEGACONV_INLINE void input_rows(const Vec (&in)[W::kAlpha], Vec (&out)[2]) {
  constexpr int kFirst = input_row<W>(kGroup, 0), kSecond = input_row<W>(kGroup, 1);
  if constexpr (kGroup < W::kPairs) {
    // Their odd powers have a common factor, which is multiplied when they are added.
    constexpr double kLead = last_factor<InputTerms<W>>(kSecond);
    const Vec even = input_term<W, kFirst>(in, 1);
    const Vec odd = input_term<W, kSecond>(in, 1 / kLead);
    out[0] = even + scaled(kLead, odd);
    out[1] = even - scaled(kLead, odd);
  } else {
    out[0] = input_term<W, kFirst>(in, 1);
    if constexpr (kSecond < W::kAlpha) out[1] = input_term<W, kSecond>(in, 1);
  }
}

/// out = B^T in
template <class W>
MEGACONV_INLINE void input_1d(const Vec (&in)[W::kAlpha], Vec (&out)[W::kAlpha]) {
  unroll<kInputGroups<W>>([&](auto group) __attribute__((always_inline)) {
    Vec rows[2];
    input_rows<W, group>(in, rows);
    unroll<2>([&](auto i) __attribute__((always_inline)) {
      if constexpr (input_row<W>(group, i) < W::kAlpha) out[input_row<W>(group, i)] = rows[i];
    });
  });
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

/// Calls body(Edge<W, outputs>{}), or body(W{}) where all tiles have as many outputs.
template <class W, int kOutputs = W::kM - 1, class Body>
MEGACONV_INLINE void with_outputs(Size outputs, const Body& body) {
  if constexpr (kOutputs == 0 || !W::kHasEdges) {
    body(W{});
  } else {
    if (outputs == kOutputs) return body(Edge<W, kOutputs>{});
    with_outputs<W, kOutputs - 1>(outputs, body);
  }
}

/// Calls body(H{}, W{}) with the algorithms of columns and rows.
template <class Body>
MEGACONV_INLINE void with_winograd(const WinogradTiles& tiles, const Body& body) {
  const auto square = [&](auto winograd) __attribute__((always_inline)) {
    body(winograd, winograd);
  };
  if (tiles.stride == 2) {
    return tiles.m == 2 ? square(StridedWinograd<2>{}) : square(StridedWinograd<4>{});
  }
  const bool integer = tiles.points == Points::integer;
  switch (tiles.m) {
    case 2:
      return square(Winograd<2, Points::low_error>{});
    case 4:
      if (integer) return square(Winograd<4, Points::integer>{});
      return square(Winograd<4, Points::low_error>{});
    case 6:
      return square(Winograd<6, Points::low_error>{});
    default:
      if (integer) return body(Winograd<4, Points::integer>{}, Winograd<6, Points::low_error>{});
      return body(Winograd<4, Points::low_error>{}, Winograd<6, Points::low_error>{});
  }
}

}  // namespace megaconv::cpu::MEGACONV_ISA
