// SPDX-License-Identifier: Apache-2.0
// Floats between convolutions of a network, stored as pairs of FP16 numbers: x = high + rest /
// 2^11, 22 bits. In each row of an image first the high ones of all its numbers, then all rests: as
// many bytes as floats. As a factor a number is its high one, which needs no conversion then.
//
// Numbers that FP16 has not, since one is too large or the whole tile is too small, are wide, four
// of a pixel at least: high is a NaN, whose low nine bits continue those of rest, which is BF16
// then. 17 bits, the last one set if what is behind it is not zero: rounding these to 11 bits
// rounds the number.
#pragma once

#include <cstdint>
#include <cstring>

#include "tasks/cuda/vec.cuh"
#include "tasks/small_gemm/cuda/products.cuh"

namespace megaconv::cuda {

/// The number in the lower half of a word.
__device__ inline bool is_wide(std::uint32_t high) { return (high & 0x7fffu) > kInfiniteHalf; }

__device__ inline float number_of_half(std::uint32_t bits) {
  const auto half_bits = static_cast<std::uint16_t>(bits);
  __half half;
  memcpy(&half, &half_bits, sizeof half);
  return static_cast<float>(half);
}

__device__ inline float wide_number(std::uint32_t high, std::uint32_t rest) {
  return __uint_as_float((rest & 0xffffu) << 16 | (high & 0x1ffu) << 7);
}

/// A number as a wide pair.
struct WidePair {
  std::uint16_t high, rest;

  explicit __device__ WidePair(float number) {
    const std::uint32_t bits = __float_as_uint(number);
    const std::uint32_t behind = (bits & 0x7fu) != 0 ? 1 : 0;
    high = static_cast<std::uint16_t>(0x7e00u | (bits >> 7 & 0x1ffu) | behind);
    rest = static_cast<std::uint16_t>(bits >> 16);
  }
};

/// Two numbers a word.
template <int kNumbers>
struct StoredPairs {
  std::uint32_t high[kNumbers / 2], rest[kNumbers / 2];

  __device__ Vec<kNumbers> numbers() const {
    Vec<kNumbers> numbers;
#pragma unroll
    for (int i = 0; i < kNumbers; i += 2) {
      const float2 highs = halves_of(high[i / 2]), rests = halves_of(rest[i / 2]);
      numbers.lane[i] = fmaf(rests.x, 0x1p-11f, highs.x);
      numbers.lane[i + 1] = fmaf(rests.y, 0x1p-11f, highs.y);
    }
    if (is_wide(high[0])) [[unlikely]] {
#pragma unroll
      for (int i = 0; i < kNumbers; ++i) {
        const int shift = i % 2 * 16;
        numbers.lane[i] = wide_number(high[i / 2] >> shift, rest[i / 2] >> shift);
      }
    }
    return numbers;
  }

 private:
  static __device__ float2 halves_of(std::uint32_t word) {
    __half2 halves;
    memcpy(&halves, &word, sizeof halves);
    return __half22float2(halves);
  }
};

/// Numbers as pairs, and what is to be known of all of them.
class ToStoredPairs {
 public:
  /// `with_rests`: else those are left out.
  template <int kNumbers>
  __device__ StoredPairs<kNumbers> convert(const Vec<kNumbers>& numbers, bool with_rests) {
    StoredPairs<kNumbers> pairs;
    __half2 halves[kNumbers / 2];
#pragma unroll
    for (int i = 0; i < kNumbers / 2; ++i) {
      const float first = numbers.lane[2 * i], second = numbers.lane[2 * i + 1];
      halves[i] = __floats2half2_rn(first, second);
      memcpy(&pairs.high[i], &halves[i], sizeof halves[i]);
      most_ = __hmax2_nan(most_, __habs2(halves[i]));
      bits_ |= __float_as_uint(first) | __float_as_uint(second);
    }
    if (!with_rests) return pairs;
#pragma unroll
    for (int i = 0; i < kNumbers / 2; ++i) {
      const float2 highs = __half22float2(halves[i]);
      const __half2 rests = __floats2half2_rn((numbers.lane[2 * i] - highs.x) * 0x1p11f,
                                              (numbers.lane[2 * i + 1] - highs.y) * 0x1p11f);
      memcpy(&pairs.rest[i], &rests, sizeof rests);
    }
    return pairs;
  }
  /// Whether one is large enough for FP16 to have all bits that count beside it, or too large.
  __device__ bool has_large() const { return most() >= kLeastHalf; }
  __device__ bool has_too_large() const { return most() >= kInfiniteHalf; }
  __device__ bool has_any_but_zeros() const { return bits_ << 1 != 0; }

 private:
  __device__ std::uint32_t most() const {
    std::uint32_t bits;
    memcpy(&bits, &most_, sizeof bits);
    return max(bits >> 16, bits & 0xffffu);
  }

  __half2 most_ = __floats2half2_rn(0.0f, 0.0f);  // NaN if there is one
  std::uint32_t bits_ = 0;                        // those of all as FP32
};

}  // namespace megaconv::cuda
