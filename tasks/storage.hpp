// SPDX-License-Identifier: Apache-2.0
// The storage types: how tensors hold their numbers, for code that takes every type and need not
// be fast. Arithmetic is in float or double; numbers are converted where they are read and written.
//
//   f32   1 sign, 8 exponent, 23 fraction bits   IEEE 754 binary32
//   f16   1, 5, 10                               IEEE 754 binary16, up to 65504
//   bf16  1, 8, 7                                the upper half of binary32
//   i8    two's complement                       -128 to 127
#pragma once

#include <bit>
#include <cstdint>

#include "megaconv/problem.hpp"

namespace megaconv {

struct Float16 {
  std::uint16_t bits;
};
struct Bfloat16 {
  std::uint16_t bits;
};
struct Int8 {
  std::uint8_t bits;
};

/// Of scale and bias beside tensors of T: ConvProblem::vector_type().
template <class T>
struct VectorStorage {
  using Type = T;
};
template <>
struct VectorStorage<Int8> {
  using Type = float;
};

constexpr float to_float(float value) { return value; }
constexpr float to_float(Bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
constexpr float to_float(Int8 value) { return static_cast<std::int8_t>(value.bits); }
/// The exponent's bias differs by 112: the product gives it to numbers, denormal ones too, while
/// infinities and NaN get the largest exponent.
constexpr float to_float(Float16 value) {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(value.bits & 0x7fffu) << 13;
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t bits =
      magnitude >= 0x7c00u << 13
          ? magnitude | 0x7f800000u
          : std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  return std::bit_cast<float>(sign | bits);
}

/// Rounds to nearest, ties to even; what is too large becomes infinite, NaN stays NaN. Int8 has
/// neither: it saturates, and NaN becomes -128.
template <class T>
constexpr T from_float(float value);

template <>
constexpr float from_float<float>(float value) {
  return value;
}
template <>
constexpr Bfloat16 from_float<Bfloat16>(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded =
      value != value ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
  return {static_cast<std::uint16_t>(rounded >> 16)};
}
template <>
constexpr Float16 from_float<Float16>(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {  // NaN: made quiet
    half = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  } else if (magnitude >= 0x47800000u) {  // 65536
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // 2^-14: 1/2 has the denormal numbers' last place
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    half = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  }
  return {static_cast<std::uint16_t>(sign | half)};
}

/// The last place of the sum with 1.5 * 2^23 is 1.
template <>
constexpr Int8 from_float<Int8>(float value) {
  const float raised = value > -128 ? value : -128;
  const float inside = raised < 127 ? raised : 127;
  return {static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(inside + 0x1.8p23f) & 0xffu)};
}

/// Calls body with a value of the type that `dtype` names.
template <class Body>
constexpr decltype(auto) with_storage(DataType dtype, const Body& body) {
  switch (dtype) {
    case DataType::f16:
      return body(Float16{});
    case DataType::bf16:
      return body(Bfloat16{});
    case DataType::i8:
      return body(Int8{});
    default:
      return body(float{});
  }
}

/// u: rounding a number of normal size changes it by no more than this share.
constexpr double unit_roundoff(DataType dtype) {
  switch (dtype) {
    case DataType::f16:
      return 0x1p-11;
    case DataType::bf16:
      return 0x1p-8;
    case DataType::i8:
      return 0x1p-1;
    default:
      return 0x1p-24;
  }
}

/// Rounding a number smaller than this changes it by no more than u times this.
constexpr double least_normal(DataType dtype) {
  return dtype == DataType::i8 ? 1 : dtype == DataType::f16 ? 0x1p-14 : 0x1p-126;
}

}  // namespace megaconv
