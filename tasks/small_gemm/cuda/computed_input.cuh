// SPDX-License-Identifier: Apache-2.0
// x of a K block where tasks compute it, in the place of InputLoader: sums of a depthwise
// convolution, which go to shared memory as numbers to be multiplied. What that reads comes from
// its source: e in memory, or e that the task computes, too (expanded_input.cuh).
//
// Of each K block a thread computes pieces of pixels: the window of e, sums, bias, activation. It
// has the same channels of pixels that are a fixed distance apart. Filters and bias are vectors in
// the block's stage, behind other filters.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "tasks/cuda/activation.cuh"
#include "tasks/cuda/split_f16.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/small_gemm/cuda/products.cuh"
#include "tasks/small_gemm/cuda/quotient.cuh"
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"

namespace megaconv::cuda {

/// e in memory.
template <class Products>
class StoredSource {
 public:
  using Stored = typename Products::Stored;

  template <class Tensor>
  __device__ StoredSource(const SmallGemmArgs& a, const SmallGemmShare& share, Tensor tensor, char*)
      : of_(a.depthwise),
        channels_(a.c),
        image_(static_cast<const Stored*>(tensor(a.x)) + share.first_channel +
               static_cast<std::int64_t>(share.image) * a.depthwise.h * a.depthwise.w * a.c) {}

  /// By all threads, before those of the first K block.
  __device__ void start() const {}
  /// By all threads, behind filters that it has waited for: those of e, vectors of e's channels. e
  /// of a K block is there behind it.
  __device__ void make(const char*, const float*, int) const { __syncthreads(); }

  /// Numbers of a pixel of e, zeros outside. `channel`: of the task's; `number`: of the K block's.
  template <int kNumbers>
  __device__ Vec<kNumbers, Stored> numbers(int row, int col, int channel, int) const {
    const bool inside = static_cast<unsigned>(row) < static_cast<unsigned>(of_.h) &&
                        static_cast<unsigned>(col) < static_cast<unsigned>(of_.w);
    return load_if<kNumbers>(inside, image_ + (row * of_.w + col) * channels_ + channel);
  }

 private:
  const DepthwiseArgs& of_;
  const int channels_;
  const Stored* const image_;
};

template <class Products, class Source = StoredSource<Products>>
class ComputedInput {
 public:
  using Stored = typename Products::Stored;
  static constexpr bool kComputes = true;

  /// `shared`: of the task. tensor(pointer): what a pointer of the arguments stands for.
  template <class Tensor>
  __device__ ComputedInput(const SmallGemmArgs& a, const SmallGemmShare& share, Tensor tensor,
                           char* shared)
      : a_(a), share_(share), source_(a, share, tensor, shared) {}

  /// Nothing comes asynchronously but what the first K block needs of the source.
  __device__ std::uint32_t load(char*, int k_block) {
    if (k_block == 0) source_.start();
    return 0;
  }
  /// By all threads, whose copies and filters have come. Returns the largest magnitude of numbers
  /// that are converted, as bits of FP16.
  __device__ std::uint32_t complete(char* stage, int k_block) {
    const DepthwiseArgs& of = a_.depthwise;
    const char* const vectors = stage + a_.stage_bytes - of.vector_bytes;
    vectors_ = reinterpret_cast<const float*>(vectors);
    const int num_vectors = of.taps * of.taps + 1;
    source_.make(vectors - of.expand_bytes, vectors_ + num_vectors * a_.block_channels, k_block);
    ToHalves<Products::kPairs, false> to_halves(1);
    store_all(stage, k_block, to_halves);
    return to_halves.most();
  }
  /// The same of numbers times a power of two.
  __device__ void load_scaled(char* stage, int k_block, float scale) const {
    ToHalves<Products::kPairs, true> to_halves(scale);
    store_all(stage, k_block, to_halves);
  }
  /// The largest finite magnitude of what this thread computes.
  __device__ MagnitudeBits largest(int k_block) const {
    LargestFinite largest;
    for_pieces(k_block, [&](int, const Numbers& numbers) {
#pragma unroll
      for (const float number : numbers.lane) largest.add(number);
    });
    return largest.bits();
  }

  __device__ bool completes() const { return true; }
  __device__ bool in_pairs() const { return false; }
  __device__ bool has_wide(const char*) const { return false; }

