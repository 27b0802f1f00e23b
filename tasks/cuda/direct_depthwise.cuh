// SPDX-License-Identifier: Apache-2.0
// Direct tasks of depthwise convolution: no sum over channels, so nothing to share but the caches;
// a thread takes one output after the other. Bound by memory.
#pragma once

#include "tasks/cuda/direct.cuh"

namespace megaconv::cuda {

template <Layout kLayout>
struct DepthwiseTask {
  static constexpr int kThreads = static_cast<int>(kDepthwiseShape.threads());

  static __device__ void run(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
    const PixelRect rect(a, static_cast<int>(group));
    const int first_k = static_cast<int>(block) * a.filters_per_gemm_task;
    const int num_k = min(a.filters_per_gemm_task, a.k - first_k);
    const DirectFilters filters(a);
    const DirectOutput<kLayout> output(a, rect.image);
    const float* const x = a.x + static_cast<std::int64_t>(rect.image) * a.c * a.h * a.w_in;
    for (int i = static_cast<int>(threadIdx.x); i < rect.rows * rect.cols * num_k; i += kThreads) {
      // Neighbouring threads take neighbouring floats of y.
      const int pixels = rect.rows * rect.cols;
      const int k = first_k + (kLayout == Layout::nchw ? i / pixels : i % num_k);
      const int pixel = kLayout == Layout::nchw ? i % pixels : i / num_k;
      const int row = rect.row + pixel / rect.cols, col = rect.col + pixel % rect.cols;
      const int first_h = row * a.stride_h - a.pad_h, first_w = col * a.stride_w - a.pad_w;
      float sum = 0;
      for (int r = 0; r < a.r; ++r) {
        const int h = first_h + r * a.dilation_h;
        if (h < 0 || h >= a.h) continue;
        for (int s = 0; s < a.s; ++s) {
          const int w = first_w + s * a.dilation_w;
          if (w < 0 || w >= a.w_in) continue;
          const int at =
              kLayout == Layout::nchw ? (k * a.h + h) * a.w_in + w : (h * a.w_in + w) * a.c + k;
          sum = fmaf(x[at], a.u[static_cast<std::int64_t>(r * a.s + s) * filters.padded + k], sum);
        }
      }
      output.store_one(k, row, col, sum);
    }
  }
};

}  // namespace megaconv::cuda
