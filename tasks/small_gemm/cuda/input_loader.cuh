// SPDX-License-Identifier: Apache-2.0
// What a K block needs of x, halo included, on its way to shared memory: [pixel][numbers], 16 bits
// each. Zeros where the image ends, behind the last channel, and beyond what the task reads. Pixels
// lie row by row, `pitch` bytes apart. Of floats there is a second such tensor: on the way it has
// half of them, then the rests of pairs.
//
// A thread has the same numbers of pixels that are a fixed distance apart. Where its pieces of
// these are in x it finds before the wait: of instructions behind it every one counts.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>
#include <type_traits>

#include "tasks/cuda/split_f16.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/small_gemm/cuda/products.cuh"
#include "tasks/small_gemm/cuda/quotient.cuh"
#include "tasks/small_gemm/cuda/scale_pairs.cuh"
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"
#include "tasks/small_gemm/cuda/stored_pairs.cuh"

namespace megaconv::cuda {

template <class Products>
class InputLoader {
 public:
  using Stored = typename Products::Stored;

  /// tensor(pointer): what a pointer of the arguments stands for.
  template <class Tensor>
  __device__ InputLoader(const SmallGemmArgs& a, const SmallGemmShare& share, Tensor tensor, char*)
      : a_(a),
        share_(share),
        image_(static_cast<const Stored*>(tensor(a.x)) +
               static_cast<std::int64_t>(share.image) * a.h * a.w * a.c) {
    const Piece first = first_piece();
    num_channels_ = share.num_channels - first.number;
    to_ = first.pixel * a.pitch + first.number * 2;
    if constexpr (Products::kLeavesRegisters) to_next_ = a.pixels_at_once * a.pitch;
    end_ = first.pixel < a.pixels_at_once ? share.in_rows * a.in_cols * a.pitch : 0;
    if (finds_once()) {
      Position at = first_position();
      find(at, 0, a.row_blocks);
    }
  }

  static constexpr bool kComputes = false;

