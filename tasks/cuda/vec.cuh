// SPDX-License-Identifier: Apache-2.0
// A few floats that travel together, and loops whose index is a compile-time constant.
#pragma once

#include <cstdint>
#include <utility>

namespace megaconv::cuda {

/// 1, 2 or 4 neighbouring floats: one load or store of up to 16 bytes.
template <int kWidth>
struct alignas(kWidth * sizeof(float)) Vec {
  float lane[kWidth];
};

template <int kWidth>
__device__ inline Vec<kWidth> zero() {
  Vec<kWidth> result;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) result.lane[i] = 0.0f;
  return result;
}
template <int kWidth>
__device__ inline Vec<kWidth> operator+(Vec<kWidth> a, Vec<kWidth> b) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) a.lane[i] += b.lane[i];
  return a;
}
template <int kWidth>
__device__ inline Vec<kWidth> operator-(Vec<kWidth> a, Vec<kWidth> b) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) a.lane[i] -= b.lane[i];
  return a;
}
/// sum + scale * a
template <int kWidth>
__device__ inline Vec<kWidth> multiply_add(float scale, Vec<kWidth> a, Vec<kWidth> sum) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sum.lane[i] = fmaf(scale, a.lane[i], sum.lane[i]);
  return sum;
}

template <int kWidth>
__device__ inline Vec<kWidth> load(const float* pointer) {
  return *reinterpret_cast<const Vec<kWidth>*>(pointer);
}
template <int kWidth>
__device__ inline void store(float* pointer, Vec<kWidth> value) {
  *reinterpret_cast<Vec<kWidth>*>(pointer) = value;
}

/// Calls body(std::integral_constant<int, 0>{}), ... with every index below kCount.
template <int kCount, class Body>
__device__ inline void unroll(Body&& body) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    (body(std::integral_constant<int, kIndex>{}), ...);
  }
  (std::make_integer_sequence<int, kCount>{});
}

}  // namespace megaconv::cuda
