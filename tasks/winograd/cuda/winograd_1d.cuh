// SPDX-License-Identifier: Apache-2.0
// One-dimensional transforms of F(m, 3), unrolled from the exact matrices: zero coefficients cost
// nothing, and the rows of a pair of points +a, -a share their even and odd parts (winograd_terms).
#pragma once

#include <type_traits>

#include "tasks/cuda/vec.cuh"
#include "tasks/winograd/winograd_matrices.hpp"

namespace megaconv::cuda {

template <int kM, Points kPoints>
struct Winograd1D {
  static constexpr int kAlpha = kM + kWinogradR - 1;
  static constexpr std::int64_t kGDenominator = g_denominator<kM>(kPoints);
  static constexpr WinogradMatrices<kM, double> kTerms = winograd_terms<kM>(kPoints, kGDenominator);
  /// What brings G g G^T back to scale.
  static constexpr double kGScale = static_cast<double>(Rational(1, kGDenominator* kGDenominator));

  /// out = B^T in; alpha values each. T is a Vec.
  template <class T>
  static __device__ void input(const T (&in)[kAlpha], T (&out)[kAlpha]) {
    unroll<kAlpha>([&](auto row) {
      out[row] = product<kAlpha, T>(
          [](auto i) { return kTerms.bt[decltype(row)::value][decltype(i)::value]; }, in);
    });
    combine_pairs(out);
  }

  /// out = A^T in; alpha values in, m out. `in` is overwritten.
  template <class T>
  static __device__ void output(T (&in)[kAlpha], T (&out)[kM]) {
    combine_pairs(in);
    unroll<kM>([&](auto row) {
      out[row] = product<kAlpha, T>(
          [](auto i) { return kTerms.at[decltype(row)::value][decltype(i)::value]; }, in);
    });
  }

  /// out = G in times kGDenominator, which makes all of G integer; 3 values in, alpha out.
  template <class T>
  static __device__ void filter(const T (&in)[kWinogradR], T (&out)[kAlpha]) {
    unroll<kAlpha>([&](auto row) {
      out[row] = product<kWinogradR, T>(
          [](auto i) { return kTerms.g[decltype(row)::value][decltype(i)::value]; }, in);
    });
    combine_pairs(out);
  }

 private:
  // (even, odd) -> (even + odd, even - odd) for the rows of each pair of points.
  template <class T>
  static __device__ void combine_pairs(T (&values)[kAlpha]) {
#pragma unroll
    for (int row = 1; row + 1 < kAlpha - 1; row += 2) {
      const T even = values[row], odd = values[row + 1];
      values[row] = even + odd;
      values[row + 1] = even - odd;
    }
  }

  // Sum of coefficient(i) * in[i] over the coefficients that are not zero.
  template <int kCount, class T, class Coefficient>
  static __device__ T product(Coefficient, const T (&in)[kCount]) {
    using Scalar = std::remove_cvref_t<decltype(in[0].lane[0])>;
    T sum = {};
    unroll<kCount>([&](auto i) {
      constexpr double kScale = Coefficient{}(i);
      if constexpr (kScale == 1) {
        sum = sum + in[i];
      } else if constexpr (kScale != 0) {
        sum = multiply_add(static_cast<Scalar>(kScale), in[i], sum);
      }
    });
    return sum;
  }
};

}  // namespace megaconv::cuda
