// SPDX-License-Identifier: Apache-2.0
// From the numbers of a window to its largest one, or to their sum: row by row, and in a row from
// left to right.
#pragma once

#include <cstdint>

#include "tasks/cuda/vec.cuh"

namespace megaconv::cuda {

template <int kWidth, bool kMax>
__device__ inline Vec<kWidth> empty_pool() {
  constexpr std::uint32_t kMinusInfinity = 0xff800000u;
  Vec<kWidth> result;
#pragma unroll
  for (float& number : result.lane) number = kMax ? __uint_as_float(kMinusInfinity) : 0;
  return result;
}

/// A number once more leaves the largest one as it is, and -0 leaves any sum.
template <bool kMax, int kWidth>
__device__ inline void add_to_pool(Vec<kWidth>& result, const Vec<kWidth>& v, bool is_new) {
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    const float value = v.lane[j], so_far = result.lane[j];
    if constexpr (kMax) {  // a NaN stays; of equal numbers, the first
      result.lane[j] = value > so_far || value != value ? value : so_far;
    } else {
      result.lane[j] = so_far + (is_new ? value : -0.0f);
    }
  }
}

}  // namespace megaconv::cuda