  /// Vectors are copied asynchronously, as part of the thread's next group of copies. Returns the
  /// largest magnitude of numbers that are converted at once, as bits of FP16.
  __device__ std::uint32_t load(char* stage, int k_block) {
    ToHalves<Products::kPairs, false> to_halves(1);
    for_pieces(k_block, [&](const Pieces& of) {
      if (a_.piece_numbers == 8) return copy(stage, of);
      load_and_store<4>(stage, of, to_halves);
    });
    return to_halves.most();
  }
  /// Whether what was copied are floats, still to be converted.
  __device__ bool completes() const { return kCopiesFloats && a_.piece_numbers == 8; }
  /// Whether x has pairs, of which the high ones were copied.
  __device__ bool in_pairs() const { return Products::kStoresPairs && a_.piece_numbers == 8; }
  /// Whether some of this thread's pieces are wide pairs, once it has waited for its copies.
  __device__ bool has_wide(const char* stage) const {
    bool wide = false;
    const int to_next = this->to_next();
#pragma unroll 2
    for (int to = to_; to < end_; to += to_next) {
      const auto* const fours = reinterpret_cast<const std::uint32_t*>(stage + to);
      wide |= is_wide(fours[0]) | is_wide(fours[2]);
    }
    return wide;
  }
  /// Converts the floats of this thread's pieces, in their place, once it has waited for its
  /// copies. By all threads of a warp: neighbours have copied some of them. Returns the largest
  /// magnitude.
  __device__ std::uint32_t complete(char* stage, int) const {
    if constexpr (!kCopiesFloats) return 0;
    ToHalves<Products::kPairs, false> to_halves(1);
    const Landed landed(*this);
    __syncwarp();  // all of the warp have waited for theirs
    const int to_next = this->to_next();
    int to = to_;
#pragma unroll 1
    for (int piece = 0; piece < a_.most_pieces; piece += kConverted, to += kConverted * to_next) {
      Bits numbers[kConverted][8];
#pragma unroll
      for (int i = 0; i < kConverted; ++i) {
        const bool exists = to + i * to_next < end_;
        const char* const from = stage + to + i * to_next;
        const auto half = [&](int at) {
          return load_if<4>(exists, reinterpret_cast<const Bits*>(from + at));
        };
        const auto first = half(landed.first), second = half(landed.second);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          numbers[i][j] = first.lane[j];
          numbers[i][4 + j] = second.lane[j];
        }
      }
      __syncwarp();  // neighbours have read what landed in the place of these
#pragma unroll
      for (int i = 0; i < kConverted; ++i) {
        if (to + i * to_next >= end_) break;
        store(stage + to + i * to_next, numbers[i], to_halves);
      }
    }
    return to_halves.most();
  }
  /// The same of floats times a power of two.
  __device__ void load_scaled(char* stage, int k_block, float scale) {
    if (in_pairs()) {
      const auto [row_block, before] = first_of(k_block);
      scale_pairs(a_, share_, image_, row_block, before, stage, scale);
      return;
    }
    ToHalves<Products::kPairs, true> to_halves(scale);
    for_pieces(k_block, [&](const Pieces& of) {
      if constexpr (kCopiesFloats) {
        if (a_.piece_numbers == 8) return load_and_store<8>(stage, of, to_halves);
      }
      load_and_store<4>(stage, of, to_halves);
    });
  }
  /// The largest finite magnitude of what this thread loads.
  __device__ MagnitudeBits largest(int k_block) {
    if (in_pairs()) {
      const auto [row_block, before] = first_of(k_block);
      return scale_pairs(a_, share_, image_, row_block, before, nullptr, 1);
    }
    LargestFinite largest;
    for_pieces(k_block, [&](const Pieces& of) {
      const int to_next = this->to_next();
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        if (of.to + i * to_next >= end_) break;
        if constexpr (kCopiesFloats) {
          if (a_.piece_numbers == 8) {
            add_piece<8>(largest, of, i);
            continue;
          }
        }
        add_piece<4>(largest, of, i);
      }
    });
    return largest.bits();
  }

 private:
  static constexpr bool kCopiesFloats = Products::kConverts && !Products::kStoresPairs;
  using Bits = std::conditional_t<sizeof(Stored) == 2, std::uint16_t, std::uint32_t>;
  using Copied16 = std::conditional_t<Products::kStoresPairs, __half, Stored>;  // 16 bits of x
  static constexpr int kPieces = 8;                                             // found at a time
  static constexpr int kAtOnce = 4;     // in registers at a time
  static constexpr int kRowBlocks = 4;  // of which a thread knows what is inside
  static constexpr int kConverted = 2;  // in registers at a time

  struct Piece {
    int pixel, number;  // of a stage, of the pixel
  };
  __device__ Piece first_piece() const {
    const int thread = static_cast<int>(threadIdx.x);
    const int pixel = quotient(thread, a_.pieces_reciprocal);
    return {pixel, (thread - pixel * a_.pieces) * a_.piece_numbers};
  }

  // Whether the pieces that were found before the wait are those of every K block.
  __device__ bool finds_once() const {
    return a_.most_pieces <= kPieces && a_.row_blocks <= kRowBlocks;
  }

  // A pixel of a stage: its column, and its row in x.
  struct Position {
    int col, h;
  };
  __device__ Position first_position() const {
    const int pixel = first_piece().pixel;
    const int row = quotient(pixel, a_.in_cols_reciprocal);
    return {pixel - row * a_.in_cols, share_.row * a_.stride_h - a_.pad_h + row * a_.spacing_h};
  }
  __device__ void advance(Position& at) const {
    at.col += a_.cols_at_once;
    at.h += a_.rows_at_once * a_.spacing_h;
    if (at.col >= a_.in_cols) {
      at.col -= a_.in_cols;
      at.h += a_.spacing_h;
    }
  }

  // The next pieces: where they are in x under the first rows of the filter, and which of them are
  // inside under those of so many K blocks.
  __device__ void find(Position& at, int first_row_block, int num_row_blocks) {
    const int first_col = share_.col * a_.stride_w - a_.pad_w;
    const int channel = share_.first_channel + first_piece().number;
    inside_ = 0;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int w = first_col + at.col * a_.spacing_w;
      from_[i] = (at.h * row_pixels() + w) * a_.c + channel;
      if (static_cast<unsigned>(w) < static_cast<unsigned>(share_.end_w)) {
#pragma unroll 1
        for (int block = 0; block < num_row_blocks; ++block) {
          const int h = at.h + (first_row_block + block) * a_.block_rows;
          const bool inside = static_cast<unsigned>(h) < static_cast<unsigned>(share_.end_h);
          inside_ |= (inside ? 1u : 0u) << (block * kPieces + i);
        }
      }
      advance(at);
    }
  }

  // From a row of x to the next one.
  __device__ int row_pixels() const { return Products::kStoresPairs ? a_.x_row : a_.w; }

  // In a stage, from a thread's piece to the next one.
  __device__ int to_next() const {
    if constexpr (Products::kLeavesRegisters) return to_next_;
    return a_.pixels_at_once * a_.pitch;
  }

  // Of a K block: which rows of the filter, and channels before it.
  struct FirstOfBlock {
    int row_block, channels;
  };
  __device__ FirstOfBlock first_of(int k_block) const {
    int row_block = 0, channel_block = k_block;
    if (a_.row_blocks != 1) {
      channel_block = k_block / a_.row_blocks;
      row_block = k_block - channel_block * a_.row_blocks;
    }
    return {row_block, channel_block * a_.block_channels};
  }

  // Up to kPieces of the thread's pieces of a K block.
  struct Pieces {
    int to;           // the first one in a stage
    int channels;     // that are left
    int shift;        // in x, from where they were found
    unsigned pixels;  // inside of x: a bit each

    __device__ bool inside(int piece) const { return channels > 0 && (pixels >> piece & 1) != 0; }
  };
  template <class Visit>
  __device__ void for_pieces(int k_block, Visit visit) {
    const auto [row_block, before] = first_of(k_block);
    const int channels = num_channels_ - before;
    const int shift = before + row_block * a_.block_rows * row_pixels() * a_.c;
    if (finds_once()) {
      if (to_ >= end_) return;
      return visit({to_, channels, shift, inside_ >> (row_block * kPieces)});
    }
    Position at = first_position();
#pragma unroll 1
    for (int to = to_; to < end_; to += kPieces * to_next()) {
      find(at, row_block, 1);
      visit({to, channels, shift, inside_});
    }
  }

  // Floats of a piece come in two halves, of 16 bytes each. The two threads that have neighbouring
  // pieces of a pixel copy the halves of one side by side into the first tensor, then those of the
  // other into the second tensor: the L2 sends 32 bytes at a time, and would send halves that land
  // apart twice. Where a pixel has one piece, its halves land apart.
  __device__ bool has_neighbour() const { return a_.pieces % 2 == 0; }
  __device__ int side() const { return has_neighbour() ? static_cast<int>(threadIdx.x) % 2 : 0; }

  // Bytes from a thread's piece to its halves.
  struct Landed {
    int first, second;

    explicit __device__ Landed(const InputLoader& of)
        : first(of.side() * (of.a_.x_bytes - 16)),
          second(of.has_neighbour() ? first + 16 : of.a_.x_bytes) {}
  };
  // From a thread's piece in x to the two halves that it copies, of one piece and of the other:
  // numbers, and channels that this piece has more.
  struct Copied {
    int first, second, more_of_first, more_of_second;

    explicit __device__ Copied(const InputLoader& of) {
      const int side = of.side();
      first = -4 * side;
      second = of.has_neighbour() ? first + 8 : 4;
      more_of_first = 8 * side;
      more_of_second = of.has_neighbour() ? more_of_first - 8 : 0;
    }
  };

  __device__ void copy(char* stage, const Pieces& of) const {
    if constexpr (kCopiesFloats) return copy_floats(stage, of);
    const int to_next = this->to_next();
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      if (of.to + i * to_next >= end_) break;
      const bool there = of.inside(i);
      const auto* const from =
          reinterpret_cast<const Copied16*>(image_) + (there ? from_[i] + of.shift : 0);
      char* const piece = stage + of.to + i * to_next;
      __pipeline_memcpy_async(piece, from, 16, there ? 0 : 16);
    }
  }
  __device__ void copy_floats(char* stage, const Pieces& of) const {
    const Copied copied(*this);
    const int to_next = this->to_next();
    const bool has_first = of.channels + copied.more_of_first > 0;
    const bool has_second = of.channels + copied.more_of_second > 0;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      if (of.to + i * to_next >= end_) break;
      const bool inside = (of.pixels >> i & 1) != 0;
      char* const piece = stage + of.to + i * to_next;
      const auto copy_half = [&](char* to, int from, bool there) {
        const Stored* const half = image_ + (there ? from_[i] + of.shift + from : 0);
        __pipeline_memcpy_async(to, half, 16, there ? 0 : 16);
      };
      copy_half(piece, copied.first, inside && has_first);
      copy_half(piece + a_.x_bytes, copied.second, inside && has_second);
    }
  }

  template <int kNumbers>
  __device__ void load_piece(Bits (&numbers)[kNumbers], const Pieces& of, int piece) const {
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) numbers[i] = 0;
    if (!of.inside(piece)) return;
    const auto* const from = reinterpret_cast<const Bits*>(image_ + from_[piece] + of.shift);
