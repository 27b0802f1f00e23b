// SPDX-License-Identifier: Apache-2.0
// Pooling tasks: a thread has one output at a time, in nhwc four neighbouring channels of one where
// all channels come in fours. Neighbouring threads have neighbouring numbers of x and y. Windows
// overlap in the caches; no shared memory.
//
// An output is made of its window's numbers row by row, and in a row from left to right, as on a
// CPU: both give the same bits, but for the payload of a NaN. (Division must round to nearest, as
// it does without -use_fast_math.)
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "tasks/cuda/vec.cuh"
#include "tasks/pooling/cuda/pool_task_args.hpp"

namespace megaconv::cuda {

/// What a task computes: output pixels of one image, and channels.
struct PoolShare {
  int image, row, col, rows, cols, first_channel, num_channels;

  __device__ PoolShare(const PoolTaskArgs& a, std::uint32_t group, std::uint32_t block) {
    const auto unsigned_of = [](int value) { return static_cast<std::uint32_t>(value); };
    const std::uint32_t row_chunks = unsigned_of((a.p - 1) / a.rows_per_group + 1);
    const std::uint32_t col_chunks = unsigned_of((a.q - 1) / a.cols_per_group + 1);
    image = static_cast<int>(group / col_chunks / row_chunks);
    row = static_cast<int>(group / col_chunks % row_chunks) * a.rows_per_group;
    col = static_cast<int>(group % col_chunks) * a.cols_per_group;
    rows = min(a.rows_per_group, a.p - row);
    cols = min(a.cols_per_group, a.q - col);
    first_channel = static_cast<int>(block) * a.channels_per_task;
    num_channels = min(a.channels_per_task, a.c - first_channel);
  }
};

/// Stored: float, __half or __nv_bfloat16. Called by all kThreads threads of a block.
template <class Stored, int kThreads>
struct PoolingTask {
  static __device__ void run(const PoolTaskArgs& a, std::uint32_t group, std::uint32_t block) {
    if (a.layout == Layout::nhwc) return run_nhwc(a, group, block);
    run_mode<Layout::nchw, 1>(a, PoolShare(a, group, block));
  }
  /// For kernels that have tensors in nhwc alone.
  static __device__ void run_nhwc(const PoolTaskArgs& a, std::uint32_t group, std::uint32_t block) {
    const PoolShare share(a, group, block);
    in_fours(a) ? run_mode<Layout::nhwc, 4>(a, share) : run_mode<Layout::nhwc, 1>(a, share);
  }

 private:
  static __device__ bool in_fours(const PoolTaskArgs& a) {
    const auto addresses =
        reinterpret_cast<std::uintptr_t>(a.x) | reinterpret_cast<std::uintptr_t>(a.y);
    return a.c % 4 == 0 && a.channels_per_task % 4 == 0 && addresses % (4 * sizeof(Stored)) == 0;
  }

  template <Layout kLayout, int kWidth>
  static __device__ void run_mode(const PoolTaskArgs& a, const PoolShare& share) {
    a.mode == PoolMode::max ? run_outputs<kLayout, kWidth, true>(a, share)
                            : run_outputs<kLayout, kWidth, false>(a, share);
  }

  // kWidth channels are one output here.
  template <Layout kLayout, int kWidth, bool kMax>
  static __device__ void run_outputs(const PoolTaskArgs& a, const PoolShare& share) {
    constexpr bool kPlanes = kLayout == Layout::nchw;
    const int pixels = share.rows * share.cols, channels = share.num_channels / kWidth;
    // Distances in numbers; 64 bits wherever they are multiplied by more than a window's extent.
    const std::int64_t in_plane = static_cast<std::int64_t>(a.h) * a.w;
    const std::int64_t out_plane = static_cast<std::int64_t>(a.p) * a.q;
    const std::int64_t planes = static_cast<std::int64_t>(share.image) * a.c;  // before the image
    const Stored* const x = static_cast<const Stored*>(a.x) + planes * in_plane;
    Stored* const y = static_cast<Stored*>(a.y) + planes * out_plane;
    for (int i = static_cast<int>(threadIdx.x); i < pixels * channels; i += kThreads) {
      const int pixel = kPlanes ? i % pixels : i / channels;
      const int channel = share.first_channel + (kPlanes ? i / pixels : i % channels * kWidth);
      const int row = share.row + pixel / share.cols, col = share.col + pixel % share.cols;
      const std::int64_t out = static_cast<std::int64_t>(row) * a.q + col;
      const Vec<kWidth> output = pool<kWidth, kMax>(a, x + (kPlanes ? channel * in_plane : channel),
                                                    kPlanes ? 1 : a.c, row, col);
      store<kWidth>(y + (kPlanes ? channel * out_plane + out : out * a.c + channel), output);
    }
  }

  // x: the first channel's pixel (0, 0); pixels are `pitch` numbers apart.
  template <int kWidth, bool kMax>
  static __device__ Vec<kWidth> pool(const PoolTaskArgs& a, const Stored* x, std::int64_t pitch,
                                     int row, int col) {
    const int first_row = row * a.stride_h - a.pad_h, first_col = col * a.stride_w - a.pad_w;
    const int top = max(first_row, 0), bottom = min(first_row + a.r, a.h);
    const int left = max(first_col, 0), right = min(first_col + a.s, a.w);
    Vec<kWidth> result;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) result.lane[j] = kMax ? __uint_as_float(kMinusInfinity) : 0;
    const Stored* from = x + (static_cast<std::int64_t>(top) * a.w + left) * pitch;
    const std::int64_t to_next_row = (a.w - (right - left)) * pitch;
    int w = left, rest = (bottom - top) * (right - left);
#pragma unroll 1
    for (; rest > 0; rest -= kAtOnce) {  // all of these on their way before the first is there
      Vec<kWidth> values[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        values[i] = zero<kWidth>();
        if (i < rest) values[i] = load<kWidth>(from);
        from += pitch;
        if (++w == right) w = left, from += to_next_row;
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (i < rest) add<kWidth, kMax>(result, values[i]);
      }
    }
    if constexpr (!kMax) {
      const auto count =
          static_cast<float>(static_cast<std::int64_t>(bottom - top) * (right - left));
#pragma unroll
      for (int j = 0; j < kWidth; ++j) result.lane[j] /= count;
    }
    return result;
  }

  template <int kWidth, bool kMax>
  static __device__ void add(Vec<kWidth>& result, const Vec<kWidth>& v) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const float value = v.lane[j], so_far = result.lane[j];
      if constexpr (kMax) {  // a NaN stays; of equal numbers, the first
        result.lane[j] = value > so_far || value != value ? value : so_far;
      } else {
        result.lane[j] = so_far + value;
      }
    }
  }

  static constexpr int kAtOnce = 8;  // numbers of a window
  static constexpr std::uint32_t kMinusInfinity = 0xff800000u;
};

/// Of a node: `args` has places in `memory`.
template <class Stored, int kThreads>
__device__ __forceinline__ void run_task(PoolTaskArgs args, const NetworkMemory& memory,
                                         std::uint32_t group, std::uint32_t block) {
  become_pointers(memory, args.x, args.y);
  PoolingTask<Stored, kThreads>::run_nhwc(args, group, block);
}

}  // namespace megaconv::cuda
