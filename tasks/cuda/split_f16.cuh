// SPDX-License-Identifier: Apache-2.0
// FP32 numbers as scaled pairs of FP16 numbers, whose products on tensor cores are as good as FP32:
//
//   s a = hi + lo,   hi = f16(s a),   lo = f16(s a - hi)        s: a power of two
//   a b = (hi_a hi_b + hi_a lo_b + lo_a hi_b) / (s_a s_b)       to about 2^-22 of |a b|
//
// The scale puts the largest magnitude that can occur just below the end of FP16's range, so that
// numbers down to 2^-15 of it keep all 22 bits, and smaller ones are off by at most 2^-38 of it.
// Scales are guesses, which are looked at afterwards (scale_guess.cuh). A pair of an infinity or a
// NaN is a NaN.
//
// Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores" (2022), do this for
// matrices; scaling makes their factor of 2^11 for lo needless.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace megaconv::cuda {

/// Largest finite |x| as its bits, which order like unsigned integers.
using MagnitudeBits = std::uint32_t;
inline constexpr MagnitudeBits kInfinityBits = 0x7f800000u;

/// Power of two s for numbers of at most this magnitude: s |a| < `below`, another one.
__device__ inline float split_scale(MagnitudeBits magnitude, float below = 0x1p15f) {
  constexpr float kLeast = 0x1p-100f, kMost = 0x1p100f;  // their inverses are FP32 numbers, too
  const float most = __uint_as_float(magnitude);
  const float scale = fminf(fmaxf(below / most, kLeast), kMost);  // most = 0: kMost
  return __uint_as_float(__float_as_uint(scale) & kInfinityBits);
}

/// Of a power of two like these. A division would take longer.
__device__ inline float inverse_of_scale(float scale) {
  constexpr std::uint32_t kOne = 0x3f800000u;
  return __uint_as_float(2 * kOne - __float_as_uint(scale));
}

/// Halves of two scaled numbers.
struct SplitPair {
  __half2 high, low;
};
__device__ inline SplitPair split_pair(float first, float second) {
  const __half2 high = __floats2half2_rn(first, second);
  const float2 of_high = __half22float2(high);
  return {high, __floats2half2_rn(first - of_high.x, second - of_high.y)};
}

/// The largest finite magnitude of numbers that come one by one.
class LargestFinite {
 public:
  // Without the sign, and shifted so that infinities and NaN wrap around to less than a zero has.
  __device__ void add(float number) { most_ = max(most_, (__float_as_uint(number) << 1) + kZero); }
  __device__ MagnitudeBits bits() const { return most_ < kZero ? 0 : (most_ - kZero) >> 1; }

 private:
  static constexpr std::uint32_t kZero = 0u - (kInfinityBits << 1);
  std::uint32_t most_ = 0;
};

}  // namespace megaconv::cuda
