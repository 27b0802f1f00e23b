// SPDX-License-Identifier: Apache-2.0
// The matrices A^T, G and B^T of F(m, 3), exact, from their interpolation points.
//
//   y = A^T [ (G g) .* (B^T d) ]        d: m + 2 inputs, g: 3 taps, y: m outputs
//
// Toom-Cook over the finite points a_0 .. a_{n-2} and infinity, transposed (Winograd 1980; Blahut,
// "Fast Algorithms for Signal Processing", chapter 5; the same construction as Lavin's wincnn):
//
//   A^T[i][j] = a_j^i                                   infinity: 1 in the last row
//   G[j][i]   = a_j^i / prod_{l != j} (a_j - a_l)       infinity: 1 in the last column
//   B^T[j]    = coefficients of prod_{l != j} (x - a_l) infinity: of prod_l (x - a_l)
//
// All denominators of the Lagrange polynomials stand in G, so B^T and A^T are integer when the
// points are: Lavin and Gray's matrices (arXiv:1509.09308), up to signs that cancel, with G in 1/2
// for F(2,3) and in 1/24 for F(4,3). Integer weights that are multiples of 4 and 576 then make a
// two-dimensional convolution exact in floating point.
//
// Points come as 0, +a, -a, +b, -b, ...: rows 2i+1 and 2i+2 of G and B^T, and the same columns of
// A^T, differ only in the signs of their odd powers. winograd_terms() splits them there.
#pragma once

#include <cstdint>

#include "megaconv/lowering.hpp"

namespace megaconv {

/// A fraction in lowest terms with a positive denominator.
struct Rational {
  std::int64_t num = 0;
  std::int64_t den = 1;

