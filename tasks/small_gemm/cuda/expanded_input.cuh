// SPDX-License-Identifier: Apache-2.0
// e under a task's tile, halo included, of a 1x1 convolution that the task computes: what a
// depthwise convolution reads, outside the image zeros.
//
//   first K block   x of all these pixels, all channels, to shared memory as factors
//   each K block    e of its channels: a warp multiplies 32 pixels by 8 channels at a time
//
// Floats are multiplied as FP16 numbers, as everywhere (products.cuh).
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "tasks/cuda/activation.cuh"
#include "tasks/cuda/split_f16.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/small_gemm/cuda/magnitudes.cuh"
#include "tasks/small_gemm/cuda/products.cuh"
#include "tasks/small_gemm/cuda/quotient.cuh"
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"

namespace megaconv::cuda {

template <class Products>
class ExpandedSource {
 public:
  using Stored = typename Products::Stored;

  template <class Tensor>
  __device__ ExpandedSource(const SmallGemmArgs& a, const SmallGemmShare& share, Tensor tensor,
                            char* shared)
      : a_(a),
        of_(a.expand),
        shared_(shared),
        image_(static_cast<const Stored*>(tensor(a.x)) +
               static_cast<std::int64_t>(share.image) * a.depthwise.h * a.depthwise.w * a.expand.c),
        top_(share.row * a.depthwise.stride_h - a.depthwise.pad_h),
        left_(share.col * a.depthwise.stride_w - a.depthwise.pad_w),
        rows_((share.rows - 1) * a.depthwise.stride_h + a.depthwise.taps),
        cols_((share.cols - 1) * a.depthwise.stride_w + a.depthwise.taps) {
    for (int i = static_cast<int>(threadIdx.x); i < of_.pixels; i += kSmallGemmThreads) {
      const int row = row_of(i);
      inside()[i] = is_inside(row, i - row * of_.in_cols);
    }
  }

  /// x, on its way if it is stored as it is multiplied.
  __device__ void start() {
    if constexpr (Products::kConverts) {
      ToHalves<Products::kPairs, false> to_halves(1);
      convert_x(to_halves);
      magnitudes().put(0, to_halves.most());
    } else {
      for_pieces([&](char* to, bool inside, const Stored* from) {
        __pipeline_memcpy_async(to, inside ? from : image_, 16, inside ? 0 : 16);
      });
    }
  }

  __device__ void make(const char* filters, const float* vectors, int k_block) {
    __syncthreads();  // what all threads have copied, and noted of pixels
    if constexpr (Products::kConverts) {
      if (k_block == 0) bring_into_range();
    }
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const Extents extents(a_);
    const char* const x = shared_ + of_.x_at + lane % 4 * 16;
    char* const e = shared_ + of_.e_at;
    int pixels = 0, tile = warp;
    const auto find_unit = [&] {
      for (; tile >= extents.tiles; tile -= extents.tiles) pixels += kUnitPixels;
    };
#pragma unroll 1
    for (find_unit(); pixels < extents.pixels; tile += kWarps, find_unit()) {
      const int first = pixels + lane / 4;
      const Pixels of(extents, inside(), first);
      float sums[kTiles][4] = {};
      multiply(sums, filters + tile * extents.steps * kFilterBytes + lane * 16, x, of, extents);
      store(sums, vectors, tile * kTileChannels + lane % 4 * 2, e + first * extents.e_pitch, of,
            extents);
    }
    __syncthreads();
  }

  /// Of a pixel of e, which is among those of the tile; `number`: of the K block's channels.
  template <int kNumbers>
  __device__ Vec<kNumbers, Stored> numbers(int row, int col, int, int number) const {
    const int pixel = (row - top_) * of_.in_cols + col - left_;
    return *reinterpret_cast<const Vec<kNumbers, Stored>*>(
        shared_ + of_.e_at + pixel * of_.e_pitch + number * static_cast<int>(sizeof(Stored)));
  }

