// SPDX-License-Identifier: Apache-2.0
// What a K block needs of x, halo included, on its way to shared memory: [pixel][numbers], 16 bits
// each. Zeros where the image ends, behind the last channel, and beyond what the task reads. Pixels
// lie row by row, `pitch` bytes apart. Of floats that become pairs a second such tensor has the
// rest.
//
// A thread has the same numbers of pixels that are a fixed distance apart, so that it divides
// nothing behind the wait.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>
#include <type_traits>

#include "tasks/cuda/split_f16.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/small_gemm/cuda/products.cuh"
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"

namespace megaconv::cuda {

template <class Products>
class InputLoader {
 public:
  using Stored = typename Products::Stored;

  __device__ InputLoader(const SmallGemmArgs& a, const SmallGemmShare& share, const Stored* x)
      : a_(a), image_(x + static_cast<std::int64_t>(share.image) * a.h * a.w * a.c) {
    const int thread = static_cast<int>(threadIdx.x);
    first_.pixel = thread / a.pieces;
    number_ = (thread - first_.pixel * a.pieces) * a.piece_numbers;
    channel_ = share.first_channel + number_;
    num_channels_ = share.num_channels - number_;
    const int row =
        static_cast<int>((static_cast<float>(first_.pixel) + 0.5f) * a.in_cols_reciprocal);
    first_.col = first_.pixel - row * a.in_cols;
    first_.h = share.row * a.stride_h - a.pad_h + row * a.spacing_h;
    first_col_ = share.col * a.stride_w - a.pad_w;
    end_h_ = share.end_h;
    end_w_ = share.end_w;
    num_pixels_ = first_.pixel < a.pixels_at_once ? share.in_rows * a.in_cols : 0;
  }

  /// Asynchronous where nothing has to be converted: part of the thread's next group of copies.
  /// Returns the largest magnitude of converted numbers, as bits of FP16.
  __device__ std::uint32_t load(char* stage, int k_block) const {
    const Block block(*this, k_block);
    if constexpr (!Products::kConverts) {
      if (a_.piece_numbers == 8) {
        copy(stage, block);
      } else {
        load_and_store<4, false>(stage, block, 1);
      }
      return 0;
    }
    return a_.piece_numbers == 8 ? load_and_store<8, false>(stage, block, 1)
                                 : load_and_store<4, false>(stage, block, 1);
  }
  /// The same of floats times a power of two.
  __device__ void load_scaled(char* stage, int k_block, float scale) const {
    const Block block(*this, k_block);
    a_.piece_numbers == 8 ? load_and_store<8, true>(stage, block, scale)
                          : load_and_store<4, true>(stage, block, scale);
  }
  /// The largest finite magnitude of what this thread loads.
  __device__ MagnitudeBits largest(int k_block) const {
    const Block block(*this, k_block);
    LargestFinite largest;
    if constexpr (Products::kConverts) {
#pragma unroll 1
      for (Position at = first_; at.pixel < num_pixels_; advance(at)) {
        Bits numbers[8];
        a_.piece_numbers == 8 ? load_piece(numbers, at, block)
                              : load_piece(reinterpret_cast<Bits(&)[4]>(numbers), at, block);
        for (int i = 0; i < a_.piece_numbers; ++i) largest.add(__uint_as_float(numbers[i]));
      }
    }
    return largest.bits();
  }

 private:
  using Bits = std::conditional_t<sizeof(Stored) == 2, std::uint16_t, std::uint32_t>;

  // A pixel of a stage: its index and column, and its row in x.
  struct Position {
    int pixel, col, h;
  };
  // What a thread has of a K block's numbers and rows.
  struct Block {
    __device__ Block(const InputLoader& loader, int k_block) {
      int row_block = 0, channel_block = k_block;
      if (loader.a_.row_blocks != 1) {
        channel_block = k_block / loader.a_.row_blocks;
        row_block = k_block - channel_block * loader.a_.row_blocks;
      }
      rows = row_block * loader.a_.block_rows;
      const int before = channel_block * loader.a_.block_channels;
      channel = loader.channel_ + before;
      num_channels = loader.num_channels_ - before;
    }
    int rows, channel, num_channels;
  };

