// SPDX-License-Identifier: Apache-2.0
// A few floats that travel together, and loops whose index is a compile-time constant.
#pragma once

#include <cstdint>
#include <utility>

namespace megaconv::cuda {

/// 1, 2 or 4 neighbouring numbers: one load or store of up to 16 bytes.
template <int kWidth, class Scalar = float>
struct alignas(kWidth * sizeof(Scalar)) Vec {
  Scalar lane[kWidth];
};

template <int kWidth, class Scalar = float>
__device__ inline Vec<kWidth, Scalar> zero() {
  Vec<kWidth, Scalar> result;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) result.lane[i] = static_cast<Scalar>(0.0f);
  return result;
}
template <int kWidth, class Scalar>
__device__ inline Vec<kWidth, Scalar> operator+(Vec<kWidth, Scalar> a, Vec<kWidth, Scalar> b) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) a.lane[i] += b.lane[i];
  return a;
}
template <int kWidth, class Scalar>
__device__ inline Vec<kWidth, Scalar> operator-(Vec<kWidth, Scalar> a, Vec<kWidth, Scalar> b) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) a.lane[i] -= b.lane[i];
  return a;
}
template <int kWidth, class Scalar>
__device__ inline Vec<kWidth, Scalar> operator*(Vec<kWidth, Scalar> a, Vec<kWidth, Scalar> b) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) a.lane[i] *= b.lane[i];
  return a;
}
/// sum + scale * a
template <int kWidth, class Scalar>
__device__ inline Vec<kWidth, Scalar> multiply_add(Scalar scale, Vec<kWidth, Scalar> a,
                                                   Vec<kWidth, Scalar> sum) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sum.lane[i] = fma(scale, a.lane[i], sum.lane[i]);
  return sum;
}

/// Numbers of a storage type, as they are and as floats.
template <int kWidth, class Stored>
__device__ inline Vec<kWidth, Stored> load_stored(const Stored* pointer) {
  return *reinterpret_cast<const Vec<kWidth, Stored>*>(pointer);
}
template <int kWidth, class Stored>
__device__ inline Vec<kWidth> to_floats(Vec<kWidth, Stored> stored) {
  Vec<kWidth> value;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) value.lane[i] = static_cast<float>(stored.lane[i]);
  return value;
}
template <int kWidth, class Stored>
__device__ inline Vec<kWidth> load(const Stored* pointer) {
  return to_floats(load_stored<kWidth>(pointer));
}
template <int kWidth, class Stored>
__device__ inline void store(Stored* pointer, Vec<kWidth> value) {
  Vec<kWidth, Stored> stored;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) stored.lane[i] = static_cast<Stored>(value.lane[i]);
  *reinterpret_cast<Vec<kWidth, Stored>*>(pointer) = stored;
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
