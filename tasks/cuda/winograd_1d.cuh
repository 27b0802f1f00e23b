// SPDX-License-Identifier: Apache-2.0
// One-dimensional transforms of F(m, 3), unrolled from the exact matrices: zero coefficients cost
// nothing, and the rows of a pair of points +a, -a share their even and odd parts (winograd_terms).
#pragma once

#include "tasks/cuda/vec.cuh"
#include "tasks/winograd_matrices.hpp"

namespace megaconv::cuda {

template <int kM, Points kPoints>
struct Winograd1D {
  static constexpr int kAlpha = kM + kWinogradR - 1;
  static constexpr WinogradMatrices<kM, double> kTerms = winograd_terms<kM>(kPoints);

  /// out = B^T in; alpha values each.
  template <int kWidth>
  static __device__ void input(const Vec<kWidth> (&in)[kAlpha], Vec<kWidth> (&out)[kAlpha]) {
    unroll<kAlpha>([&](auto row) {
      out[row] = product<kAlpha, kWidth>(
          [](auto i) { return kTerms.bt[decltype(row)::value][decltype(i)::value]; }, in);
    });
    combine_pairs(out);
  }

  /// out = A^T in; alpha values in, m out. `in` is overwritten.
  template <int kWidth>
  static __device__ void output(Vec<kWidth> (&in)[kAlpha], Vec<kWidth> (&out)[kM]) {
    combine_pairs(in);
    unroll<kM>([&](auto row) {
      out[row] = product<kAlpha, kWidth>(
          [](auto i) { return kTerms.at[decltype(row)::value][decltype(i)::value]; }, in);
    });
  }

  /// out = G in; 3 values in, alpha out.
  template <int kWidth>
  static __device__ void filter(const Vec<kWidth> (&in)[kWinogradR], Vec<kWidth> (&out)[kAlpha]) {
    unroll<kAlpha>([&](auto row) {
      out[row] = product<kWinogradR, kWidth>(
          [](auto i) { return kTerms.g[decltype(row)::value][decltype(i)::value]; }, in);
    });
    combine_pairs(out);
  }

 private:
  // (even, odd) -> (even + odd, even - odd) for the rows of each pair of points.
  template <int kWidth>
  static __device__ void combine_pairs(Vec<kWidth> (&values)[kAlpha]) {
#pragma unroll
    for (int row = 1; row + 1 < kAlpha - 1; row += 2) {
      const Vec<kWidth> even = values[row], odd = values[row + 1];
      values[row] = even + odd;
      values[row + 1] = even - odd;
    }
  }

  // Sum of coefficient(i) * in[i] over the coefficients that are not zero.
  template <int kCount, int kWidth, class Coefficient>
  static __device__ Vec<kWidth> product(Coefficient, const Vec<kWidth> (&in)[kCount]) {
    Vec<kWidth> sum = zero<kWidth>();
    unroll<kCount>([&](auto i) {
      constexpr float kScale = static_cast<float>(Coefficient{}(i));
      if constexpr (kScale == 1.0f) {
        sum = sum + in[i];
      } else if constexpr (kScale != 0.0f) {
        sum = multiply_add(kScale, in[i], sum);
      }
    });
    return sum;
  }
};

}  // namespace megaconv::cuda
