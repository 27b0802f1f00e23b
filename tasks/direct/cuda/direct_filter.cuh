// SPDX-License-Identifier: Apache-2.0
// What all direct kernels share: how filters are packed, and how outputs are stored.
//
//   U   [conv groups][terms][filters']   filters' of a conv group, rounded up to
//   Tiling::kLaneBlock,
//                                        zero past the last
//
// Depthwise convolution counts as one conv group of K filters with R S terms each.
#pragma once

#include "tasks/cuda/activation.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/vec.cuh"

namespace megaconv::cuda {

/// The filters of one conv group.
struct DirectFilters {
  int count, padded, terms;

  __device__ explicit DirectFilters(const TaskArgs& a) {
    const bool depthwise = a.groups == a.c && a.groups == a.k;
    count = depthwise ? a.k : a.k / a.groups;
    padded = (count + kLanes - 1) / kLanes * kLanes;
    terms = a.c / a.groups * a.r * a.s;
  }
  static constexpr int kLanes = static_cast<int>(Tiling::kLaneBlock);
};

/// Filter tasks: w turned over, filters_per_filter_task filters of it, as floats.
template <int kThreads, class Stored = float>
__device__ inline void pack_direct_filters(const TaskArgs& a, std::uint32_t block) {
  constexpr int kLanes = DirectFilters::kLanes;
  const DirectFilters filters(a);
  const int begin = static_cast<int>(block) * a.filters_per_filter_task;
  const int end = min(begin + a.filters_per_filter_task, a.k_padded);
  for (int first = begin; first < end; first += kLanes) {
    const std::int64_t conv_group = first / filters.padded;
    const int own = first % filters.padded;  // of the lane block's first filter in its group
    const Stored* const w =
        reinterpret_cast<const Stored*>(a.w) + (conv_group * filters.count + own) * filters.terms;
    float* const u = a.u + conv_group * filters.terms * filters.padded + own;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < filters.terms * kLanes; i += kThreads) {
      const int term = i / kLanes, lane = i % kLanes;
      const bool exists = own + lane < filters.count;
      u[static_cast<std::int64_t>(term) * filters.padded + lane] =
          exists ? static_cast<float>(w[static_cast<std::int64_t>(lane) * filters.terms + term])
                 : 0.0f;
    }
  }
}

/// Stores outputs of one image with the epilogue.
template <Layout kLayout, class Stored = float>
class DirectOutput {
 public:
  __device__ DirectOutput(const TaskArgs& a, int image)
      : a_(a),
        y_(reinterpret_cast<Stored*>(a.y)),
        residual_(reinterpret_cast<const Stored*>(a.residual)),
        scale_(reinterpret_cast<const Stored*>(a.scale)),
        bias_(reinterpret_cast<const Stored*>(a.bias)),
        image_(static_cast<std::int64_t>(image) * a.k * a.p * a.q),
        in_runs_((kLayout == Layout::nchw ? a.q : a.k) % 4 == 0 && aligned(y_) &&
                 aligned(residual_)) {}

  /// Four columns from (row, col), of which num_cols exist, by four filters from k, of which
  /// num_filters exist. sum(column, filter)
  template <class Sum>
  __device__ void store(int k, int num_filters, int row, int col, int num_cols, Sum sum) const {
    const bool whole = num_cols >= 4 && num_filters >= 4;
    if (in_runs_ && whole && (kLayout == Layout::nchw ? col : k) % 4 == 0) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {  // filter (NCHW) or column (NHWC)
        const bool nchw = kLayout == Layout::nchw;
        const std::int64_t at = nchw ? place(k + i, row, col) : place(k, row, col + i);
        Vec<4> residual = residual_ != nullptr ? load<4>(residual_ + at) : zero<4>();
        Vec<4> run;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          run.lane[j] = nchw ? finish(sum(j, i), k + i, residual.lane[j])
                             : finish(sum(i, j), k + j, residual.lane[j]);
        }
        cuda::store(y_ + at, run);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (i < num_cols && j < num_filters) store_one(k + j, row, col + i, sum(i, j));
      }
    }
  }

  __device__ void store_one(int k, int row, int col, float sum) const {
    float sums[] = {sum};
    store_channels<1, 1, 1>(k, row, col, 1, 1, sums);
  }
  /// Some rows and columns, of which num_rows and num_cols exist: channels k and on, which are
  /// neighbours if there are several (NHWC, all tensors aligned to them).
  template <int kRows, int kCols, int kChannels>
  __device__ void store_channels(int k, int row, int col, int num_rows, int num_cols,
                                 float (&sums)[kRows * kCols * kChannels]) const {
    if (scale_ != nullptr || bias_ != nullptr) {
      const auto scale = scale_ != nullptr ? load<kChannels>(scale_ + k) : ones<kChannels>();
      const auto bias = bias_ != nullptr ? load<kChannels>(bias_ + k) : zero<kChannels>();
#pragma unroll
      for (int i = 0; i < kRows * kCols * kChannels; ++i) {
        sums[i] = sums[i] * scale.lane[i % kChannels] + bias.lane[i % kChannels];
      }
    }
    const std::int64_t at = place(k, row, col);
    const int to_next_col = kLayout == Layout::nchw ? 1 : a_.k, to_next_row = a_.q * to_next_col;
    if (residual_ != nullptr) {
#pragma unroll
      for (int i = 0; i < kRows * kCols; ++i) {
        const int down = i / kCols, across = i % kCols;
        const auto residual = to_floats(
            load_if<kChannels>(down < num_rows && across < num_cols,
                               residual_ + at + down * to_next_row + across * to_next_col));
#pragma unroll
        for (int j = 0; j < kChannels; ++j) sums[i * kChannels + j] += residual.lane[j];
      }
    }
    activate(a_.activation, sums);
    Stored* y = y_ + at;
#pragma unroll
    for (int i = 0; i < kRows; ++i, y += to_next_row) {
#pragma unroll
      for (int j = 0; j < kCols; ++j) {
        Vec<kChannels> one;
#pragma unroll
        for (int l = 0; l < kChannels; ++l) one.lane[l] = sums[(i * kCols + j) * kChannels + l];
        store_if(i < num_rows && j < num_cols, y + j * to_next_col, one);
      }
    }
  }

 private:
  template <int kChannels>
  static __device__ Vec<kChannels> ones() {
    Vec<kChannels> result;
#pragma unroll
    for (float& lane : result.lane) lane = 1;
    return result;
  }
  static __device__ bool aligned(const Stored* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % sizeof(Vec<4, Stored>) == 0;
  }
  __device__ std::int64_t place(int k, int row, int col) const {
    const int pixel = row * a_.q + col;
    return image_ + (kLayout == Layout::nchw ? static_cast<std::int64_t>(k) * a_.p * a_.q + pixel
                                             : static_cast<std::int64_t>(pixel) * a_.k + k);
  }
  __device__ float finish(float sum, int k, float residual) const {
    if (scale_ != nullptr) sum *= static_cast<float>(scale_[k]);
    if (bias_ != nullptr) sum += static_cast<float>(bias_[k]);
    sum += residual;
    return activate(a_.activation, sum);
  }

  const TaskArgs& a_;
  Stored* const y_;
  const Stored *const residual_, *const scale_, *const bias_;
  std::int64_t image_;
  bool in_runs_;
};

}  // namespace megaconv::cuda