  constexpr Rational(std::int64_t numerator = 0, std::int64_t denominator = 1)
      : num(numerator), den(denominator) {
    std::int64_t a = num < 0 ? -num : num, b = den < 0 ? -den : den;
    while (b != 0) {
      const std::int64_t rest = a % b;
      a = b;
      b = rest;
    }
    if (den < 0) a = -a;
    num /= a;
    den /= a;
  }
  constexpr explicit operator double() const {
    return static_cast<double>(num) / static_cast<double>(den);
  }
  constexpr bool operator==(const Rational&) const = default;
};
constexpr Rational operator+(Rational a, Rational b) {
  return {a.num * b.den + b.num * a.den, a.den * b.den};
}
constexpr Rational operator-(Rational a, Rational b) {
  return {a.num * b.den - b.num * a.den, a.den * b.den};
}
constexpr Rational operator*(Rational a, Rational b) { return {a.num * b.num, a.den * b.den}; }
constexpr Rational operator/(Rational a, Rational b) { return {a.num * b.den, a.den * b.num}; }

/// Filter rows and columns of every F(m x m, r x r) here.
inline constexpr int kWinogradR = 3;

/// The matrices of F(m, 3); `Scalar` is Rational, double or float.
template <int kM, class Scalar = Rational>
struct WinogradMatrices {
  static constexpr int kAlpha = kM + kWinogradR - 1;
  Scalar at[kM][kAlpha];         ///< A^T
  Scalar g[kAlpha][kWinogradR];  ///< G
  Scalar bt[kAlpha][kAlpha];     ///< B^T
};

/// Finite interpolation points of F(m, 3); see Points.
template <int kM>
struct InterpolationPoints {
  static_assert(kM == 2 || kM == 4 || kM == 6);
  static constexpr int kCount = kM + kWinogradR - 2;
  Rational value[kCount];
};
template <int kM>
constexpr InterpolationPoints<kM> interpolation_points(Points points) {
  if constexpr (kM == 2) {
    return {{{0}, {1}, {-1}}};
  } else if constexpr (kM == 4) {
    if (points == Points::low_error) return {{{0}, {5, 8}, {-5, 8}, {3, 2}, {-3, 2}}};
    return {{{0}, {1}, {-1}, {2}, {-2}}};
  } else {
    return {{{0}, {1, 2}, {-1, 2}, {1}, {-1}, {2}, {-2}}};
  }
}

/// A^T, G and B^T of F(m, 3).
template <int kM>
constexpr WinogradMatrices<kM> winograd_matrices(Points points) {
  using Matrices = WinogradMatrices<kM>;
  constexpr int kLast = Matrices::kAlpha - 1;
  const InterpolationPoints<kM> a = interpolation_points<kM>(points);
  Matrices result;
  for (int j = 0; j <= kLast; ++j) {
    // Row j of B^T: multiply (x - a_l) for every finite point but the j-th.
    Rational polynomial[Matrices::kAlpha];
    polynomial[0] = 1;
    Rational scale = 1;
    for (int l = 0; l < kLast; ++l) {
      if (l == j) continue;
      for (int i = kLast; i >= 0; --i) {
        polynomial[i] = (i > 0 ? polynomial[i - 1] : Rational(0)) - a.value[l] * polynomial[i];
      }
      if (j < kLast) scale = scale * (a.value[j] - a.value[l]);
    }
    for (int i = 0; i <= kLast; ++i) result.bt[j][i] = polynomial[i];

    Rational power = 1;
    for (int i = 0; i < kM || i < kWinogradR; ++i) {
      if (i < kM) result.at[i][j] = j < kLast ? power : Rational(i == kM - 1);
      if (i < kWinogradR) {
        result.g[j][i] = j < kLast ? power / scale : Rational(i == kWinogradR - 1);
      }
      if (j < kLast) power = power * a.value[j];
    }
  }
  return result;
}

/// The matrices of F(m, 3) under stride 2. Of an output's three taps the outer ones meet even
/// inputs and are F(m, 2) of these; the middle one meets odd inputs. 2 m + 1 products in place of 3
/// m.
template <int kOutputs, class Scalar = Rational>
struct StridedMatrices {
  static constexpr int kM = kOutputs, kAlpha = 2 * kM + 1;
  Scalar at[kM][kAlpha];
  Scalar g[kAlpha][kWinogradR];
  Scalar bt[kAlpha][kAlpha];
};

/// Finite points of F(m, 2). m = 2: 0 and 1, which only add. m = 4: relative L2 error of 32 and 128
/// channels 2.5e-7 and 4.4e-7; 0, +-1, 2: 5.4e-7 and 1.0e-6; F(2, 3) under stride 2 1.9e-7 and
/// 3.9e-7.
template <int kM>
constexpr auto strided_points() {
  static_assert(kM == 2 || kM == 4);
  struct {
    Rational value[kM];
  } points;
  if constexpr (kM == 2) {
    points = {{{0}, {1}}};
  } else {
    points = {{{3, 8}, {-3, 8}, {5, 4}, {-5, 4}}};
  }
  return points;
}

/// Rows: infinity and the finite points of F(m, 2), then the odd inputs. Their signs are such that
/// no first number of G is negative, so that rows of +a and -a differ only in the signs of some
/// numbers.
template <int kM>
constexpr StridedMatrices<kM> strided_matrices() {
  StridedMatrices<kM> result;
  for (int j = 0; j < result.kAlpha; ++j) {
    const int odd = j - kM - 1;  // input, if there is one
    for (int i = 0; i < result.kAlpha; ++i) {
      result.bt[j][i] = Rational(odd >= 0 && i == 2 * odd + 1);
      if (i < kWinogradR) result.g[j][i] = Rational(odd >= 0 && i == 1);
      if (i < kM) result.at[i][j] = Rational(i == odd);
    }
  }
  const auto points = strided_points<kM>();
  for (int j = 0; j <= kM; ++j) {
    const int skipped = j - 1;  // none at infinity
    Rational polynomial[kM + 1];
    polynomial[0] = 1;
    Rational scale = 1;
    for (int l = 0; l < kM; ++l) {
      if (l == skipped) continue;
      for (int i = kM; i >= 0; --i) {
        polynomial[i] = (i > 0 ? polynomial[i - 1] : Rational(0)) - points.value[l] * polynomial[i];
      }
      if (j > 0) scale = scale * (points.value[skipped] - points.value[l]);
    }
    const Rational sign = scale.num < 0 ? -1 : 1;
    for (int i = 0; i <= kM; ++i) result.bt[j][2 * i] = sign * polynomial[i];
    Rational power = 1;
    for (int i = 0; i < kM; ++i) {
      result.at[i][j] = j > 0 ? power : Rational(i == kM - 1);
      if (j > 0) power = power * points.value[skipped];
    }
    result.g[j][0] = j > 0 ? sign / scale : Rational(0);
    result.g[j][2] = j > 0 ? sign * points.value[skipped] / scale : Rational(1);
  }
  return result;
}

/// Outputs of an edge tile, which is the last of a line where kM does not divide the line: their
/// matrices need kOutputs + 2 of the positions of F(kM, 3), and so the same G.
template <int kOutputs>
struct EdgeMatrices {
  static constexpr int kAlpha = kOutputs + kWinogradR - 1;
  int position[kAlpha];
  double at[kOutputs][kAlpha];
  double bt[kAlpha][kAlpha];
};

/// Which points have them.
constexpr bool has_edge_tiles(Points points) { return points == Points::low_error; }

/// Points are kept in pairs: an odd number of outputs leaves out 0. G has the denominators of all
/// points, so row j of B^T is multiplied by a_j - a_l for every point that is left out.
///
/// Relative L2 error of 256 channels, F(4, 3), points of low error: 1.4e-6; of 3 outputs 1.1e-6,
/// of 2 9e-7, of 1 4e-7. With integer points 3 outputs err by more than 4 do: 4.0e-6, 3.1e-6.
/// F(4 x 6) of 64 channels: 1.2e-6; of 5 columns 1.1e-6, 4 9e-7, 3 5e-7, 2 6e-7, 1 3e-7.
template <int kM, int kOutputs>
constexpr EdgeMatrices<kOutputs> edge_matrices(Points points) {
  static_assert(kOutputs < kM);
  using Matrices = EdgeMatrices<kOutputs>;
  constexpr int kPoints = Matrices::kAlpha - 1, kFirst = kOutputs % 2;
  const InterpolationPoints<kM> a = interpolation_points<kM>(points);
  Matrices result{};
  for (int j = 0; j <= kPoints; ++j) {
    result.position[j] = j < kPoints ? kFirst + j : kM + kWinogradR - 2;
    Rational polynomial[Matrices::kAlpha];
    polynomial[0] = 1;
    for (int l = 0; l < InterpolationPoints<kM>::kCount; ++l) {
      const bool kept = l >= kFirst && l < kFirst + kPoints;
      if (l == kFirst + j || (!kept && j == kPoints)) continue;
      const Rational point = a.value[l];
      for (int i = kPoints; i >= 0; --i) {
        polynomial[i] = kept ? (i > 0 ? polynomial[i - 1] : Rational(0)) - point * polynomial[i]
                             : (a.value[kFirst + j] - point) * polynomial[i];
      }
    }
    Rational power = 1;
    for (int i = 0; i <= kPoints; ++i) {
      result.bt[j][i] = static_cast<double>(polynomial[i]);
      if (i >= kOutputs) continue;
      result.at[i][j] = j < kPoints ? static_cast<double>(power) : i == kOutputs - 1;
      if (j < kPoints) power = power * a.value[kFirst + j];
    }
  }
  return result;
}

/// One output of F(2, 3) under stride 2 meets two even inputs and an odd one: points 0 and
/// infinity.
constexpr EdgeMatrices<1> strided_edge_matrices() {
  return {{0, 1, 3}, {{1, 1, 1}}, {{0, 0, 1}, {1, 0, 0}, {0, 1, 0}}};
}

/// Least integer that makes all of G integer: 2 for F(2,3), 24 for F(4,3) with integer points.
/// 1/24 is not a floating-point number, so sums of its products need not cancel where they should;
/// scaling G by this number, and G g G^T by its square's inverse at the end, keeps zeros zero.
template <class Matrices>
constexpr std::int64_t g_denominator(const Matrices& exact) {
  std::int64_t common = 1;
  for (const auto& row : exact.g) {
    for (const Rational& value : row) common *= Rational(common, value.den).den;
  }
  return common;
}

template <int kM>
constexpr std::int64_t g_denominator(Points points) {
  return g_denominator(winograd_matrices<kM>(points));
}

/// The matrices with rows (columns of A^T) 2i+1 and 2i+2, of points +a and -a, replaced by half of
/// their sum and half of their difference, for so many pairs. With z = terms * d,
///   row 2i+1 of the product is z[2i+1] + z[2i+2], row 2i+2 is z[2i+1] - z[2i+2],
/// and A^T takes z[2i+1] = M[2i+1] + M[2i+2], z[2i+2] = M[2i+1] - M[2i+2]. About half the
/// coefficients are then zero, and no product is computed twice. G is multiplied by `g_scale`.
template <template <int, class> class Matrices, int kM>
constexpr Matrices<kM, double> split_pairs(const Matrices<kM, Rational>& exact, int pairs,
                                           Rational g_scale) {
  constexpr int kAlpha = Matrices<kM, Rational>::kAlpha;
  Matrices<kM, double> terms{};
  for (int j = 0; j < kAlpha; ++j) {
    const bool paired = j > 0 && j <= 2 * pairs;
    const int first = paired ? j - (j - 1) % 2 : j;
    const auto term = [&](Rational a, Rational b) {
      if (!paired) return static_cast<double>(a);
      return static_cast<double>((j == first ? a + b : a - b) / 2);
    };
    const int second = paired ? first + 1 : first;
    for (int i = 0; i < kAlpha; ++i) {
      terms.bt[j][i] = term(exact.bt[first][i], exact.bt[second][i]);
      if (i < kWinogradR) {
        terms.g[j][i] = term(g_scale * exact.g[first][i], g_scale * exact.g[second][i]);
      }
      if (i < kM) terms.at[i][j] = term(exact.at[i][first], exact.at[i][second]);
    }
  }
  return terms;
}
template <int kM>
constexpr WinogradMatrices<kM, double> winograd_terms(Points points, Rational g_scale = 1) {
  return split_pairs(winograd_matrices<kM>(points), kM / 2, g_scale);
}

}  // namespace megaconv
