// SPDX-License-Identifier: Apache-2.0
// Copies of float tensors in NHWC as matrix instructions multiply them: rows of C numbers, pixels
// of x or taps of filters, become rows of C' FP16 numbers, scaled by a guess (scale_guess.cuh).
//
//   V   [pixels of x][C']        zero past C
//   U   [filters][taps][C']      zero past C; then, where filters end in whole tasks, their footer
//
// Where consumers convert x in registers, of each 32 channels of U, which are 16 pairs, the pairs
// 4 t, 4 t + 1, ... are in the places t, t + 4, t + 8 and t + 12 (tall_rows.cuh). Where they split
// it, the high halves of 32 channels come first, then the low ones: rows are twice as long.
#pragma once

#include "tasks/cuda/block_pipeline.cuh"
#include "tasks/cuda/scale_guess.cuh"
#include "tasks/cuda/split_f16.cuh"
#include "tasks/cuda/task_args.hpp"

namespace megaconv::cuda {

/// A task's share: some rows, and of these some whole octets of channels.
struct OperandRows {
  const float* from;  ///< [rows][C]
  __half* to;         ///< [rows][C']
  int first_row, num_rows, first_c, end_c;
};

/// Octets of rows by which a thread walks through them, without divisions.
class OctetWalk {
 public:
  /// From the `index`-th on, `step` at a time.
  __device__ OctetWalk(int octets, int index, int step)
      : octets_(octets),
        row_step_(step / octets),
        octet_step_(step % octets),
        row_(index / octets),
        octet_(index % octets) {}
  __device__ void advance() {
    row_ += row_step_, octet_ += octet_step_;
    if (octet_ >= octets_) octet_ -= octets_, ++row_;
  }
  __device__ int row() const { return row_; }
  __device__ int channel() const { return octet_ * 8; }

 private:
  const int octets_, row_step_, octet_step_;
  int row_, octet_;
};

/// Converts them, by all threads of a block. Returns the largest finite magnitude that this thread
/// met. kRegisterOrder: of channels, for x in registers. kSplit: to pairs, in that order.
template <int kThreads, bool kRegisterOrder = false, bool kSplit = false>
__device__ inline MagnitudeBits convert(const TaskArgs& a, const OperandRows& rows, float scale) {
  static_assert(kRegisterOrder || !kSplit);
  constexpr int kParts = kSplit ? 2 : 1;
  constexpr int kAtOnce = 3;  // octets on their way
  const bool in_vectors = a.c % 8 == 0 && reinterpret_cast<std::uintptr_t>(rows.from) % 16 == 0;
  const float* const from = rows.from + static_cast<std::int64_t>(rows.first_row) * a.c;
  __half* const to = rows.to + static_cast<std::int64_t>(rows.first_row) * a.c_padded * kParts;
  OctetWalk walk((rows.end_c - rows.first_c) / 8, static_cast<int>(threadIdx.x), kThreads);
  LargestFinite most;
  while (walk.row() < rows.num_rows) {
    float values[kAtOnce][8];
    OctetWalk loaded = walk;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i, loaded.advance()) {
      const int c = rows.first_c + loaded.channel();
      const float* const eight = from + static_cast<std::int64_t>(loaded.row()) * a.c + c;
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        const bool exists = loaded.row() < rows.num_rows && c < a.c;
        if (in_vectors) {
          const float4 four = exists ? *reinterpret_cast<const float4*>(eight + j) : float4{};
          values[i][j] = four.x, values[i][j + 1] = four.y, values[i][j + 2] = four.z,
          values[i][j + 3] = four.w;
        } else {
#pragma unroll
          for (int n = j; n < j + 4; ++n) {
            values[i][n] = exists && c + n < a.c ? eight[n] : 0.0f;
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i, walk.advance()) {
      if (walk.row() >= rows.num_rows) continue;
      alignas(16) __half2 numbers[4];
      [[maybe_unused]] __half2 low[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float first = values[i][2 * n], second = values[i][2 * n + 1];
        most.add(first);
        most.add(second);
        const SplitPair pair = split_pair(first * scale, second * scale);
        numbers[n] = pair.high;
        if constexpr (kSplit) low[n] = pair.low;
      }
      __half* const row = to + static_cast<std::int64_t>(walk.row()) * a.c_padded * kParts;
      const int c = rows.first_c + walk.channel();
      if constexpr (kRegisterOrder) {
        auto* const pairs = reinterpret_cast<__half2*>(row + c / 32 * 32 * kParts) + c % 32 / 8;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          pairs[4 * n] = numbers[n];
          if constexpr (kSplit) pairs[16 + 4 * n] = low[n];
        }
      } else {
        *reinterpret_cast<uint4*>(row + c) = *reinterpret_cast<const uint4*>(numbers);
      }
    }
  }
  publish_to_copy_engine();
  return most.bits();
}

/// The `index`-th input task; past the last pixel it has nothing to do.
template <int kThreads>
__device__ inline void convert_input(const TaskArgs& a, std::uint32_t index) {
  const int chunks = a.input_channel_chunks, chunk = static_cast<int>(index) % chunks;
  const int first_pixel = static_cast<int>(index) / chunks * kPixelsOfInputTask;
  const int first_c = chunk * a.channels_per_input_task;
  // The last task of a pixel fills the rest of its row, too.
  const int end_c = chunk + 1 == chunks ? a.c_padded : first_c + a.channels_per_input_task;
  const int pixels = min(kPixelsOfInputTask, a.n * a.h * a.w_in - first_pixel);
  const MagnitudeBits most = convert<kThreads>(
      a, {a.x, reinterpret_cast<__half*>(a.v), first_pixel, pixels, first_c, end_c}, a.x_scale);
  note_magnitude<kThreads>(most, &a.x_footer->most[index]);
}

template <bool kSplit = false>
__device__ inline OperandFooter& footer_of_filters(const TaskArgs& a) {
  const int task = a.filters_per_gemm_task, filters = (a.k_padded + task - 1) / task * task;
  return *reinterpret_cast<OperandFooter*>(reinterpret_cast<__half*>(a.u) +
                                           static_cast<std::int64_t>(filters) * a.r * a.s *
                                               a.c_padded * (kSplit ? 2 : 1));
}
/// The `index`-th filter task: a lane block of filters, some channels of it.
template <int kThreads, bool kRegisterOrder = false, bool kSplit = false>
__device__ inline void convert_filters(const TaskArgs& a, std::uint32_t index) {
  constexpr int kLanes = static_cast<int>(Tiling::kLaneBlock);
  const int chunks = a.filter_channel_chunks, chunk = static_cast<int>(index) % chunks;
  const int first_k = static_cast<int>(index) / chunks * kLanes, taps = a.r * a.s;
  const int first_c = chunk * a.channels_per_filter_task;
  const int end_c = chunk + 1 == chunks ? a.c_padded : first_c + a.channels_per_filter_task;
  const int filters = min(kLanes, a.k - first_k);
  const MagnitudeBits most = convert<kThreads, kRegisterOrder, kSplit>(
      a, {a.w, reinterpret_cast<__half*>(a.u), first_k * taps, filters * taps, first_c, end_c},
      a.w_scale);
  OperandFooter& footer = footer_of_filters<kSplit>(a);
  note_magnitude<kThreads>(most, &footer.most[index]);
  if (index == 0 && threadIdx.x == 0) footer.scale = a.w_scale;
}

}  // namespace megaconv::cuda
