// SPDX-License-Identifier: Apache-2.0
// Copies of x and of w from space to depth (tasks/implicit_gemm/space_to_depth.hpp), in NHWC and of
// the tensors' own type:
//
//   V   [pixels of V][C']              zero beside x and past its channels
//   U   [filters][taps of V][C']       for TMA; other tasks have implicit_gemm_filter.cuh's
#pragma once

#include "tasks/cuda/block_pipeline.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/implicit_gemm/stripes.hpp"

namespace megaconv::cuda {

/// Where in a filter the number is that a channel of V is multiplied with under a tap; -1: none is.
__device__ inline int filter_number_in_depth(const SpaceToDepthArgs& d, int channel, int tap) {
  const int run = d.stride_w * d.c, step_row = channel / run, in_run = channel % run;
  const int row = tap / d.taps_w * d.stride_h + step_row;
  const int number = tap % d.taps_w * run + in_run;  // of a row of the filter
  const bool exists = step_row < d.stride_h && row < d.r && number < d.s * d.c;
  return exists ? row * d.s * d.c + number : -1;
}

/// A pixel of V.
struct DepthPixel {
  int image, row, col;
  __device__ DepthPixel(const SpaceToDepthArgs& d, int pixel) {
    const int line = pixel / d.cols;
    image = line / d.rows;
    row = line - image * d.rows;
    col = pixel - line * d.cols;
  }
  /// As many pixels further on as `step` is from the first.
  __device__ void advance(const SpaceToDepthArgs& d, const DepthPixel& step) {
    col += step.col;
    if (col >= d.cols) col -= d.cols, ++row;
    row += step.row;
    if (row >= d.rows) row -= d.rows, ++image;
    image += step.image;
  }
};

/// Some pixels of V, by all threads of a block. A thread has the same vector of several pixels,
/// whose numbers are all on their way at once.
template <class Stored, int kThreads>
__device__ inline void copy_input_to_depth(const TaskArgs& a, std::uint32_t index) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(Stored)), kBatch = 16 / kVector;
  const SpaceToDepthArgs& d = a.depth;
  const int vectors = d.channels / kVector, at_once = kThreads / vectors;
  const int run = d.stride_w * d.c, row_numbers = d.w * d.c;
  const int first = static_cast<int>(index) * kPixelsOfDepthTask;
  const int pixels = min(kPixelsOfDepthTask, a.n * d.rows * d.cols - first);
  const auto* const x = reinterpret_cast<const Stored*>(d.x);
  uint4* const v = reinterpret_cast<uint4*>(a.v) + static_cast<std::int64_t>(first) * vectors;
  const int own = static_cast<int>(threadIdx.x) / vectors;  // the first pixel
  const int vector = static_cast<int>(threadIdx.x) - own * vectors;
  // A row of a step is a run of numbers of a row of x.
  int rows[kVector], numbers_of_row[kVector];
#pragma unroll
  for (int j = 0; j < kVector; ++j) {
    rows[j] = (vector * kVector + j) / run;
    numbers_of_row[j] = vector * kVector + j - rows[j] * run;
    if (rows[j] >= d.stride_h) rows[j] = d.h + d.pad_h;  // below x
  }
  DepthPixel pixel(d, first + own);
  const DepthPixel step(d, at_once);
  for (int i = own; own < at_once && i < pixels; i += kBatch * at_once) {
    alignas(16) Stored numbers[kBatch][kVector];
    bool exist[kBatch][kVector];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int first_row = pixel.row * d.stride_h - d.pad_h;
      const int first_number = (pixel.col * d.stride_w - d.pad_w) * d.c;
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        const int h = first_row + rows[j], number = first_number + numbers_of_row[j];
        exist[b][j] = static_cast<unsigned>(h) < static_cast<unsigned>(d.h) &&
                      static_cast<unsigned>(number) < static_cast<unsigned>(row_numbers) &&
                      i + b * at_once < pixels;
        // Some number is loaded in any case, so that all are on their way at once.
        numbers[b][j] = x[exist[b][j] ? (pixel.image * d.h + h) * row_numbers + number : 0];
      }
      pixel.advance(d, step);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        if (!exist[b][j]) numbers[b][j] = static_cast<Stored>(0.0f);
      }
      const int to = i + b * at_once;
      if (to < pixels) v[to * vectors + vector] = *reinterpret_cast<const uint4*>(numbers[b]);
    }
  }
  publish_to_copy_engine();
}

/// A lane block of filters, some of their channels.
template <class Stored, int kThreads>
__device__ inline void copy_filters_to_depth(const TaskArgs& a, std::uint32_t index) {
  constexpr int kLanes = static_cast<int>(Tiling::kLaneBlock);
  const SpaceToDepthArgs& d = a.depth;
  const int chunks = a.filter_channel_chunks;
  const int first_k = static_cast<int>(index) / chunks * kLanes;
  const int first_c = static_cast<int>(index) % chunks * a.channels_per_filter_task;
  const int channels = min(a.channels_per_filter_task, d.channels - first_c);
  const int filters = min(kLanes, a.k - first_k);
  const auto* const w = reinterpret_cast<const Stored*>(a.w);
  auto* const u = reinterpret_cast<Stored*>(a.u);
  for (int i = static_cast<int>(threadIdx.x); i < filters * d.taps * channels; i += kThreads) {
    const int c = first_c + i % channels, tap = i / channels % d.taps;
    const int k = first_k + i / channels / d.taps;
    const int from = filter_number_in_depth(d, c, tap);
    u[(static_cast<std::int64_t>(k) * d.taps + tap) * d.channels + c] =
        from < 0 ? static_cast<Stored>(0.0f)
                 : w[static_cast<std::int64_t>(k) * d.r * d.s * d.c + from];
  }
  publish_to_copy_engine();
}

}  // namespace megaconv::cuda