 private:
  static constexpr int kNumbers = 16 / static_cast<int>(sizeof(Stored));  // of a piece
  static constexpr int kVector = 4;                                       // floats of 16 bytes
  using Piece = Vec<kNumbers, Stored>;
  struct Numbers {
    float lane[kNumbers];
  };

  // Calls visit(place in the stage, numbers) for all of this thread's pieces of a K block.
  template <class Visit>
  __device__ void for_pieces(int k_block, Visit visit) const {
    const int thread = static_cast<int>(threadIdx.x);
    const int first = quotient(thread, a_.pieces_reciprocal);
    const int number = (thread - first * a_.pieces) * kNumbers;
    const int channel = k_block * a_.block_channels + number;  // of the task's
    const bool exists = channel < share_.num_channels;
    if (first >= a_.pixels_at_once) return;
    int row = quotient(first, a_.in_cols_reciprocal);
    int col = first - row * a_.in_cols;
    for (int pixel = first; row < share_.rows; pixel += a_.pixels_at_once) {
      if (col < share_.cols) {
        Numbers numbers = {};
        if (exists) numbers = sums_of(row, col, channel, number);
        visit(pixel * a_.pitch + number * 2, numbers);
      }
      row += a_.rows_at_once;
      col += a_.cols_at_once;
      if (col >= a_.in_cols) {
        col -= a_.in_cols;
        ++row;
      }
    }
  }

  template <class ToHalves>
  __device__ void store_all(char* stage, int k_block, ToHalves& to_halves) const {
    for_pieces(k_block, [&](int to, const Numbers& numbers) {
      if constexpr (Products::kConverts) {
        store_halves(stage + to, a_.x_bytes, numbers.lane, to_halves);
      } else {
        Piece piece;
#pragma unroll
        for (int i = 0; i < kNumbers; ++i) piece.lane[i] = static_cast<Stored>(numbers.lane[i]);
        *reinterpret_cast<Piece*>(stage + to) = piece;
      }
    });
  }

  // Outputs of the depthwise convolution: channels of the task's, which are those of a K block from
  // `number` on.
  __device__ Numbers sums_of(int row, int col, int channel, int number) const {
    const DepthwiseArgs& of = a_.depthwise;
    Numbers sums = factors_at(vectors_ + of.taps * of.taps * a_.block_channels + number);
    const int top = (share_.row + row) * of.stride_h - of.pad_h;
    const int left = (share_.col + col) * of.stride_w - of.pad_w;
    if (of.taps == 3) {
      add_window<3>(sums, top, left, channel, number);
    } else {
      add_window<5>(sums, top, left, channel, number);
    }
    activate(of.activation, sums.lane);
    return sums;
  }

  static __device__ Numbers factors_at(const float* from) {
    Numbers factors;
#pragma unroll
    for (int i = 0; i < kNumbers; i += kVector) {
      const auto some = *reinterpret_cast<const Vec<kVector>*>(from + i);
#pragma unroll
      for (int j = 0; j < kVector; ++j) factors.lane[i + j] = some.lane[j];
    }
    return factors;
  }

  // Some rows of a window at a time, all on their way before the first one is multiplied.
  template <int kTaps>
  __device__ void add_window(Numbers& sums, int top, int left, int channel, int number) const {
    constexpr int kRows = kTaps == 3 ? 3 : 1;
    const float* factors = vectors_ + number;
#pragma unroll 1
    for (int first = 0; first < kTaps; first += kRows) {
      Piece pieces[kRows * kTaps];
#pragma unroll
      for (int tap = 0; tap < kRows * kTaps; ++tap) {
        pieces[tap] = source_.template numbers<kNumbers>(top + first + tap / kTaps,
                                                         left + tap % kTaps, channel, number);
      }
#pragma unroll
      for (int tap = 0; tap < kRows * kTaps; ++tap, factors += a_.block_channels) {
        const Numbers of_tap = factors_at(factors);
#pragma unroll
        for (int i = 0; i < kNumbers; ++i) {
          const auto value = static_cast<float>(pieces[tap].lane[i]);
          sums.lane[i] = fmaf(of_tap.lane[i], value, sums.lane[i]);
        }
      }
    }
  }

  const SmallGemmArgs& a_;
  const SmallGemmShare& share_;
  Source source_;
  const float* vectors_;  // [vector][channel of the K block], of the last one
};

}  // namespace megaconv::cuda