#pragma unroll
    for (int i = 0; i < kNumbers; i += kNumbers == 8 ? 4 : 1) {
      if constexpr (kNumbers == 8) {  // vectors
        const auto four = *reinterpret_cast<const Vec<4, Bits>*>(from + i);
#pragma unroll
        for (int j = 0; j < 4; ++j) numbers[i + j] = four.lane[j];
      } else if (i < of.channels) {
        numbers[i] = from[i];
      }
    }
  }

  template <int kNumbers>
  __device__ void add_piece(LargestFinite& largest, const Pieces& of, int piece) const {
    Bits numbers[kNumbers];
    load_piece(numbers, of, piece);
#pragma unroll
    for (int n = 0; n < kNumbers; ++n) largest.add(__uint_as_float(numbers[n]));
  }

  // Some pieces at a time, all of them on their way before the first one is stored.
  template <int kNumbers, class ToHalves>
  __device__ void load_and_store(char* stage, const Pieces& of, ToHalves& to_halves) const {
    const int to_next = this->to_next();
#pragma unroll
    for (int first = 0; first < kPieces; first += kAtOnce) {
      Bits numbers[kAtOnce][kNumbers];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        load_piece(numbers[i], of, first + i);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (of.to + (first + i) * to_next >= end_) return;
        store(stage + of.to + (first + i) * to_next, numbers[i], to_halves);
      }
    }
  }

  template <int kNumbers, class ToHalves>
  __device__ void store(char* to, const Bits (&numbers)[kNumbers], ToHalves& to_halves) const {
    if constexpr (Products::kConverts) {
      float floats[kNumbers];
#pragma unroll
      for (int i = 0; i < kNumbers; ++i) floats[i] = __uint_as_float(numbers[i]);
      store_halves(to, a_.x_bytes, floats, to_halves);
    } else {
      Vec<kNumbers / 2, std::uint32_t> words;
#pragma unroll
      for (int i = 0; i < kNumbers / 2; ++i) {
        words.lane[i] = static_cast<std::uint32_t>(numbers[2 * i]) |
                        static_cast<std::uint32_t>(numbers[2 * i + 1]) << 16;
      }
      *reinterpret_cast<Vec<kNumbers / 2, std::uint32_t>*>(to) = words;
    }
  }

  const SmallGemmArgs& a_;
  const SmallGemmShare& share_;
  const Stored* image_;
  int num_channels_;
  int to_, to_next_, end_;  // in a stage: the first piece, to_next(), behind the last one
  int from_[kPieces];       // in the image, of the first channels, under the first rows
  unsigned inside_;         // bits of [row block][piece]
};

}  // namespace megaconv::cuda
