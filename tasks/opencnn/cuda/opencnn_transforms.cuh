// SPDX-License-Identifier: Apache-2.0
// The one-dimensional transforms of F(2,3), written out: between two runs of FFMA every instruction
// counts, and these are the fewest. Points 0, 1, -1; proven below to be winograd_matrices<2>().
#pragma once

#include "tasks/opencnn/opencnn_blocking.hpp"
#include "tasks/winograd/winograd_matrices.hpp"

namespace megaconv::cuda::opencnn {

using namespace megaconv::opencnn;  // the blocking, which the host knows too

/// B^T d
template <class Scalar>
__host__ __device__ constexpr void input_transform_1d(const Scalar (&d)[4], Scalar (&out)[4]) {
  out[0] = d[2] - d[0];
  out[1] = d[2] + d[1];
  out[2] = d[2] - d[1];
  out[3] = d[3] - d[1];
}

/// A^T m
template <class Scalar>
__host__ __device__ constexpr void output_transform_1d(const Scalar (&m)[4], Scalar (&out)[2]) {
  out[0] = m[0] + (m[1] + m[2]);
  out[1] = (m[1] - m[2]) + m[3];
}

/// G g
template <class Scalar>
__host__ __device__ constexpr void filter_transform_1d(const Scalar (&g)[3], Scalar (&out)[4]) {
  constexpr Scalar half = Scalar(0.5);
  const Scalar even = half * (g[0] + g[2]), odd = half * g[1];
  out[0] = -g[0];
  out[1] = even + odd;
  out[2] = even - odd;
  out[3] = g[2];
}

/// True when transform(e_i) is column i of `matrix` for every unit vector e_i. (All values are
/// halves of small integers, so double is exact.)
template <int kRows, int kColumns>
constexpr bool is_product_with(const Rational (&matrix)[kRows][kColumns],
                               void (&transform)(const double (&)[kColumns], double (&)[kRows])) {
  for (int i = 0; i < kColumns; ++i) {
    double unit[kColumns] = {}, column[kRows] = {};
    unit[i] = 1;
    transform(unit, column);
    for (int j = 0; j < kRows; ++j) {
      if (column[j] != static_cast<double>(matrix[j][i])) return false;
    }
  }
  return true;
}
inline constexpr WinogradMatrices<2> kMatrices = winograd_matrices<2>(Points::low_error);
static_assert(is_product_with(kMatrices.bt, input_transform_1d<double>));
static_assert(is_product_with(kMatrices.at, output_transform_1d<double>));
static_assert(is_product_with(kMatrices.g, filter_transform_1d<double>));

}  // namespace megaconv::cuda::opencnn
