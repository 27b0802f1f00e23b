// SPDX-License-Identifier: Apache-2.0
// A few floats that travel together, and loops whose index is a compile-time constant.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
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
template <class Stored, int kWidth>
__device__ inline Vec<kWidth, Stored> to_stored(Vec<kWidth> value) {
  Vec<kWidth, Stored> stored;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) stored.lane[i] = static_cast<Stored>(value.lane[i]);
  return stored;
}
template <int kWidth, class Stored>
__device__ inline Vec<kWidth> load(const Stored* pointer) {
  return to_floats(load_stored<kWidth>(pointer));
}
template <int kWidth, class Stored>
__device__ inline void store(Stored* pointer, Vec<kWidth> value) {
  *reinterpret_cast<Vec<kWidth, Stored>*>(pointer) = to_stored<Stored>(value);
}

/// The same bytes in words. Of narrow numbers the compiler chooses and stores one by one.
template <int kBytes>
struct WordsOf;
template <>
struct WordsOf<2> {
  using Type = unsigned short;
};
template <>
struct WordsOf<4> {
  using Type = unsigned;
};
template <>
struct WordsOf<8> {
  using Type = uint2;
};
template <>
struct WordsOf<16> {
  using Type = uint4;
};
/// What there is; zeros if it does not exist.
template <int kWidth, class Stored>
__device__ inline Vec<kWidth, Stored> load_if(bool exists, const Stored* pointer) {
  using Words = typename WordsOf<sizeof(Vec<kWidth, Stored>)>::Type;
  Words words = {};
  if (exists) words = *reinterpret_cast<const Words*>(pointer);
  Vec<kWidth, Stored> loaded;
  std::memcpy(&loaded, &words, sizeof(loaded));
  return loaded;
}
/// To global memory, if there is a place for it.
template <int kWidth, class Stored>
__device__ inline void store_if(bool exists, Stored* pointer, Vec<kWidth> value) {
  const Vec<kWidth, Stored> stored = to_stored<Stored>(value);
  typename WordsOf<sizeof(stored)>::Type words;
  std::memcpy(&words, &stored, sizeof(words));
  if (exists) __stwb(reinterpret_cast<decltype(words)*>(pointer), words);
}

/// Calls body(std::integral_constant<int, 0>{}), ... with every index below kCount.
template <int kCount, class Body>
__device__ inline void unroll(Body&& body) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    (body(std::integral_constant<int, kIndex>{}), ...);
  }
  (std::make_integer_sequence<int, kCount>{});
}

/// Whether a Vector may lie wherever these point, or they point nowhere.
template <class Vector, class... T>
__device__ inline bool are_aligned(const T*... pointers) {
  return (... | reinterpret_cast<std::uintptr_t>(pointers)) % sizeof(Vector) == 0;
}

}  // namespace megaconv::cuda
