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

/// Some pixels of V, by all threads of a block.
template <class Stored, int kThreads>
__device__ inline void copy_input_to_depth(const TaskArgs& a, std::uint32_t index) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(Stored));
  const SpaceToDepthArgs& d = a.depth;
  const int vectors = d.channels / kVector;
  const int run = d.stride_w * d.c, row_numbers = d.w * d.c;
  const int first = static_cast<int>(index) * kPixelsOfDepthTask;
  const int pixels = min(kPixelsOfDepthTask, a.n * d.rows * d.cols - first);
  const auto* const x = reinterpret_cast<const Stored*>(d.x);
  uint4* const v = reinterpret_cast<uint4*>(a.v) + static_cast<std::int64_t>(first) * vectors;
  for (int i = static_cast<int>(threadIdx.x); i < pixels * vectors; i += kThreads) {
    const int pixel = first + i / vectors, line = pixel / d.cols;
    const int image = line / d.rows;
    const int first_row = (line - image * d.rows) * d.stride_h - d.pad_h;
    // A row of a step is a run of numbers of a row of x.
    const int first_number = ((pixel - line * d.cols) * d.stride_w - d.pad_w) * d.c;
    int row = i % vectors * kVector / run, in_run = i % vectors * kVector - row * run;
    alignas(16) Stored numbers[kVector];
    bool exist[kVector];
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      const int h = first_row + row, number = first_number + in_run;
      exist[j] = row < d.stride_h && static_cast<unsigned>(h) < static_cast<unsigned>(d.h) &&
                 static_cast<unsigned>(number) < static_cast<unsigned>(row_numbers);
      // Some number is loaded in any case, so that all are on their way at once.
      numbers[j] = x[exist[j] ? (image * d.h + h) * row_numbers + number : 0];
      if (++in_run == run) in_run = 0, ++row;
    }
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      if (!exist[j]) numbers[j] = static_cast<Stored>(0.0f);
    }
    v[i] = *reinterpret_cast<const uint4*>(numbers);
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
