// SPDX-License-Identifier: Apache-2.0
// What a warp multiplies in a step of small-tile implicit GEMM, for every precision: 16 filters by
// 8 pixels, 32 numbers of each. A thread has eight numbers of two filters, lane / 4 and that + 8,
// and of pixel lane / 4: the same quarter of the step. A matrix instruction takes numbers in any
// order, as long as filters and pixels have the same, so two of them take half of these each.
//
// Floats become FP16 numbers, of which FP32 has two. Filters are scaled, each by a power of two of
// its own; x is not, unless its numbers would be too large or all too small:
//
//   w s = high + rest / 2^11      x = high + rest / 2^11
//   w s x = high high + (rest high + high rest) / 2^11      to about 2^-22 of |w s x|
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "tasks/cuda/mma.cuh"
#include "tasks/cuda/vec.cuh"

namespace megaconv::cuda {

/// A thread's numbers of filters and of a pixel, by matrix instruction: 16 bytes of shared memory
/// are one instruction's filters, or both instructions' pixel.
struct alignas(16) FilterWords {
  std::uint32_t of[2][4];
};
struct alignas(16) PixelWords {
  std::uint32_t of[2][2];
};

/// Products of FP16 numbers. kLeavesRegisters: what is needed behind the products can be found
/// before. If not, it would be spilled, and every wait empties the L1 cache (H100, ResNet-50 in one
/// launch: TF32 392 us with 20 bytes spilled, 364 with none).
struct HalfProducts {
  using Stored = __half;
  static constexpr bool kConverts = false, kPairs = false, kLeavesRegisters = true;
  static constexpr bool kStoresPairs = false;
  static __device__ void add(float (&sum)[4], const FilterWords& filters, const PixelWords& pixels,
                             int half) {
    mma(sum, filters.of[half], pixels.of[half]);
  }
};

struct Bfloat16Products {
  using Stored = __nv_bfloat16;
  static constexpr bool kConverts = false, kPairs = false, kLeavesRegisters = true;
  static constexpr bool kStoresPairs = false;
  static __device__ void add(float (&sum)[4], const FilterWords& filters, const PixelWords& pixels,
                             int half) {
    mma_bf16(sum, filters.of[half], pixels.of[half]);
  }
};

/// Of floats rounded to FP16's 11 bits, which are those of TF32.
struct Tf32Products : HalfProducts {
  using Stored = float;
  static constexpr bool kConverts = true, kLeavesRegisters = false;
};

/// The same in a network whose convolutions hand floats to each other as pairs (stored_pairs.cuh).
struct PairTensorProducts : HalfProducts {
  using Stored = float;
  static constexpr bool kConverts = true, kStoresPairs = true;
};

/// Of pairs. The sum of a step is taken by itself and then added in FP32: a matrix instruction cuts
/// its sum off, which over many of them is more than FP32 may err.
struct PairProducts : HalfProducts {
  using Stored = float;
  static constexpr bool kConverts = true, kPairs = true, kLeavesRegisters = false;
};

/// Converts floats to FP16 and remembers the largest magnitude that came of it. kScaled: times a
/// power of two.
template <bool kPairs, bool kScaled>
class ToHalves {
 public:
  explicit __device__ ToHalves(float scale) : scale_(scale) {}

  /// Numbers as the first parts of pairs, and what these leave.
  template <int kCount>
  __device__ void convert(const float (&numbers)[kCount], std::uint32_t (&high)[kCount / 2],
                          std::uint32_t (&rest)[kCount / 2]) {
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      const float first = scaled(numbers[2 * i]), second = scaled(numbers[2 * i + 1]);
      const __half2 halves = __floats2half2_rn(first, second);
      memcpy(&high[i], &halves, sizeof halves);
      most_ = __hmax2(most_, __habs2(halves));
      if constexpr (kPairs) {
        const float2 wide = __half22float2(halves);
        const __half2 left = __floats2half2_rn(rest_of(first, wide.x), rest_of(second, wide.y));
        memcpy(&rest[i], &left, sizeof left);
      }
    }
  }
  /// As bits of FP16. NaN do not count.
  __device__ std::uint32_t most() const {
    std::uint32_t bits;
    memcpy(&bits, &most_, sizeof bits);
    return max(bits >> 16, bits & 0xffffu);
  }

 private:
  __device__ float scaled(float number) const {
    if constexpr (kScaled) return number * scale_;
    return number;
  }
  // Of an infinity nothing. Without a scale there is none: what is too large is scaled.
  static __device__ float rest_of(float number, float high) {
    if (kScaled && isinf(high)) return 0.0f;
    return (number - high) * 0x1p11f;
  }

  float scale_;
  __half2 most_ = __floats2half2_rn(0.0f, 0.0f);
};

/// Stores numbers as FP16, the rests of pairs so many bytes behind.
template <bool kPairs, bool kScaled, int kCount>
__device__ inline void store_halves(char* to, int to_rests, const float (&numbers)[kCount],
                                    ToHalves<kPairs, kScaled>& to_halves) {
  using Words = Vec<kCount / 2, std::uint32_t>;
  Words high, rest;
  to_halves.convert(numbers, high.lane, rest.lane);
  if constexpr (kPairs) *reinterpret_cast<Words*>(to + to_rests) = rest;
  *reinterpret_cast<Words*>(to) = high;
}

/// Bits of FP16: 2^-10, infinity.
inline constexpr std::uint32_t kLeastHalf = 0x1400, kInfiniteHalf = 0x7c00;

/// Whether numbers of at most that magnitude, bits of FP16, keep theirs: it has all that TF32 has
/// from 2^-14 on, and what is less is off by 2^-15 of the magnitude at most, in pairs by 2^-26.
__device__ inline bool fits_halves(std::uint32_t most) {
  return most >= kLeastHalf && most < kInfiniteHalf;
}

}  // namespace megaconv::cuda
