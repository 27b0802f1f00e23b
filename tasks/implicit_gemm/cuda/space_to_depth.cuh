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

/// Where a channel of V comes from: a pixel of a step of the strides, and its channel.
struct DepthChannel {
  int row, col, c;
  __device__ DepthChannel(const SpaceToDepthArgs& d, int channel)
      : row(channel / (d.stride_w * d.c)), col(channel / d.c % d.stride_w), c(channel % d.c) {}
  __device__ void advance(const SpaceToDepthArgs& d) {
    if (++c < d.c) return;
    c = 0;
    if (++col < d.stride_w) return;
    col = 0;
    ++row;
  }
};

/// Where in a filter the number is that a channel of V is multiplied with under a tap; -1: none is.
__device__ inline int filter_number_in_depth(const SpaceToDepthArgs& d, int channel, int tap) {
  const DepthChannel from(d, channel);
  const int row = tap / d.taps_w * d.stride_h + from.row;
  const int col = tap % d.taps_w * d.stride_w + from.col;
  return from.row < d.stride_h && row < d.r && col < d.s ? (row * d.s + col) * d.c + from.c : -1;
}

/// Some pixels of V, by all threads of a block.
template <class Stored, int kThreads>
__device__ inline void copy_input_to_depth(const TaskArgs& a, std::uint32_t index) {
  constexpr int kVector = 16 / static_cast<int>(sizeof(Stored));
  const SpaceToDepthArgs& d = a.depth;
  const int vectors = d.channels / kVector;
  const int first = static_cast<int>(index) * kPixelsOfDepthTask;
  const int pixels = min(kPixelsOfDepthTask, a.n * d.rows * d.cols - first);
  const auto* const x = reinterpret_cast<const Stored*>(d.x);
  uint4* const v = reinterpret_cast<uint4*>(a.v) + static_cast<std::int64_t>(first) * vectors;
  for (int i = static_cast<int>(threadIdx.x); i < pixels * vectors; i += kThreads) {
    const int pixel = first + i / vectors, line = pixel / d.cols;
    const int image = line / d.rows;
    const int first_row = (line - image * d.rows) * d.stride_h - d.pad_h;
    const int first_col = (pixel - line * d.cols) * d.stride_w - d.pad_w;
    DepthChannel from(d, i % vectors * kVector);
    alignas(16) Stored numbers[kVector];
    bool exist[kVector];
#pragma unroll
    for (int j = 0; j < kVector; ++j, from.advance(d)) {
      const int row = first_row + from.row, col = first_col + from.col;
      exist[j] = from.row < d.stride_h && static_cast<unsigned>(row) < static_cast<unsigned>(d.h) &&
                 static_cast<unsigned>(col) < static_cast<unsigned>(d.w);
      // Some number is loaded in any case, so that all are on their way at once.
      numbers[j] = x[exist[j] ? ((image * d.h + row) * d.w + col) * d.c + from.c : 0];
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
