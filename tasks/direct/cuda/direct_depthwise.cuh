// SPDX-License-Identifier: Apache-2.0
// Direct tasks of depthwise convolution: no sum over channels, so nothing to share but the caches.
// A thread takes kRows output rows of one column at a time, of one channel or in NHWC of four.
// Filters of 3 x 3 have a way of their own: their weights stay in registers, and every input is
// loaded once for all the rows that it counts for. Sums are added up in the same order either way.
#pragma once

#include "tasks/direct/cuda/direct.cuh"

namespace megaconv::cuda {

template <Layout kLayout, class Stored = float>
struct DepthwiseTask {
  static constexpr int kThreads = static_cast<int>(kDepthwiseShape.threads());
  static constexpr int kRows = static_cast<int>(kDepthwiseShape.h_tile);

  static __device__ void run(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
    if constexpr (kLayout == Layout::nhwc) {
      if (has_vectors(a)) return run_channels<kVector>(a, group, block);
    }
    run_channels<1>(a, group, block);
  }

 private:
  static constexpr int kVector = 4;
  static_assert(DirectFilters::kLanes % kVector == 0);

  // Whether the channels of all pixels come in whole vectors.
  static __device__ bool has_vectors(const TaskArgs& a) {
    const auto addresses = reinterpret_cast<std::uintptr_t>(a.x) |
                           reinterpret_cast<std::uintptr_t>(a.y) |
                           reinterpret_cast<std::uintptr_t>(a.residual);
    return a.c % kVector == 0 && addresses % (kVector * sizeof(Stored)) == 0;
  }

  // In threads of kChannels each.
  template <int kChannels>
  static __device__ void run_channels(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
    const bool small = a.r == 3 && a.s == 3 && a.dilation_h == 1;
    if (small && a.stride_h == 1) {
      run_filters<kChannels, 3, 1>(a, group, block);
    } else if (small && a.stride_h == 2) {
      run_filters<kChannels, 3, 2>(a, group, block);
    } else {
      run_filters<kChannels, 0, 0>(a, group, block);
    }
  }

  // With filters of kTaps x kTaps and a vertical stride of kStride; 0: any.
  template <int kChannels, int kTaps, int kStride>
  static __device__ void run_filters(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
    const PixelRect rect(a, static_cast<int>(group));
    const int first_k = static_cast<int>(block) * a.filters_per_gemm_task;
    const auto parts =
        static_cast<unsigned>(min(a.filters_per_gemm_task, a.k - first_k) / kChannels);
    const auto cols = static_cast<unsigned>(rect.cols);
    const unsigned columns = static_cast<unsigned>((rect.rows + kRows - 1) / kRows) * cols;
    const DirectOutput<kLayout, Stored> output(a, rect.image);
    for (unsigned i = threadIdx.x; i < columns * parts; i += kThreads) {
      // Neighbouring threads take neighbouring numbers of x and y.
      const unsigned outer = i / (kLayout == Layout::nchw ? columns : parts);
      const unsigned inner = i - outer * (kLayout == Layout::nchw ? columns : parts);
      const unsigned column = kLayout == Layout::nchw ? inner : outer;
      const int part = static_cast<int>(kLayout == Layout::nchw ? outer : inner);
      const int k = first_k + part * kChannels;
      const int run = static_cast<int>(column / cols), row = run * kRows;
      const int col = static_cast<int>(column) - run * rect.cols;
      const Inputs inputs(a, rect.image, k, rect.row + row, rect.col + col);
      float sums[kRows * kChannels] = {};
      if constexpr (kTaps != 0) {
        add_small<kTaps, kStride, kChannels>(a, a.u + k, inputs, sums);
      } else {
        add_any<kChannels>(a, a.u + k, inputs, sums);
      }
      output.template store_channels<kRows, kChannels>(k, rect.row + row, rect.col + col,
                                                       rect.rows - row, sums);
    }
  }

