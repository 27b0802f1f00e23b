// SPDX-License-Identifier: Apache-2.0
// Pooling tasks: a thread has one output at a time, in nhwc neighbouring channels of one where all
// channels come so: 16 bytes, or 4 of a large window, so that more of it is on its way at once.
// Neighbouring threads have neighbouring numbers of x and y. Windows overlap in the caches; no
// shared memory.
//
// An output is made of its window's numbers row by row, and in a row from left to right, as on a
// CPU: both give the same bits, but for the payload of a NaN. (Division must round to nearest, as
// it does without -use_fast_math.)
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "tasks/cuda/vec.cuh"
#include "tasks/pooling/cuda/pool_numbers.cuh"
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

/// Stored: float, __half or __nv_bfloat16. Called by all kThreads threads of a block. wait():
/// returns to all of them when x may be read.
template <class Stored, int kThreads>
struct PoolingTask {
  template <class Wait>
  static __device__ void run(const PoolTaskArgs& a, std::uint32_t group, std::uint32_t block,
                             Wait wait) {
    const Tensors tensors{static_cast<const Stored*>(a.x), static_cast<Stored*>(a.y)};
    if (a.layout == Layout::nhwc) return run_nhwc(a, tensors, group, block, wait);
    run_outputs<Layout::nchw>(a, tensors, PoolShare(a, group, block), 1, wait);
  }
  /// What a.x and a.y stand for.
  struct Tensors {
    const Stored* x;
    Stored* y;
  };
  /// For kernels that have tensors in nhwc alone.
  template <class Wait>
  static __device__ void run_nhwc(const PoolTaskArgs& a, const Tensors& tensors,
                                  std::uint32_t group, std::uint32_t block, Wait wait) {
    const PoolShare share(a, group, block);
    // A large window takes fewer turns in words, if every thread then has one output at most.
    const bool is_small = a.r <= 3 && a.s <= 3;
    const int words = share.rows * share.cols * (share.num_channels / kWord);
    const bool is_wide = comes_in(a, tensors, kWide) && (is_small || words > kThreads);
    run_outputs<Layout::nhwc>(a, tensors, share,
                              is_wide                       ? kWide
                              : comes_in(a, tensors, kWord) ? kWord
                                                            : 1,
                              wait);
  }

 private:
  static constexpr int kWord = static_cast<int>(4 / sizeof(Stored)), kWide = 4 * kWord;
  // Numbers of a window that are on their way at once: a window of 3x3, and half of one of 7x7.
  template <int kWidth>
  static constexpr int kAtOnce = kWidth > kWord ? 9 : 25;

  static __device__ bool comes_in(const PoolTaskArgs& a, const Tensors& tensors, int width) {
    const auto addresses =
        reinterpret_cast<std::uintptr_t>(tensors.x) | reinterpret_cast<std::uintptr_t>(tensors.y);
    const auto mask = static_cast<unsigned>(width - 1);  // width is a power of two
    return ((static_cast<unsigned>(a.c) | static_cast<unsigned>(a.channels_per_task)) & mask) ==
               0 &&
           addresses % (static_cast<unsigned>(width) * sizeof(Stored)) == 0;
  }

  /// The part of a window that is in the image.
  struct Window {
    const Stored* from;            ///< its first number
    std::int64_t pitch, next_row;  ///< to the next number; from behind a row to the next one
    int cols, count;               ///< numbers of a row, and in all
    Stored* y;
  };

  // `width` channels are one output here. The first window is found before the wait.
  template <Layout kLayout, class Wait>
  static __device__ void run_outputs(const PoolTaskArgs& a, const Tensors& tensors,
                                     const PoolShare& share, int width, Wait wait) {
    const int outputs = share.rows * share.cols * (share.num_channels / width);
    int i = static_cast<int>(threadIdx.x);
#pragma unroll 1
    for (bool waits = true; waits || i < outputs; waits = false, i += kThreads) {
      const Window window = window_of<kLayout>(a, tensors, share, width, min(i, outputs - 1));
      if (waits) wait();
      if (i >= outputs) return;
      if (kLayout == Layout::nhwc && width == kWide) {
        pool<kWide>(a, window);
      } else if (kLayout == Layout::nhwc && kWord > 1 && width == kWord) {
        pool<kWord>(a, window);
      } else {
        pool<1>(a, window);
      }
    }
  }

