// SPDX-License-Identifier: Apache-2.0
// Direct tasks of depthwise convolution: no sum over channels, so nothing to share but the caches.
// A thread takes tiles of kRows x kCols outputs, of one channel or in NHWC of four
// (depthwise_sums.cuh). What is hard to hide is latency: rows of loads are on their way before the
// first is used. Where TMA loads x, it is hidden (depthwise_boxes.cuh).
#pragma once

#include "tasks/direct/cuda/depthwise_sums.cuh"
#include "tasks/direct/cuda/direct.cuh"

namespace megaconv::cuda {

template <Layout kLayout, class Stored = float>
struct DepthwiseTask {
  static constexpr DirectShape kTile = depthwise_shape(kLayout);
  static constexpr int kThreads = kTile.threads();
  static constexpr int kRows = kTile.h_tile, kCols = kTile.w_tile;

  static __device__ void run(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
    if constexpr (kVector > 1) {
      if (has_vectors(a)) return run_channels<kVector>(a, group, block);
    }
    run_channels<1>(a, group, block);
  }

  /// In threads of kChannels each, with filters of kTaps rows and a vertical stride of kStride; 0:
  /// any. All tensors are aligned to vectors of so many channels.
  template <int kChannels, int kTaps, int kStride>
  static __device__ void run_filters(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
    const PixelRect rect(a, group);
    const int first_k = static_cast<int>(block) * a.filters_per_gemm_task;
    const int parts = min(a.filters_per_gemm_task, a.k - first_k) / kChannels;
    const int down = (rect.rows + kRows - 1) / kRows, across = (rect.cols + kCols - 1) / kCols;
    const int tiles = down * across;
    const DirectOutput<kLayout, Stored> output(a, rect.image);
    for (int i = static_cast<int>(threadIdx.x); i < tiles * parts; i += kThreads) {
      // Neighbouring threads take neighbouring numbers of x and y; the next ones in NHWC the tile
      // below, with which they share rows.
      const bool nchw = kLayout == Layout::nchw;
      const int outer = bounded_quotient(i, nchw ? tiles : parts);
      const int inner = i - outer * (nchw ? tiles : parts);
      const int tile = nchw ? inner : outer, line = bounded_quotient(tile, nchw ? across : down);
      const int in_line = tile - line * (nchw ? across : down);
      const int k = first_k + (nchw ? outer : inner) * kChannels;
      const int row = (nchw ? line : in_line) * kRows, col = (nchw ? in_line : line) * kCols;
      const Inputs inputs(a, rect.image, k, rect.row + row, rect.col + col);
      Sums<kChannels> sums;
      if constexpr (kTaps == 3) {
        DepthwiseWeights<kTaps, kChannels> weights;
        weights.load_from(a.u + k, a.k_padded);
        sums.template add_all<kStride>(weights, inputs);
      } else if constexpr (kTaps != 0) {
        sums.template add_columns<kTaps, kStride>(a.u + k, a.k_padded, a.s, a.stride_w,
                                                  a.dilation_w, inputs);
      } else {
        add_any<kChannels>(a, a.u + k, inputs, sums);
      }
      output.template store_channels<kRows, kCols, kChannels>(
          k, rect.row + row, rect.col + col, rect.rows - row, rect.cols - col, sums.outputs);
    }
  }

 private:
  static constexpr int kVector = kTile.i_tile;
  static_assert(DirectFilters::kLanes % kVector == 0);

  template <int kChannels>
  using Sums = DepthwiseSums<kRows, kCols, kChannels>;

  // Whether the channels of all pixels come in whole vectors.
  static __device__ bool has_vectors(const TaskArgs& a) {
    const bool aligned = are_aligned<Vec<kVector, Stored>>(a.x, a.y, a.residual, a.scale, a.bias);
    return a.c % kVector == 0 && aligned;
  }

  // In threads of kChannels each.
  template <int kChannels>
  static __device__ void run_channels(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
    const bool square = a.r == a.s && a.stride_h == a.stride_w && a.dilation_w == 1;
    const auto has = [&](int taps, int stride) {
      return a.r == taps && a.stride_h == stride && a.dilation_h == 1 && (square || taps != 3);
    };
    if (has(3, 1)) return run_filters<kChannels, 3, 1>(a, group, block);
    if (has(3, 2)) return run_filters<kChannels, 3, 2>(a, group, block);
    if (has(5, 1)) return run_filters<kChannels, 5, 1>(a, group, block);
    if (has(5, 2)) return run_filters<kChannels, 5, 2>(a, group, block);
    if (has(7, 1)) return run_filters<kChannels, 7, 1>(a, group, block);
    if (has(7, 2)) return run_filters<kChannels, 7, 2>(a, group, block);
    run_filters<kChannels, 0, 0>(a, group, block);
  }

  // What a thread reads of x: channels from k on, around the first tap of the output (row, col).
  class Inputs {
   public:
    __device__ Inputs(const TaskArgs& a, int image, int k, int row, int col)
        : first_h_(row * a.stride_h - a.pad_h),
          first_w_(col * a.stride_w - a.pad_w),
          h_(a.h),
          w_(a.w_in),
          to_next_col_(kPlanes ? 1 : a.c),
          to_next_row_(to_next_col_ * a.w_in),
          first_(reinterpret_cast<const Stored*>(a.x) + place(a, image, k)) {}
    /// So many columns further on.
    __device__ Inputs from(int cols) const {
      Inputs other = *this;
      other.first_w_ += cols;
      other.first_ += cols * to_next_col_;
      return other;
    }
    /// So many rows and columns further on; zero beyond the image.
    template <int kChannels>
    __device__ Vec<kChannels, Stored> at(int rows, int cols) const {
      return load_if<kChannels>(has_row(rows) && has_col(cols),
                                first_ + rows * to_next_row_ + cols * to_next_col_);
    }

   private:
    static constexpr bool kPlanes = kLayout == Layout::nchw;
    // Of the first tap, from x on.
    __device__ std::int64_t place(const TaskArgs& a, int image, int k) const {
      const int pixel = first_h_ * w_ + first_w_;
      const std::int64_t plane = a.h * a.w_in;
      return kPlanes ? (static_cast<std::int64_t>(image) * a.c + k) * plane + pixel
                     : (image * plane + pixel) * a.c + k;
    }
    __device__ bool has_row(int rows) const {
      return static_cast<unsigned>(first_h_ + rows) < static_cast<unsigned>(h_);
    }
    __device__ bool has_col(int cols) const {
      return static_cast<unsigned>(first_w_ + cols) < static_cast<unsigned>(w_);
    }
    int first_h_, first_w_, h_, w_, to_next_col_, to_next_row_;
    const Stored* first_;
  };

  // Adds the products of any filter, tap by tap.
  template <int kChannels>
  static __device__ void add_any(const TaskArgs& a, const float* u, const Inputs& inputs,
                                 Sums<kChannels>& sums) {
    for (int r = 0; r < a.r; ++r) {
      for (int s = 0; s < a.s; ++s, u += a.k_padded) {
        const Vec<kChannels> weights = load<kChannels>(u);
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
#pragma unroll
          for (int col = 0; col < kCols; ++col) {
            const auto input = inputs.template at<kChannels>(row * a.stride_h + r * a.dilation_h,
                                                             col * a.stride_w + s * a.dilation_w);
            sums.add(to_floats(input), weights, row, col);
          }
        }
      }
    }
  }
};

}  // namespace megaconv::cuda