  __device__ void advance(Position& at) const {
    at.pixel += a_.pixels_at_once;
    at.col += a_.cols_at_once;
    at.h += a_.rows_at_once * a_.spacing_h;
    if (at.col >= a_.in_cols) {
      at.col -= a_.in_cols;
      at.h += a_.spacing_h;
    }
  }

  // Null outside the image and behind what the task reads.
  __device__ const Stored* find(const Position& at, const Block& block) const {
    const int h = at.h + block.rows, w = first_col_ + at.col * a_.spacing_w;
    const bool inside = static_cast<unsigned>(h) < static_cast<unsigned>(end_h_) &&
                        static_cast<unsigned>(w) < static_cast<unsigned>(end_w_) &&
                        block.num_channels > 0;
    return inside ? image_ + ((h * a_.w + w) * a_.c + block.channel) : nullptr;
  }

  __device__ void copy(char* stage, const Block& block) const {
#pragma unroll 4
    for (Position at = first_; at.pixel < num_pixels_; advance(at)) {
      const Stored* const from = find(at, block);
      __pipeline_memcpy_async(stage + at.pixel * a_.pitch + number_ * 2,
                              from != nullptr ? from : image_, 16, from != nullptr ? 0 : 16);
    }
  }

  template <int kNumbers>
  __device__ void load_piece(Bits (&numbers)[kNumbers], const Position& at,
                             const Block& block) const {
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) numbers[i] = 0;
    if (at.pixel >= num_pixels_) return;
    const auto* const from = reinterpret_cast<const Bits*>(find(at, block));
    if (from == nullptr) return;
#pragma unroll
    for (int i = 0; i < kNumbers; i += kNumbers == 8 ? 4 : 1) {
      if constexpr (kNumbers == 8) {  // vectors
        const auto four = *reinterpret_cast<const Vec<4, Bits>*>(from + i);
#pragma unroll
        for (int j = 0; j < 4; ++j) numbers[i + j] = four.lane[j];
      } else if (i < block.num_channels) {
        numbers[i] = from[i];
      }
    }
  }

  // Some pieces at a time, all of them on their way before the first one is stored.
  template <int kNumbers, bool kScaled>
  __device__ std::uint32_t load_and_store(char* stage, const Block& block, float scale) const {
    constexpr int kAtOnce = 4;
    ToHalves<Products::kPairs, kScaled> to_halves(scale);
#pragma unroll 1
    for (Position at = first_; at.pixel < num_pixels_;) {
      Bits numbers[kAtOnce][kNumbers];
      char* to = stage + at.pixel * a_.pitch + number_ * 2;
      int pixel = at.pixel;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        load_piece(numbers[i], at, block);
        advance(at);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (pixel < num_pixels_) store(to, numbers[i], to_halves);
        pixel += a_.pixels_at_once;
        to += a_.pixels_at_once * a_.pitch;
      }
    }
    return to_halves.most();
  }

  template <int kNumbers, class ToHalves>
  __device__ void store(char* to, const Bits (&numbers)[kNumbers], ToHalves& to_halves) const {
    using Words = Vec<kNumbers / 2, std::uint32_t>;
    Words high;
    if constexpr (Products::kConverts) {
      float floats[kNumbers];
#pragma unroll
      for (int i = 0; i < kNumbers; ++i) floats[i] = __uint_as_float(numbers[i]);
      Words rest;
      to_halves.convert(floats, high.lane, rest.lane);
      if constexpr (Products::kPairs) *reinterpret_cast<Words*>(to + a_.x_bytes) = rest;
    } else {
#pragma unroll
      for (int i = 0; i < kNumbers / 2; ++i) {
        high.lane[i] = static_cast<std::uint32_t>(numbers[2 * i]) |
                       static_cast<std::uint32_t>(numbers[2 * i + 1]) << 16;
      }
    }
    *reinterpret_cast<Words*>(to) = high;
  }

  const SmallGemmArgs& a_;
  const Stored* image_;
  Position first_;
  int number_, channel_, num_channels_, first_col_, end_h_, end_w_, num_pixels_;
};

}  // namespace megaconv::cuda
