// SPDX-License-Identifier: Apache-2.0
// What a warp multiplies in a step of small-tile implicit GEMM, for every precision: 16 filters by
// 8 pixels, 64 bytes of channels. A thread has 16 bytes of each of two filters, lane / 4 and that +
// 8, and of pixel lane / 4: the same quarter of the step's channels. Two matrix instructions take
// half of them each: add<kPart>() is one of them, which nobody but its sum waits for.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "tasks/cuda/mma.cuh"

namespace megaconv::cuda {

/// A thread's 16 bytes.
struct alignas(16) Quarter {
  std::uint32_t word[4];
};

/// Of two filters and of a pixel, by matrix instruction.
struct FilterWords {
  std::uint32_t of[2][4];
};
struct PixelWords {
  std::uint32_t of[2][2];
};

__device__ inline FilterWords filter_words(const Quarter& low, const Quarter& high) {
  FilterWords words;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    words.of[i][0] = low.word[2 * i];
    words.of[i][1] = high.word[2 * i];
    words.of[i][2] = low.word[2 * i + 1];
    words.of[i][3] = high.word[2 * i + 1];
  }
  return words;
}
__device__ inline PixelWords pixel_words(const Quarter& pixel) {
  return {{{pixel.word[0], pixel.word[1]}, {pixel.word[2], pixel.word[3]}}};
}

/// Products of FP16 numbers.
struct HalfProducts {
  static constexpr bool kStepsApart = false;
  using Stored = __half;
  using Filters = FilterWords;
  using Pixels = PixelWords;
  static __device__ Filters filters(const Quarter& low, const Quarter& high) {
    return filter_words(low, high);
  }
  static __device__ Pixels pixels(const Quarter& pixel) { return pixel_words(pixel); }
  static constexpr int kParts = 2;
  template <int kPart>
  static __device__ void add(float (&sum)[4], const Filters& filters, const Pixels& pixels) {
    mma(sum, filters.of[kPart], pixels.of[kPart]);
  }
};

struct Bfloat16Products {
  static constexpr bool kStepsApart = false;
  using Stored = __nv_bfloat16;
  using Filters = FilterWords;
  using Pixels = PixelWords;
  static __device__ Filters filters(const Quarter& low, const Quarter& high) {
    return filter_words(low, high);
  }
  static __device__ Pixels pixels(const Quarter& pixel) { return pixel_words(pixel); }
  static constexpr int kParts = 2;
  template <int kPart>
  static __device__ void add(float (&sum)[4], const Filters& filters, const Pixels& pixels) {
    mma_bf16(sum, filters.of[kPart], pixels.of[kPart]);
  }
};

/// Products of floats rounded to TF32; filters have been when they were packed.
struct Tf32Products {
  static constexpr bool kStepsApart = false;
  using Stored = float;
  using Filters = FilterWords;
  using Pixels = PixelWords;
  static __device__ Filters filters(const Quarter& low, const Quarter& high) {
    return filter_words(low, high);
  }
  static __device__ Pixels pixels(const Quarter& pixel) {
    Quarter rounded;
#pragma unroll
    for (int i = 0; i < 4; ++i) rounded.word[i] = round_to_tf32(__uint_as_float(pixel.word[i]));
    return pixel_words(rounded);
  }
  static constexpr int kParts = 2;
  template <int kPart>
  static __device__ void add(float (&sum)[4], const Filters& filters, const Pixels& pixels) {
    mma_tf32(sum, filters.of[kPart], pixels.of[kPart]);
  }
};

/// Products of floats, each the sum of two TF32 numbers: high high, high low and low high. What is
/// left out, low low and what two numbers do not hold, is less than 2^-22 of a product. The sum of
/// a step is taken by itself and then added in FP32: a matrix instruction cuts its sum off, which
/// over many of them is more than FP32 may err.
struct PairProducts {
  static constexpr bool kStepsApart = true;
  using Stored = float;
  struct Filters {
    FilterWords high, low;
  };
  struct Pixels {
    PixelWords high, low;
  };
  // The rest is rounded by an addition, since the instruction does not read the last 13 bits. That
  // of infinity, a NaN, becomes a zero by it.
  static __device__ void split(std::uint32_t word, std::uint32_t& high, std::uint32_t& low) {
    high = round_to_tf32(__uint_as_float(word));
    low = __float_as_uint(__uint_as_float(word) - __uint_as_float(high)) + 0x1000u;
  }
  static __device__ Filters filters(const Quarter& low, const Quarter& high) {
    const FilterWords words = filter_words(low, high);
    Filters result;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) split(words.of[i][j], result.high.of[i][j], result.low.of[i][j]);
    }
    return result;
  }
  static __device__ Pixels pixels(const Quarter& pixel) {
    const PixelWords words = pixel_words(pixel);
    Pixels result;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) split(words.of[i][j], result.high.of[i][j], result.low.of[i][j]);
    }
    return result;
  }
  static constexpr int kParts = 6;  // the smallest first
  template <int kPart>
  static __device__ void add(float (&sum)[4], const Filters& filters, const Pixels& pixels) {
    constexpr int kHalf = kPart % 2;
    const FilterWords& of_filters = kPart < 2 ? filters.low : filters.high;
    const PixelWords& of_pixels = kPart / 2 == 1 ? pixels.low : pixels.high;
    mma_tf32(sum, of_filters.of[kHalf], of_pixels.of[kHalf]);
  }
};

}  // namespace megaconv::cuda