  // What a thread reads of x: channels from k on, around the first tap of the output (row, col).
  class Inputs {
   public:
    __device__ Inputs(const TaskArgs& a, int image, int k, int row, int col)
        : a_(a),
          first_h_(row * a.stride_h - a.pad_h),
          first_w_(col * a.stride_w - a.pad_w),
          x_(reinterpret_cast<const Stored*>(a.x) +
             static_cast<std::int64_t>(image) * a.c * a.h * a.w_in +
             (kPlanes ? static_cast<std::int64_t>(k) * a.h * a.w_in : k)) {}
    /// Whether all lie in the image, up to so many rows and columns further on.
    __device__ bool are_inside(int rows, int cols) const {
      return first_h_ >= 0 && first_w_ >= 0 && first_h_ + rows < a_.h && first_w_ + cols < a_.w_in;
    }
    /// So many rows and columns further on; zero beyond the image, unless all are inside.
    template <int kChannels, bool kInside = false>
    __device__ Vec<kChannels, Stored> at(int rows, int cols) const {
      const int h = first_h_ + rows, w = first_w_ + cols;
      const bool exists = kInside || (static_cast<unsigned>(h) < static_cast<unsigned>(a_.h) &&
                                      static_cast<unsigned>(w) < static_cast<unsigned>(a_.w_in));
      if (!exists) return {};
      const int pixel = h * a_.w_in + w;
      return *reinterpret_cast<const Vec<kChannels, Stored>*>(x_ + pixel * (kPlanes ? 1 : a_.c));
    }

   private:
    static constexpr bool kPlanes = kLayout == Layout::nchw;
    const TaskArgs& a_;
    const int first_h_, first_w_;
    const Stored* const x_;
  };

  // To the sums of the j-th row.
  template <int kChannels>
  static __device__ void add(const Vec<kChannels, Stored>& input, const Vec<kChannels>& weights,
                             float (&sums)[kRows * kChannels], int j) {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      float& sum = sums[j * kChannels + i];
      sum = fmaf(static_cast<float>(input.lane[i]), weights.lane[i], sum);
    }
  }

  // Adds the products of kTaps x kTaps taps, input row by input row.
  template <int kTaps, int kStride, int kChannels>
  static __device__ void add_small(const TaskArgs& a, const float* u, const Inputs& inputs,
                                   float (&sums)[kRows * kChannels]) {
    const int padded_k = DirectFilters(a).padded;
    constexpr int kInputRows = (kRows - 1) * kStride + kTaps;
    Vec<kChannels> weights[kTaps][kTaps];
#pragma unroll
    for (int r = 0; r < kTaps; ++r) {
#pragma unroll
      for (int s = 0; s < kTaps; ++s) {
        weights[r][s] = load<kChannels>(u + (r * kTaps + s) * padded_k);
      }
    }
    const auto add_rows = [&](auto input_at) {
#pragma unroll
      for (int row = 0; row < kInputRows; ++row) {
#pragma unroll
        for (int s = 0; s < kTaps; ++s) {
          const auto input = input_at(row, s * a.dilation_w);
#pragma unroll
          for (int j = 0; j < kRows; ++j) {
            const int r = row - j * kStride;
            if (r >= 0 && r < kTaps) add<kChannels>(input, weights[r][s], sums, j);
          }
        }
      }
    };
    // Checks cost the loads of several channels more than a second copy of the code.
    if (kChannels > 1 && inputs.are_inside(kInputRows - 1, (kTaps - 1) * a.dilation_w)) {
      add_rows([&](int row, int col) { return inputs.template at<kChannels, true>(row, col); });
    } else {
      add_rows([&](int row, int col) { return inputs.template at<kChannels>(row, col); });
    }
  }

  // Adds the products of any filter, tap by tap.
  template <int kChannels>
  static __device__ void add_any(const TaskArgs& a, const float* u, const Inputs& inputs,
                                 float (&sums)[kRows * kChannels]) {
    const int padded_k = DirectFilters(a).padded;
    for (int r = 0; r < a.r; ++r) {
      for (int s = 0; s < a.s; ++s, u += padded_k) {
        const Vec<kChannels> weights = load<kChannels>(u);
#pragma unroll
        for (int j = 0; j < kRows; ++j) {
          add<kChannels>(
              inputs.template at<kChannels>(j * a.stride_h + r * a.dilation_h, s * a.dilation_w),
              weights, sums, j);
        }
      }
    }
  }
};

}  // namespace megaconv::cuda