  template <Layout kLayout>
  static __device__ Window window_of(const PoolTaskArgs& a, const Tensors& tensors,
                                     const PoolShare& share, int width, int output) {
    constexpr bool kPlanes = kLayout == Layout::nchw;
    const auto i = static_cast<unsigned>(output);
    const auto cols = static_cast<unsigned>(share.cols);
    const unsigned pixels = static_cast<unsigned>(share.rows) * cols;
    const unsigned channels = static_cast<unsigned>(share.num_channels / width);
    const unsigned pixel = kPlanes ? i % pixels : i / channels;
    const int channel =
        share.first_channel + static_cast<int>(kPlanes ? i / pixels : i % channels) * width;
    const int row = share.row + static_cast<int>(pixel / cols);
    const int col = share.col + static_cast<int>(pixel % cols);
    const int first_row = row * a.stride_h - a.pad_h, first_col = col * a.stride_w - a.pad_w;
    const int top = max(first_row, 0), bottom = min(first_row + a.r, a.h);
    const int left = max(first_col, 0), right = min(first_col + a.s, a.w);
    // Distances in numbers; 64 bits wherever they are multiplied by more than a window's extent.
    const std::int64_t in_plane = static_cast<std::int64_t>(a.h) * a.w;
    const std::int64_t out_plane = static_cast<std::int64_t>(a.p) * a.q;
    const std::int64_t planes = static_cast<std::int64_t>(share.image) * a.c;  // before the image
    const std::int64_t in = static_cast<std::int64_t>(top) * a.w + left;
    const std::int64_t out = static_cast<std::int64_t>(row) * a.q + col;
    const auto place = [&](std::int64_t plane, std::int64_t at) {
      return planes * plane + (kPlanes ? channel * plane + at : at * a.c + channel);
    };
    Window window{};
    window.from = tensors.x + place(in_plane, in);
    window.pitch = kPlanes ? 1 : a.c;
    window.cols = right - left;
    window.next_row = (a.w - window.cols) * window.pitch;
    window.count = (bottom - top) * window.cols;
    window.y = tensors.y + place(out_plane, out);
    return window;
  }

  template <int kWidth>
  static __device__ void pool(const PoolTaskArgs& a, const Window& window) {
    a.mode == PoolMode::max ? pool<kWidth, true>(window) : pool<kWidth, false>(window);
  }
  template <int kWidth, bool kMax>
  static __device__ void pool(const Window& window) {
    Vec<kWidth> result = empty_pool<kWidth, kMax>();
    // Past the last number there is none, or the first one again. With a branch here and where they
    // are added, the compiler waits for four words at a time, without it for four times 16 bytes.
    constexpr bool kBranches = kWidth > kWord;
    const Stored* from = window.from;
    int left = window.cols;  // of the row
#pragma unroll 1
    for (int rest = window.count; rest > 0; rest -= kAtOnce<kWidth>) {
      Vec<kWidth, Stored> values[kAtOnce<kWidth>];  // all on their way before the first is there
#pragma unroll
      for (int i = 0; i < kAtOnce<kWidth>; ++i) {
        values[i] = kBranches ? load_if<kWidth>(i < rest, from)
                              : load_if<kWidth>(true, i < rest ? from : window.from);
        from += window.pitch;
        if (--left == 0) left = window.cols, from += window.next_row;
      }
#pragma unroll
      for (int i = 0; i < kAtOnce<kWidth>; ++i) {
        if (kBranches && i >= rest) continue;
        add_to_pool<kMax>(result, to_floats(values[i]), i < rest);
      }
    }
    if constexpr (!kMax) {
      const auto count = static_cast<float>(window.count);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) result.lane[j] /= count;
    }
    store<kWidth>(window.y, result);
  }
};

/// Of a node: `args` has places in `memory`. These are read where they are used: copies of them all
/// would cost registers that the kernel of a network does not have.
template <class Stored, int kThreads, class Wait>
__device__ __forceinline__ void run_task(const PoolTaskArgs& args, const NetworkMemory& memory,
                                         std::uint32_t group, std::uint32_t block, Wait wait) {
  PoolingTask<Stored, kThreads>::run_nhwc(args,
                                          {static_cast<const Stored*>(pointer_to(memory, args.x)),
                                           static_cast<Stored*>(pointer_to(memory, args.y))},
                                          group, block, wait);
}

}  // namespace megaconv::cuda
