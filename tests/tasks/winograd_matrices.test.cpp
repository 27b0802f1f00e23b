// SPDX-License-Identifier: Apache-2.0
#include "tasks/winograd/winograd_matrices.hpp"

#include <cmath>

#include "tests/catch.hpp"

namespace megaconv {
namespace {

// A^T [(G g) .* (B^T d)] is the correlation of d with g for every g and d exactly when, for all
// i, k, l:   sum_j A^T[i][j] G[j][k] B^T[j][l] = 1 where l = i + k, else 0.
// The two-dimensional algorithm is this one applied to rows, then to columns.
template <int kM>
constexpr bool is_correlation(Points points) {
  const WinogradMatrices<kM> f = winograd_matrices<kM>(points);
  for (int i = 0; i < kM; ++i) {
    for (int k = 0; k < kWinogradR; ++k) {
      for (int l = 0; l < f.kAlpha; ++l) {
        Rational sum = 0;
        for (int j = 0; j < f.kAlpha; ++j) sum = sum + f.at[i][j] * f.g[j][k] * f.bt[j][l];
        if (sum != Rational(l == i + k)) return false;
      }
    }
  }
  return true;
}
static_assert(is_correlation<2>(Points::low_error) && is_correlation<2>(Points::integer));
static_assert(is_correlation<4>(Points::low_error) && is_correlation<4>(Points::integer));
static_assert(is_correlation<6>(Points::low_error) && is_correlation<6>(Points::integer));

// Edge tiles, whose matrices are binary fractions, with the G of whole tiles.
template <int kM, int kOutputs>
constexpr bool is_edge_correlation(Points points) {
  const WinogradMatrices<kM> f = winograd_matrices<kM>(points);
  const EdgeMatrices<kOutputs> edge = edge_matrices<kM, kOutputs>(points);
  const auto exact = [](double value) {
    constexpr std::int64_t kDenominator = 1 << 20;
    return Rational(static_cast<std::int64_t>(value * kDenominator), kDenominator);
  };
  for (int i = 0; i < kOutputs; ++i) {
    for (int k = 0; k < kWinogradR; ++k) {
      for (int l = 0; l < edge.kAlpha; ++l) {
        Rational sum = 0;
        for (int j = 0; j < edge.kAlpha; ++j) {
          sum = sum + exact(edge.at[i][j]) * f.g[edge.position[j]][k] * exact(edge.bt[j][l]);
        }
        if (sum != Rational(l == i + k)) return false;
      }
    }
  }
  return true;
}
static_assert(is_edge_correlation<2, 1>(Points::low_error));
static_assert(is_edge_correlation<4, 1>(Points::low_error));
static_assert(is_edge_correlation<4, 2>(Points::low_error));
static_assert(is_edge_correlation<4, 3>(Points::low_error));
static_assert(is_edge_correlation<6, 1>(Points::low_error));
static_assert(is_edge_correlation<6, 2>(Points::low_error));
static_assert(is_edge_correlation<6, 3>(Points::low_error));
static_assert(is_edge_correlation<6, 4>(Points::low_error));
static_assert(is_edge_correlation<6, 5>(Points::low_error));

// Under stride 2: 1 where l = 2 i + k.
template <int kM>
constexpr bool is_strided_correlation() {
  const StridedMatrices<kM> f = strided_matrices<kM>();
  for (int i = 0; i < f.kM; ++i) {
    for (int k = 0; k < kWinogradR; ++k) {
      for (int l = 0; l < f.kAlpha; ++l) {
        Rational sum = 0;
        for (int j = 0; j < f.kAlpha; ++j) sum = sum + f.at[i][j] * f.g[j][k] * f.bt[j][l];
        if (sum != Rational(l == 2 * i + k)) return false;
      }
    }
  }
  return true;
}
static_assert(is_strided_correlation<2>());
static_assert(is_strided_correlation<4>());

// One output of it: 1 where l = k.
constexpr bool is_strided_edge_correlation() {
  const StridedMatrices<2> f = strided_matrices<2>();
  const EdgeMatrices<1> edge = strided_edge_matrices();
  for (int k = 0; k < kWinogradR; ++k) {
    for (int l = 0; l < edge.kAlpha; ++l) {
      double sum = 0;
      for (int j = 0; j < edge.kAlpha; ++j) {
        sum += edge.at[0][j] * static_cast<double>(f.g[edge.position[j]][k]) * edge.bt[j][l];
      }
      if (sum != (l == k ? 1 : 0)) return false;
    }
  }
  return true;
}
static_assert(is_strided_edge_correlation());

// The terms, put together as their comment says, are the matrices again.
template <template <int, class> class Matrices, int kM>
bool terms_rebuild_matrices(const Matrices<kM, Rational>& exact, int pairs) {
  const Matrices<kM, double> terms = split_pairs(exact, pairs, 1);
  bool same = true;
  for (int j = 0; j < exact.kAlpha; ++j) {
    const bool paired = j > 0 && j <= 2 * pairs;
    const int even = paired ? j - (j - 1) % 2 : j;
    const double sign = paired && j != even ? -1 : 1;
    for (int i = 0; i < exact.kAlpha; ++i) {
      const auto rebuilt = [&](auto term) {
        return paired ? term(even) + sign * term(even + 1) : term(j);
      };
      same &=
          rebuilt([&](int row) { return terms.bt[row][i]; }) == static_cast<double>(exact.bt[j][i]);
      if (i < kWinogradR) {
        same &=
            rebuilt([&](int row) { return terms.g[row][i]; }) == static_cast<double>(exact.g[j][i]);
      }
      if (i < kM) {
        same &= rebuilt([&](int col) { return terms.at[i][col]; }) ==
                static_cast<double>(exact.at[i][j]);
      }
    }
  }
  return same;
}

TEST_CASE("even and odd terms rebuild the Winograd matrices exactly") {
  for (const Points points : {Points::low_error, Points::integer}) {
    CHECK(terms_rebuild_matrices(winograd_matrices<2>(points), 1));
    CHECK(terms_rebuild_matrices(winograd_matrices<4>(points), 2));
    CHECK(terms_rebuild_matrices(winograd_matrices<6>(points), 3));
  }
  CHECK(terms_rebuild_matrices(strided_matrices<2>(), 0));
  CHECK(terms_rebuild_matrices(strided_matrices<4>(), 2));
}

TEST_CASE("F(4,3) with integer points has Lavin and Gray's matrices") {
  const WinogradMatrices<4> f = winograd_matrices<4>(Points::integer);
  constexpr int kBt[6][6] = {{4, 0, -5, 0, 1, 0},  {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0},
                             {0, -2, -1, 2, 1, 0}, {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}};
  constexpr int kAt[4][6] = {
      {1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}};
  constexpr int kG24[6][3] = {{6, 0, 0}, {-4, -4, -4}, {-4, 4, -4},
                              {1, 2, 4}, {1, -2, 4},   {0, 0, 24}};
  for (int j = 0; j < 6; ++j) {
    for (int i = 0; i < 6; ++i) CHECK(f.bt[j][i] == Rational(kBt[j][i]));
    for (int i = 0; i < 4; ++i) CHECK(f.at[i][j] == Rational(kAt[i][j]));
    for (int i = 0; i < 3; ++i) CHECK(f.g[j][i] == Rational(kG24[j][i], 24));
  }
}

TEST_CASE("weights that are multiples of 4 and 576 make F(2,3) and F(4,3) integer") {
  CHECK(g_denominator<2>(Points::integer) == 2);  // squared in G g G^T
  CHECK(g_denominator<4>(Points::integer) == 24);
  for (const Points points : {Points::low_error, Points::integer}) {
    const std::int64_t scale = g_denominator<6>(points);
    for (const auto& row : winograd_terms<6>(points, scale).g) {
      for (const double value : row) CHECK(value == std::trunc(value));
    }
  }
}

}  // namespace
}  // namespace megaconv
