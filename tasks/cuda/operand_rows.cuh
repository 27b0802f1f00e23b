// SPDX-License-Identifier: Apache-2.0
// Copies of float tensors in NHWC as matrix instructions multiply them: rows of C numbers, pixels
// of x or taps of filters, become rows of C' FP16 numbers, scaled by a guess (scale_guess.cuh).
//
//   V   [pixels of x][C']        zero past C
//   U   [filters][taps][C']      zero past C; then, where filters end in whole tasks, their footer
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

/// Converts them, by all threads of a block. Returns the largest finite magnitude that this thread
/// met.
template <int kThreads>
__device__ inline MagnitudeBits convert(const TaskArgs& a, const OperandRows& rows, float scale) {
  constexpr int kAtOnce = 3;  // loads on their way
  const int octets = (rows.end_c - rows.first_c) / 8, items = max(rows.num_rows, 0) * octets;
  const bool in_vectors = a.c % 8 == 0 && reinterpret_cast<std::uintptr_t>(rows.from) % 16 == 0;
  LargestFinite most;
  for (int begin = static_cast<int>(threadIdx.x); begin < items; begin += kAtOnce * kThreads) {
    float values[kAtOnce][8];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int item = begin + i * kThreads, c = rows.first_c + item % octets * 8;
      const float* const from =
          rows.from + static_cast<std::int64_t>(rows.first_row + item / octets) * a.c + c;
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        const bool exists = item < items && c < a.c;
        if (in_vectors) {
          const float4 four = exists ? *reinterpret_cast<const float4*>(from + j) : float4{};
          values[i][j] = four.x, values[i][j + 1] = four.y, values[i][j + 2] = four.z,
          values[i][j + 3] = four.w;
        } else {
#pragma unroll
          for (int n = j; n < j + 4; ++n) {
            values[i][n] = exists && c + n < a.c ? from[n] : 0.0f;
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int item = begin + i * kThreads;
      if (item >= items) continue;
      alignas(16) __half2 numbers[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const float first = values[i][2 * n], second = values[i][2 * n + 1];
        most.add(first);
        most.add(second);
        numbers[n] = split_pair(first * scale, second * scale).high;
      }
      *reinterpret_cast<uint4*>(
          rows.to + static_cast<std::int64_t>(rows.first_row + item / octets) * a.c_padded +
          rows.first_c + item % octets * 8) = *reinterpret_cast<const uint4*>(numbers);
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
  if (index == 0 && threadIdx.x == 0) a.x_footer->scale = a.x_scale;
}

__device__ inline OperandFooter& footer_of_filters(const TaskArgs& a) {
  const int task = a.filters_per_gemm_task, filters = (a.k_padded + task - 1) / task * task;
  return *reinterpret_cast<OperandFooter*>(
      reinterpret_cast<__half*>(a.u) + static_cast<std::int64_t>(filters) * a.r * a.s * a.c_padded);
}
/// The `index`-th filter task: a lane block of filters, some channels of it.
template <int kThreads>
__device__ inline void convert_filters(const TaskArgs& a, std::uint32_t index) {
  constexpr int kLanes = static_cast<int>(Tiling::kLaneBlock);
  const int chunks = a.filter_channel_chunks, chunk = static_cast<int>(index) % chunks;
  const int first_k = static_cast<int>(index) / chunks * kLanes, taps = a.r * a.s;
  const int first_c = chunk * a.channels_per_filter_task;
  const int end_c = chunk + 1 == chunks ? a.c_padded : first_c + a.channels_per_filter_task;
  const int filters = min(kLanes, a.k - first_k);
  const MagnitudeBits most = convert<kThreads>(
      a, {a.w, reinterpret_cast<__half*>(a.u), first_k * taps, filters * taps, first_c, end_c},
      a.w_scale);
  OperandFooter& footer = footer_of_filters(a);
  note_magnitude<kThreads>(most, &footer.most[index]);
  if (index == 0 && threadIdx.x == 0) footer.scale = a.w_scale;
}

}  // namespace megaconv::cuda
