// SPDX-License-Identifier: Apache-2.0
// Direct tasks of depthwise convolution: no sum over channels, so nothing to share but the caches.
// A thread takes kRows output rows of one column and channel at a time, which share their weights
// and their way through the taps.
#pragma once

#include "tasks/direct/cuda/direct.cuh"

namespace megaconv::cuda {

template <Layout kLayout, class Stored = float>
struct DepthwiseTask {
  static constexpr int kThreads = static_cast<int>(kDepthwiseShape.threads());
  static constexpr int kRows = static_cast<int>(kDepthwiseShape.h_tile);

  static __device__ void run(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
    const PixelRect rect(a, static_cast<int>(group));
    const int first_k = static_cast<int>(block) * a.filters_per_gemm_task;
    const int num_k = min(a.filters_per_gemm_task, a.k - first_k);
    const int runs = (rect.rows + kRows - 1) / kRows, columns = runs * rect.cols;
    const DirectOutput<kLayout, Stored> output(a, rect.image);
    for (int i = static_cast<int>(threadIdx.x); i < columns * num_k; i += kThreads) {
      // Neighbouring threads take neighbouring numbers of x and y.
      const int k = first_k + (kLayout == Layout::nchw ? i / columns : i % num_k);
      const int column = kLayout == Layout::nchw ? i % columns : i / num_k;
      const int row = column / rect.cols * kRows, col = column % rect.cols;
      float sums[kRows];
      add_taps(a, rect.image, k, rect.row + row, rect.col + col, sums);
#pragma unroll
      for (int j = 0; j < kRows; ++j) {
        if (row + j < rect.rows) {
          output.store_one(k, rect.row + row + j, rect.col + col, sums[j]);
        }
      }
    }
  }

 private:
  // Sums of the outputs (row, col), (row + 1, col), ... of channel k.
  static __device__ void add_taps(const TaskArgs& a, int image, int k, int row, int col,
                                  float (&sums)[kRows]) {
    constexpr bool kPlanes = kLayout == Layout::nchw;
    const int pixel_stride = kPlanes ? 1 : a.c, row_stride = a.w_in * pixel_stride;
    const Stored* const x = reinterpret_cast<const Stored*>(a.x) +
                            static_cast<std::int64_t>(image) * a.c * a.h * a.w_in +
                            (kPlanes ? static_cast<std::int64_t>(k) * a.h * a.w_in : k);
    const int padded_k = DirectFilters(a).padded;
    const float* u = a.u + k;  // of the tap
    const int first_w = col * a.stride_w - a.pad_w;
#pragma unroll
    for (int j = 0; j < kRows; ++j) sums[j] = 0;
    for (int r = 0; r < a.r; ++r) {
      int offset[kRows];
      bool inside[kRows];
#pragma unroll
      for (int j = 0; j < kRows; ++j) {
        const int h = (row + j) * a.stride_h - a.pad_h + r * a.dilation_h;
        inside[j] = static_cast<unsigned>(h) < static_cast<unsigned>(a.h);
        offset[j] = h * row_stride;
      }
      for (int s = 0; s < a.s; ++s, u += padded_k) {
        const int w = first_w + s * a.dilation_w;
        if (static_cast<unsigned>(w) >= static_cast<unsigned>(a.w_in)) continue;
        const float weight = *u;
#pragma unroll
        for (int j = 0; j < kRows; ++j) {
          if (!inside[j]) continue;
          sums[j] = fmaf(static_cast<float>(x[offset[j] + w * pixel_stride]), weight, sums[j]);
        }
      }
    }
  }
};

}  // namespace megaconv::cuda
