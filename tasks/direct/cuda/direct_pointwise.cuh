// SPDX-License-Identifier: Apache-2.0
// Direct tasks of 1x1 filters on few channels, in NHWC: what takes time is to write y. A thread has
// four neighbouring filters of eight neighbouring pixels, or one. Neighbouring threads have the
// next filters of the same pixels, so they read the same x. Nothing passes through shared memory.
#pragma once

#include "tasks/direct/cuda/direct.cuh"

namespace megaconv::cuda {

template <class Stored = float>
struct PointwiseTask {
  static constexpr int kThreads = kPointwiseThreads;

  static __device__ void run(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
    using Vector = Vec<4, Stored>;
    const bool filters = a.k % 4 == 0 && are_aligned<Vector>(a.y, a.residual, a.scale, a.bias);
    const bool channels = a.c % 4 == 0 && are_aligned<Vector>(a.x);
    if (filters) {
      channels ? run_threads<4, 4>(a, group, block) : run_threads<4, 1>(a, group, block);
    } else {
      channels ? run_threads<1, 4>(a, group, block) : run_threads<1, 1>(a, group, block);
    }
  }

 private:
  static constexpr int kPixels = kPointwisePixels, kChannels = 8;
  // Whose channels a thread loads together.
  template <int kFilters>
  static constexpr int kPixelsAtOnce = kFilters == 1 ? kPixels : 4;

  // Of kFilters each, which load kVector channels together.
  template <int kFilters, int kVector>
  static __device__ void run_threads(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
    const PixelRect rect(a, group);
    const int first_k = static_cast<int>(block) * a.filters_per_gemm_task;
    const int parts = min(a.filters_per_gemm_task, a.k - first_k) / kFilters;
    const PixelLines lines(a, rect);
    const int runs = (lines.length + kPixels - 1) / kPixels;
    const DirectOutput<Layout::nhwc, Stored> output(a, rect.image);
    for (int i = static_cast<int>(threadIdx.x); i < lines.count * runs * parts; i += kThreads) {
      const int run = bounded_quotient(i, parts),
                line = lines.count == 1 ? 0 : bounded_quotient(run, runs);
      const int k = first_k + (i - run * parts) * kFilters;
      const int row = rect.row + line, pixel = (run - line * runs) * kPixels;
      const int num_pixels = lines.length - pixel;
      const std::int64_t first =
          (static_cast<std::int64_t>(rect.image) * a.p + row) * a.q + rect.col + pixel;
      float sums[kPixels * kFilters] = {};
      add<kFilters, kVector>(a, first, num_pixels, k, sums);
      output.template store_channels<1, kPixels, kFilters>(k, row, rect.col + pixel, 1, num_pixels,
                                                           sums);
    }
  }

  // Adds the products of all channels.
  template <int kFilters, int kVector>
  static __device__ void add(const TaskArgs& a, std::int64_t first, int num_pixels, int k,
                             float (&sums)[kPixels * kFilters]) {
    const Stored* const x = reinterpret_cast<const Stored*>(a.x) + first * a.c;
    for (int c = 0; c < a.c; c += kChannels) {
      Vec<kFilters> weights[kChannels];
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        weights[i] = load_if<kFilters>(c + i < a.c, a.u + (c + i) * a.k_padded + k);
      }
#pragma unroll
      for (int pixel = 0; pixel < kPixels; pixel += kPixelsAtOnce<kFilters>) {
        add_some<kFilters, kVector>(x + c, a.c, a.c - c, pixel, num_pixels, weights, sums);
      }
    }
  }

  // Of some pixels from `first` on, and channels. So many exist; pixels are `pitch` numbers apart.
  template <int kFilters, int kVector>
  static __device__ void add_some(const Stored* x, int pitch, int num_channels, int first,
                                  int num_pixels, const Vec<kFilters> (&weights)[kChannels],
                                  float (&sums)[kPixels * kFilters]) {
    Vec<kVector, Stored> inputs[kPixelsAtOnce<kFilters>][kChannels / kVector];
#pragma unroll
    for (int pixel = 0; pixel < kPixelsAtOnce<kFilters>; ++pixel) {
#pragma unroll
      for (int i = 0; i < kChannels; i += kVector) {
        inputs[pixel][i / kVector] = load_if<kVector>(
            first + pixel < num_pixels && i < num_channels, x + (first + pixel) * pitch + i);
      }
    }
#pragma unroll
    for (int pixel = 0; pixel < kPixelsAtOnce<kFilters>; ++pixel) {
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        const float input = to_floats(inputs[pixel][i / kVector]).lane[i % kVector];
#pragma unroll
        for (int j = 0; j < kFilters; ++j) {
          float& sum = sums[(first + pixel) * kFilters + j];
          sum = fmaf(input, weights[i].lane[j], sum);
        }
      }
    }
  }
};

}  // namespace megaconv::cuda
