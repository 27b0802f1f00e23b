// SPDX-License-Identifier: Apache-2.0
// FP32 numbers as scaled pairs of FP16 numbers, whose products on tensor cores are as good as FP32:
//
//   s a = hi + lo,   hi = f16(s a),   lo = f16(s a - hi)        s: a power of two
//   a b = (hi_a hi_b + hi_a lo_b + lo_a hi_b) / (s_a s_b)       to about 2^-22 of |a b|
//
// The scale puts the largest magnitude that can occur just below the end of FP16's range, so that
// numbers down to 2^-15 of it keep all 22 bits, and smaller ones are off by at most 2^-38 of it.
// It follows from the largest finite magnitude of the tensor, which measure_magnitudes() finds on
// the device in front of every run. A pair of an infinity or a NaN is a NaN.
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

/// Power of two s for numbers of at most `gain` times the measured magnitude: s |a| < 2^15.
__device__ inline float split_scale(MagnitudeBits magnitude, float gain) {
  constexpr float kLeast = 0x1p-100f, kMost = 0x1p100f;  // their inverses are FP32 numbers, too
  const float most = gain * __uint_as_float(magnitude);
  const float scale = fminf(fmaxf(0x1p15f / most, kLeast), kMost);  // most = 0: kMost
  return __uint_as_float(__float_as_uint(scale) & kInfinityBits);
}

/// The halves of `scaled`, which is already multiplied by the scale.
struct SplitHalves {
  __half hi, lo;
};
__device__ inline SplitHalves split(float scaled) {
  const __half hi = __float2half_rn(scaled);
  return {hi, __float2half_rn(scaled - __half2float(hi))};
}

/// |x|, or 0 where x is an infinity or a NaN.
__device__ inline float finite_magnitude(float x) {
  const float magnitude = fabsf(x);
  return magnitude < __uint_as_float(kInfinityBits) ? magnitude : 0.0f;
}

/// Halves of two scaled numbers, the low ones multiplied by kLowScale.
inline constexpr float kLowScale = 0x1p11f;
struct SplitPair {
  __half2 high, low;
};
__device__ inline SplitPair split_pair(float first, float second) {
  const __half2 high = __floats2half2_rn(first, second);
  const float2 rest = __half22float2(high);
  return {high, __floats2half2_rn((first - rest.x) * kLowScale, (second - rest.y) * kLowScale)};
}

/// An operand of a tensor tile: steps of kDepth channels, in each all hi, then all lo:
///   [step][hi, lo][kDepth / 8][rows][8 channels]
struct SplitOperand {
  static constexpr int kDepth = 32, kParts = 2;
  /// FP16 elements from an operand's start to (row, channel) of its hi part.
  static __device__ int index(int row, int channel, int rows) {
    return (channel / kDepth * kParts * (kDepth / 8) + channel % kDepth / 8) * rows * 8 + row * 8 +
           channel % 8;
  }
  /// From an element of hi to the same of lo.
  static __device__ int lo_offset(int rows) { return kDepth * rows; }
};

/// Raises *magnitude to the largest finite |data[i]|; all threads of the grid take part.
__device__ inline void raise_to_magnitude(MagnitudeBits* magnitude, const float* data,
                                          std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  MagnitudeBits most = 0;
  const auto add = [&](float value) {
    const MagnitudeBits bits = __float_as_uint(fabsf(value));
    if (bits < kInfinityBits) most = max(most, bits);
  };
  std::int64_t done = 0;
  if (reinterpret_cast<std::uintptr_t>(data) % sizeof(float4) == 0) {
    const std::int64_t num_vectors = count / 4;
    const auto* const vectors = reinterpret_cast<const float4*>(data);
    // From the end to the beginning, which the input transform reads first and then finds in L2.
    constexpr int kInFlight = 4;
    for (std::int64_t i = num_vectors - 1 - first; i >= 0; i -= kInFlight * stride) {
      float4 v[kInFlight];
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) v[j] = vectors[max(i - j * stride, std::int64_t{0})];
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) add(v[j].x), add(v[j].y), add(v[j].z), add(v[j].w);
    }
    done = num_vectors * 4;
  }
  for (std::int64_t i = done + first; i < count; i += stride) add(data[i]);
  most = __reduce_max_sync(0xffffffffu, most);
  if (threadIdx.x % 32 == 0 && most != 0) atomicMax(magnitude, most);
}

/// Raises magnitudes[0] to that of x, magnitudes[1] to that of w.
static __global__ void measure_magnitudes(const float* x, std::int64_t x_count, const float* w,
                                          std::int64_t w_count, MagnitudeBits* magnitudes) {
  raise_to_magnitude(&magnitudes[0], x, x_count);
  raise_to_magnitude(&magnitudes[1], w, w_count);
}

}  // namespace megaconv::cuda
