// SPDX-License-Identifier: Apache-2.0
// Filters as implicit GEMM reads them: operands (matrix_numbers.cuh), one K block under
// one tap after the other.
//
//   U   [filter blocks][K blocks][taps][octets][filters][8 channels]   zero past the last
//       channel or filter, and in channels of other conv groups than the filter's; then an
//       OperandFooter, if numbers are scaled. Channels and taps may be those of space to depth
//
// Floats are scaled by a guess (scale_guess.cuh).
#pragma once

#include "tasks/cuda/block_pipeline.cuh"
#include "tasks/cuda/matrix_numbers.cuh"
#include "tasks/cuda/scale_guess.cuh"
#include "tasks/cuda/split_f16.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/implicit_gemm/cuda/space_to_depth.cuh"

namespace megaconv::cuda {

template <class Numbers, int kNumFilters>
struct ImplicitGemmFilters {
  using Number = typename Numbers::Number;
  using Stored = typename Numbers::Stored;
  static constexpr int kFilters = kNumFilters, kDepth = Numbers::kDepth;
  static constexpr int kLanes = static_cast<int>(Tiling::kLaneBlock);

  static __device__ std::int64_t block_size(const TaskArgs& a) {
    return static_cast<std::int64_t>(a.c_padded / kDepth) * a.r * a.s * kKBlockOctets * kFilters *
           8;
  }
  static __device__ Number* block(const TaskArgs& a, int index) {
    return reinterpret_cast<Number*>(a.u) + index * block_size(a);
  }
  /// Behind the last block.
  static __device__ OperandFooter& footer(const TaskArgs& a) {
    const int blocks = (a.k_padded + a.filters_per_gemm_task - 1) / a.filters_per_gemm_task;
    return *reinterpret_cast<OperandFooter*>(block(a, blocks));
  }

  /// Some taps of a lane block of filters, in some channels: as they lie in w, on their way to
  /// threads that each gather eight channels of a tap.
  struct Part {
    static constexpr int kNumbers = 1024, kPitch = kNumbers + 1;  // of a filter; no bank conflicts
    Stored value[kLanes][kPitch];
  };

  /// One lane block of filters, some channels of it.
  template <int kThreads, Layout kLayout>
  static __device__ void transform(const TaskArgs& a, std::uint32_t index, Part& part) {
    const int first_k = static_cast<int>(index) / a.filter_channel_chunks * kLanes;
    const int first_c =
        static_cast<int>(index) % a.filter_channel_chunks * a.channels_per_filter_task;
    // The last task of a lane block fills the rest of the last K block, too.
    const bool last =
        static_cast<int>(index) % a.filter_channel_chunks == a.filter_channel_chunks - 1;
    const int end_c = last ? a.c_padded : first_c + a.channels_per_filter_task;
    const int taps = a.r * a.s;
    LargestFinite most;
    // As many taps of as many octets as there is room for.
    constexpr int kOctets = Part::kNumbers / 8;
    const int part_taps = min(taps, kOctets), part_octets = kOctets / part_taps;
    for (int tap = 0; tap < taps; tap += part_taps) {
      for (int c = first_c; c < end_c; c += part_octets * 8) {
        const Extent extent{c, min(part_octets * 8, end_c - c), tap, min(part_taps, taps - tap)};
        load<kThreads, kLayout>(a, first_k, extent, part);
        __syncthreads();
        store<kThreads, kLayout>(a, first_k, extent, part, most);
        __syncthreads();
      }
    }
    publish_to_copy_engine();
    if constexpr (Numbers::kScaled) {
      note_magnitude<kThreads>(most.bits(), &footer(a).most[index]);
      if (index == 0 && threadIdx.x == 0) footer(a).scale = a.w_scale;
    }
  }

 private:
  struct Extent {
    int first_c, num_c, first_tap, num_taps;
    // Of a number in a row of Part: the order of w.
    template <Layout kLayout>
    __device__ int index(int c, int tap) const {
      return kLayout == Layout::nchw ? c * num_taps + tap : tap * num_c + c;
    }
  };

