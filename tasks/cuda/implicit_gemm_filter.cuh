// SPDX-License-Identifier: Apache-2.0
// Filters as implicit GEMM reads them: operands (matrix_numbers.cuh), one slab of channels under
// one tap after the other.
//
//   U   [filter blocks][slabs of channels][taps][octets][filters][8 channels]   zero past the last
//       channel or filter; then
//       [K'] what undoes each filter's scale
//
// Every filter of floats has a scale of its own, a power of two that puts its largest magnitude
// just below 2^15. Low halves are multiplied by kLowScale besides, so that they, too, keep all
// their bits.
#pragma once

#include "tasks/cuda/block_pipeline.cuh"
#include "tasks/cuda/matrix_numbers.cuh"
#include "tasks/cuda/split_f16.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/vec.cuh"

namespace megaconv::cuda {

template <class Numbers, int kNumFilters>
struct ImplicitGemmFilters {
  using Number = typename Numbers::Number;
  using Stored = typename Numbers::Stored;
  static constexpr int kFilters = kNumFilters, kDepth = Numbers::kDepth;

  static __device__ std::int64_t block_size(const TaskArgs& a) {
    return static_cast<std::int64_t>(a.c_padded / kDepth) * a.r * a.s * kSlabOctets * kFilters * 8;
  }
  static __device__ Number* block(const TaskArgs& a, int index) {
    return reinterpret_cast<Number*>(a.u) + index * block_size(a);
  }
  /// [K'], behind the last block.
  static __device__ float* inverse_scales(const TaskArgs& a) {
    const int blocks = (a.k_padded + a.filters_per_gemm_task - 1) / a.filters_per_gemm_task;
    return reinterpret_cast<float*>(block(a, blocks));
  }
  /// One lane block of filters, some channels of it.
  template <int kThreads, Layout kLayout>
  static __device__ void transform(const TaskArgs& a, std::uint32_t index) {
    constexpr int kLanes = static_cast<int>(Tiling::kLaneBlock), kWarps = kThreads / 32;
    __shared__ float scales[kLanes];
    const int first_k = static_cast<int>(index) / a.filter_channel_chunks * kLanes;
    const int first_c =
        static_cast<int>(index) % a.filter_channel_chunks * a.channels_per_filter_task;
    // The last task of a lane block fills the rest of the last slab, too.
    const bool last =
        static_cast<int>(index) % a.filter_channel_chunks == a.filter_channel_chunks - 1;
    const int end_c = last ? a.c_padded : first_c + a.channels_per_filter_task;
    const int taps = a.r * a.s, size = a.c * taps;

    const auto* const w = reinterpret_cast<const Stored*>(a.w);

    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    for (int k = warp; k < kLanes; k += kWarps) {
      float scale = 1;
      if constexpr (Numbers::kScaled) {
        float most = 0;
        if (first_k + k < a.k) {
          const float* const filter = w + static_cast<std::int64_t>(first_k + k) * size;
#pragma unroll 8
          for (int i = lane; i < size; i += 32) most = fmaxf(most, finite_magnitude(filter[i]));
        }
        scale = split_scale(__reduce_max_sync(0xffffffffu, __float_as_uint(most)), 1.0f);
      }
      if (lane == 0) {
        scales[k] = scale;
        if (first_c == 0) inverse_scales(a)[first_k + k] = 1.0f / scale;
      }
    }
    __syncthreads();

    Number* const to = block(a, first_k / a.filters_per_gemm_task);
    const int first_filter = first_k % a.filters_per_gemm_task;
    const int octets = (end_c - first_c) / 8;
    for (int item = static_cast<int>(threadIdx.x); item < kLanes * octets * taps;
         item += kThreads) {
      const int k = item % kLanes, tap = item / kLanes % taps;
      const int c = first_c + item / kLanes / taps * 8;
      Number high[8], low[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const bool exists = first_k + k < a.k && c + i < a.c;
        const int at = kLayout == Layout::nchw ? (c + i) * taps + tap : tap * a.c + c + i;
        const Stored value = exists ? w[static_cast<std::int64_t>(first_k + k) * size + at]
                                    : static_cast<Stored>(0.0f);
        if constexpr (Numbers::kScaled) {
          const SplitPair pair = split_pair(value * scales[k], 0.0f);
          high[i] = __low2half(pair.high);
          low[i] = __low2half(pair.low);
        } else {
          high[i] = value;
        }
      }
      const int step = c / kDepth * taps + tap;
      Number* const place =
          to + ((static_cast<std::int64_t>(step) * kSlabOctets + c % kDepth / 8) * kFilters +
                first_filter + k) *
                   8;
      *reinterpret_cast<uint4*>(place) = *reinterpret_cast<const uint4*>(high);
      if constexpr (Numbers::kSplit) {
        *reinterpret_cast<uint4*>(place + 2 * kFilters * 8) = *reinterpret_cast<const uint4*>(low);
      }
    }
    publish_to_copy_engine();
    __syncthreads();  // `scales` may be overwritten
  }
};

}  // namespace megaconv::cuda