 private:
  static constexpr int kWarps = kSmallGemmThreads / 32;
  static constexpr int kTiles = 2;  // of 16 pixels, that a warp has at a time
  static constexpr int kUnitPixels = kTiles * 16;
  static constexpr int kTileChannels = 8;
  static constexpr int kParts = Products::kPairs ? 2 : 1;
  static constexpr int kStepBytes = 64, kPartBytes = 512, kFilterBytes = kParts * kPartBytes;
  static constexpr int kPieceNumbers = 8;  // of x

  // Calls visit(where it goes in shared memory, whether it exists, where it is in x) for this
  // thread's pieces of x.
  template <class Visit>
  __device__ void for_pieces(Visit visit) const {
    const int thread = static_cast<int>(threadIdx.x);
    const int first = quotient(thread, of_.pieces_reciprocal);
    const int number = (thread - first * of_.pieces) * kPieceNumbers;
    if (first >= of_.pixels_at_once) return;
#pragma unroll 2
    for (int pixel = first; pixel < of_.pixels; pixel += of_.pixels_at_once) {
      const int row = row_of(pixel), col = pixel - row * of_.in_cols;
      const int at = ((top_ + row) * a_.depthwise.w + left_ + col) * of_.c + number;
      visit(shared_ + of_.x_at + pixel * of_.x_pitch + number * 2,
            is_inside(row, col) && number < of_.c, image_ + at);
    }
  }

  // Row of a pixel of e.
  __device__ int row_of(int pixel) const { return quotient(pixel, of_.in_cols_reciprocal); }
  __device__ std::uint8_t* inside() const {
    return reinterpret_cast<std::uint8_t*>(shared_ + of_.inside_at);
  }

  // Of e, and among those that the task reads.
  __device__ bool is_inside(int row, int col) const {
    return row < rows_ && col < cols_ &&
           static_cast<unsigned>(top_ + row) < static_cast<unsigned>(a_.depthwise.h) &&
           static_cast<unsigned>(left_ + col) < static_cast<unsigned>(a_.depthwise.w);
  }

  template <class Visit>
  __device__ void for_floats(Visit visit) const {
    for_pieces([&](char* to, bool inside, const Stored* from) {
      float numbers[kPieceNumbers];
#pragma unroll
      for (int i = 0; i < kPieceNumbers; i += 4) {
        const auto four = load_if<4>(inside, from + i);
#pragma unroll
        for (int j = 0; j < 4; ++j) numbers[i + j] = four.lane[j];
      }
      visit(to, numbers);
    });
  }
  template <class ToHalves>
  __device__ void convert_x(ToHalves& to_halves) const {
    for_floats([&](char* to, const float(&numbers)[kPieceNumbers]) {
      store_halves(to, of_.x_part, numbers, to_halves);
    });
  }

  // Of x, which has one stage.
  __device__ Magnitudes magnitudes() const {
    return Magnitudes(reinterpret_cast<std::uint32_t*>(shared_ + of_.magnitudes_at));
  }

  // x that is too large for FP16, or all too small, is scaled.
  __device__ void bring_into_range() {
    if (fits_halves(magnitudes().most(0))) [[likely]]
      return;
    LargestFinite largest;
    for_floats([&](char*, const float(&numbers)[kPieceNumbers]) {
#pragma unroll
      for (const float number : numbers) largest.add(number);
    });
    __syncthreads();
    magnitudes().put(0, largest.bits());
    __syncthreads();
    const MagnitudeBits most = magnitudes().most(0);
    if (most == 0) return;
    const float scale = split_scale(most);
    ToHalves<Products::kPairs, true> to_halves(scale);
    convert_x(to_halves);
    inverse_scale_ = inverse_of_scale(scale);
    __syncthreads();
  }

  // Of the arguments, which lie in shared memory: that would be read again behind every store.
  struct Extents {
    int pixels, tiles, steps, block_channels, x_pitch, x_part, e_pitch;

    explicit __device__ Extents(const SmallGemmArgs& a)
        : pixels(a.expand.pixels),
          tiles(a.expand.tiles),
          steps(a.expand.steps),
          block_channels(a.block_channels),
          x_pitch(a.expand.x_pitch),
          x_part(a.expand.x_part),
          e_pitch(a.expand.e_pitch) {}
  };
  // A thread's pixels of a unit: bytes of each from the beginning of x, and which of them are
  // there, and inside of the image.
  struct Pixels {
    int at[2 * kTiles];
    bool is_there[2 * kTiles], is_inside[2 * kTiles];