  // A warp reads one filter after the other, neighbouring threads what lies side by side.
  template <int kThreads, Layout kLayout>
  static __device__ void load(const TaskArgs& a, int first_k, const Extent& extent, Part& part) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int taps = a.r * a.s, num_numbers = extent.num_c * extent.num_taps;
    const auto* const w = reinterpret_cast<const Stored*>(a.w);
    const int own_c = a.c / a.groups, own_k = a.k / a.groups;  // of a conv group
    const SpaceToDepthArgs& d = a.depth;
    const bool in_depth = kLayout == Layout::nhwc && d.channels != 0;
    const int filter_numbers = in_depth ? d.r * d.s * d.c : own_c * taps;
    for (int k = warp; k < kLanes; k += kThreads / 32) {
      const bool exists = first_k + k < a.k;
      const Stored* const filter = w + static_cast<std::int64_t>(first_k + k) * filter_numbers;
      // From the channels of all conv groups that are multiplied as one to the filter's.
      const int skipped = (first_k + k) % a.filters_at_once / own_k * own_c;
      const bool nchw = kLayout == Layout::nchw;
      const int inner = nchw ? extent.num_taps : extent.num_c;
      // All on their way before the first one is waited for, of few numbers, too.
      constexpr int kAtOnce = 8;
      for (int begin = lane; begin < num_numbers; begin += kAtOnce * 32) {
        Stored numbers[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const int i = begin + j * 32, outer = i / inner, rest = i % inner;
          const int c = extent.first_c + (nchw ? outer : rest) - skipped;
          const int tap = extent.first_tap + (nchw ? rest : outer);
          const int from = nchw       ? c * taps + tap
                           : in_depth ? filter_number_in_depth(d, c, tap)
                                      : tap * own_c + c;
          const bool is_own = static_cast<unsigned>(c) < static_cast<unsigned>(own_c) && from >= 0;
          numbers[j] =
              exists && is_own && i < num_numbers ? filter[from] : static_cast<Stored>(0.0f);
        }
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          if (begin + j * 32 < num_numbers) part.value[k][begin + j * 32] = numbers[j];
        }
      }
    }
  }

  template <int kThreads, Layout kLayout>
  static __device__ void store(const TaskArgs& a, int first_k, const Extent& extent,
                               const Part& part, LargestFinite& most) {
    Number* const to =
        block(a, first_k / a.filters_per_gemm_task) + first_k % a.filters_per_gemm_task * 8;
    const int taps = a.r * a.s;
    const int num_items = kLanes * extent.num_taps * extent.num_c / 8;
    for (int item = static_cast<int>(threadIdx.x); item < num_items; item += kThreads) {
      const int k = item % kLanes, tap = item / kLanes % extent.num_taps;
      const int octet = item / kLanes / extent.num_taps;
      alignas(16) Number high[8], low[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const Stored value = part.value[k][extent.template index<kLayout>(octet * 8 + i, tap)];
        if constexpr (Numbers::kScaled) {
          most.add(value);
          const SplitPair pair = split_pair(value * a.w_scale, 0.0f);
          high[i] = __low2half(pair.high);
          low[i] = __low2half(pair.low);
        } else {
          high[i] = value;
        }
      }
      const int c = extent.first_c + octet * 8;
      const int step = c / kDepth * taps + extent.first_tap + tap;
      Number* const place =
          to +
          ((static_cast<std::int64_t>(step) * kKBlockOctets + c % kDepth / 8) * kFilters + k) * 8;
      *reinterpret_cast<uint4*>(place) = *reinterpret_cast<const uint4*>(high);
      if constexpr (Numbers::kSplit) {
        *reinterpret_cast<uint4*>(place + 2 * kFilters * 8) = *reinterpret_cast<const uint4*>(low);
      }
    }
  }
};

}  // namespace megaconv::cuda
