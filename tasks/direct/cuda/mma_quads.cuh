// SPDX-License-Identifier: Apache-2.0
// Operands of direct tasks on tensor cores. A matrix instruction takes terms in any order, as long
// as both operands have the same. So a thread loads quads, four channels of one tap, or two of them
// that are neighbours: as many bytes at a time as x has side by side.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

#include "tasks/cuda/mma.cuh"
#include "tasks/direct/cuda/direct.cuh"

namespace megaconv::cuda {

/// Four channels of a tap, as numbers of a matrix instruction.
template <class Stored>
struct MmaQuad {
  static constexpr int kWords = static_cast<int>(sizeof(Vec<4, Stored>) / sizeof(std::uint32_t));
  std::uint32_t words[kWords];

  static __device__ MmaQuad of(const Vec<4, Stored>& numbers) {
    MmaQuad quad;
    if constexpr (kWords == 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) quad.words[i] = round_to_tf32(numbers.lane[i]);
    } else {
      std::memcpy(quad.words, &numbers, sizeof quad.words);
    }
    return quad;
  }
};

/// sums += products of two words of each operand, of 16 rows by 8 columns (tasks/cuda/mma.cuh).
template <class Stored>
__device__ inline void add_products(float (&sums)[4], const std::uint32_t (&rows)[4],
                                    const std::uint32_t (&columns)[2]) {
  if constexpr (std::is_same_v<Stored, __half>) {
    mma(sums, rows, columns);
  } else if constexpr (std::is_same_v<Stored, __nv_bfloat16>) {
    mma_bf16(sums, rows, columns);
  } else {
    mma_tf32(sums, rows, columns);
  }
}

/// Some neighbouring channels of a tap: what they add to a pixel's place in x, and how many there
/// are of so many.
struct alignas(16) MmaTerm {
  int offset, row, col, channels;
  static constexpr int kOutside = -(1 << 29);  // a row that no pixel brings into an image

  /// The index-th of a sum, if each has up to `size` channels.
  static __device__ MmaTerm of(const TaskArgs& a, int index, int size) {
    const int in_tap = (a.c + size - 1) / size, tap = index / in_tap, c = index % in_tap * size;
    if (tap >= a.r * a.s) return {0, kOutside, 0, 0};
    const int row = tap / a.s * a.dilation_h, col = tap % a.s * a.dilation_w;
    return {(row * a.w_in + col) * a.c + c, row, col, min(size, a.c - c)};
  }
};

/// A quad of a filter, with zeros where there is no such channel, tap or filter; `index` counts
/// terms of `size` channels, of which it is the `part`-th quad.
template <class Stored>
__device__ inline MmaQuad<Stored> quad_of_filter(const TaskArgs& a, int filter, int index,
                                                 int size = 4, int part = 0) {
  const int in_tap = (a.c + size - 1) / size, tap = index / in_tap;
  const int c = index % in_tap * size + part * 4;
  const Stored* const w = reinterpret_cast<const Stored*>(a.w) +
                          (static_cast<std::int64_t>(filter) * a.r * a.s + tap) * a.c + c;
  const bool exists = filter < a.k && tap < a.r * a.s;
  Vec<4, Stored> numbers;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    numbers.lane[i] = load_if<1>(exists && c + i < a.c, w + i).lane[0];
  }
  return MmaQuad<Stored>::of(numbers);
}

/// Neighbouring quads of a tap: as many channels as a thread loads together.
template <class Stored, int kQuads>
struct alignas(sizeof(Vec<4 * kQuads, Stored>)) MmaPart {
  static constexpr int kQuadWords = MmaQuad<Stored>::kWords, kWords = kQuads * kQuadWords;
  std::uint32_t words[kWords];

  /// The index-th of a filter, with zeros as in quad_of_filter().
  static __device__ MmaPart of_filter(const TaskArgs& a, int filter, int index) {
    MmaPart part;
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const auto quad = quad_of_filter<Stored>(a, filter, index, 4 * kQuads, i);
#pragma unroll
      for (int word = 0; word < kQuadWords; ++word) {
        part.words[i * kQuadWords + word] = quad.words[word];
      }
    }
    return part;
  }
};

/// sums += products of a part of two pixels, eight rows apart, with one of a filter.
template <class Stored, int kQuads>
__device__ inline void add_products(float (&sums)[4], const MmaPart<Stored, kQuads> (&pixels)[2],
                                    const MmaPart<Stored, kQuads>& filter) {
#pragma unroll
  for (int i = 0; i < MmaPart<Stored, kQuads>::kWords; i += 2) {
    add_products<Stored>(
        sums,
        {pixels[0].words[i], pixels[1].words[i], pixels[0].words[i + 1], pixels[1].words[i + 1]},
        {filter.words[i], filter.words[i + 1]});
  }
}

}  // namespace megaconv::cuda