    __device__ Pixels(const Extents& extents, const std::uint8_t* inside, int first) {
#pragma unroll
      for (int i = 0; i < 2 * kTiles; ++i) {
        const int pixel = min(first + 8 * i, extents.pixels - 1);
        at[i] = pixel * extents.x_pitch;
        is_there[i] = first + 8 * i < extents.pixels;
        is_inside[i] = inside[pixel] != 0;
      }
    }
  };

  // 16 bytes of two rows of x, as a matrix instruction takes them.
  static __device__ FilterWords rows_at(const char* first_row, const char* second_row) {
    const PixelWords first = *reinterpret_cast<const PixelWords*>(first_row);
    const PixelWords second = *reinterpret_cast<const PixelWords*>(second_row);
    FilterWords rows;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        rows.of[half][2 * i] = first.of[half][i];
        rows.of[half][2 * i + 1] = second.of[half][i];
      }
    }
    return rows;
  }

  static __device__ void multiply(float (&sums)[kTiles][4], const char* filters, const char* x,
                                  const Pixels& of, const Extents& extents) {
#pragma unroll 2
    for (int step = 0; step < extents.steps; ++step, filters += kFilterBytes, x += kStepBytes) {
      const PixelWords high = *reinterpret_cast<const PixelWords*>(filters);
      PixelWords rest;
      if constexpr (Products::kPairs) {
        rest = *reinterpret_cast<const PixelWords*>(filters + kPartBytes);
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const char* const first = x + of.at[2 * tile];
        const char* const second = x + of.at[2 * tile + 1];
        const FilterWords rows = rows_at(first, second);
        if constexpr (Products::kPairs) {
          const FilterWords rests = rows_at(first + extents.x_part, second + extents.x_part);
          float of_step[4] = {}, of_rests[4] = {};
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            Products::add(of_rests, rows, rest, half);
            Products::add(of_step, rows, high, half);
            Products::add(of_rests, rests, high, half);
          }
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[tile][i] += fmaf(of_rests[i], 0x1p-11f, of_step[i]);
        } else {
#pragma unroll
          for (int half = 0; half < 2; ++half) Products::add(sums[tile], rows, high, half);
        }
      }
    }
  }

  // This thread's sums: two neighbouring channels of each of its pixels. `e`: the first of these.
  __device__ void store(const float (&sums)[kTiles][4], const float* vectors, int number, char* e,
                        const Pixels& of, const Extents& extents) const {
    const auto bias = *reinterpret_cast<const Vec<2>*>(vectors + number);
    Vec<2> scale = {{1, 1}};
    if constexpr (Products::kConverts) {
      scale = *reinterpret_cast<const Vec<2>*>(vectors + extents.block_channels + number);
      scale.lane[0] *= inverse_scale_, scale.lane[1] *= inverse_scale_;
    }
    float values[4 * kTiles];
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) {
      values[i] = fmaf(sums[i / 4][i % 4], scale.lane[i % 2], bias.lane[i % 2]);
    }
    activate(of_.activation, values);
    e += number * static_cast<int>(sizeof(Stored));
#pragma unroll
    for (int i = 0; i < 2 * kTiles; ++i) {
      Vec<2, Stored> stored;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        stored.lane[j] = static_cast<Stored>(of.is_inside[i] ? values[2 * i + j] : 0.0f);
      }
      if (of.is_there[i]) {
        *reinterpret_cast<Vec<2, Stored>*>(e + 8 * i * extents.e_pitch) = stored;
      }
    }
  }

  const SmallGemmArgs& a_;
  const ExpandArgs& of_;
  char* const shared_;
  const Stored* const image_;
  const int top_, left_, rows_, cols_;  // of e, that the task reads
  float inverse_scale_ = 1;             // of x
};

}  // namespace megaconv::cuda
