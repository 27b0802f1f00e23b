// SPDX-License-Identifier: Apache-2.0
// The sums of a depthwise tile: kRows x kCols outputs of a thread, of some channels. A number of x
// is loaded once for all outputs of the tile that it counts for in the column of taps at hand.
// Filters of 3 x 3 keep all their weights in registers, so that it is loaded once for the whole
// tile. Inputs says where x lies: at<kChannels>(rows, cols) is what there is so many rows and
// columns from the tile's first tap, from(cols) the same from further on.
#pragma once

#include "tasks/cuda/vec.cuh"

namespace megaconv::cuda {

/// All weights of kTaps x kTaps taps.
template <int kTaps, int kChannels>
struct DepthwiseWeights {
  Vec<kChannels> taps[kTaps][kTaps];

  /// u: those of the first tap; `pitch` further on are those of the next one.
  __device__ void load_from(const float* u, int pitch) {
#pragma unroll
    for (int r = 0; r < kTaps; ++r) {
#pragma unroll
      for (int s = 0; s < kTaps; ++s) taps[r][s] = load<kChannels>(u + (r * kTaps + s) * pitch);
    }
  }
};

template <int kRows, int kCols, int kChannels>
struct DepthwiseSums {
  float outputs[kRows * kCols * kChannels] = {};

  /// The products of kTaps x kTaps taps, input row by input row.
  template <int kStride, int kTaps, class Inputs>
  __device__ void add_all(const DepthwiseWeights<kTaps, kChannels>& weights, const Inputs& inputs) {
    constexpr int kInputRows = (kRows - 1) * kStride + kTaps;
    constexpr int kInputCols = (kCols - 1) * kStride + kTaps;
#pragma unroll
    for (int h = 0; h < kInputRows; ++h) {
      decltype(inputs.template at<kChannels>(0, 0)) stored[kInputCols];
#pragma unroll
      for (int w = 0; w < kInputCols; ++w) stored[w] = inputs.template at<kChannels>(h, w);
#pragma unroll
      for (int w = 0; w < kInputCols; ++w) {
        const Vec<kChannels> input = to_floats(stored[w]);
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
#pragma unroll
          for (int col = 0; col < kCols; ++col) {
            const int r = h - row * kStride, s = w - col * kStride;
            if (r < 0 || r >= kTaps || s < 0 || s >= kTaps) continue;
            add(input, weights.taps[r][s], row, col);
          }
        }
      }
    }
  }

  /// The products of kTaps rows of `cols` taps each, column by column of them. What `u` points to,
  /// and `pitch`: as above. Neighbouring outputs, and taps, read x so many columns apart.
  template <int kTaps, int kStride, class Inputs>
  __device__ void add_columns(const float* u, int pitch, int cols, int stride, int dilation,
                              const Inputs& inputs) {
    constexpr int kInputRows = (kRows - 1) * kStride + kTaps;
#pragma unroll 1
    for (int s = 0; s < cols; ++s, u += pitch) {
      Vec<kChannels> weights[kTaps];
#pragma unroll
      for (int r = 0; r < kTaps; ++r) weights[r] = load<kChannels>(u + r * cols * pitch);
#pragma unroll
      for (int col = 0; col < kCols; ++col) {
        const Inputs column = inputs.from(col * stride + s * dilation);
#pragma unroll
        for (int h = 0; h < kInputRows; ++h) {
          const Vec<kChannels> input = to_floats(column.template at<kChannels>(h, 0));
#pragma unroll
          for (int row = 0; row < kRows; ++row) {
            const int r = h - row * kStride;
            if (r >= 0 && r < kTaps) add(input, weights[r], row, col);
          }
        }
      }
    }
  }

  /// To the output (row, col).
  __device__ void add(const Vec<kChannels>& input, const Vec<kChannels>& weights, int row,
                      int col) {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      float& sum = outputs[(row * kCols + col) * kChannels + i];
      sum = fmaf(input.lane[i], weights.lane[i], sum);
    }
  }
};

}  // namespace megaconv::cuda
