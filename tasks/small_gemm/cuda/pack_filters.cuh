// SPDX-License-Identifier: Apache-2.0
// Packs filters that are on the device, to the bits of pack_filters() (small_gemm.hpp). A block has
// one filter, or one of the rows of zeros behind the last filter.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tasks/cuda/block_pipeline.cuh"
#include "tasks/cuda/split_f16.cuh"
#include "tasks/small_gemm/cuda/products.cuh"
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"
#include "tasks/small_gemm/filter_places.hpp"

namespace megaconv::cuda {

template <class Products>
class FilterPacking {
 public:
  static constexpr int kThreads = kFilterPackingThreads;
  struct Shared {
    MagnitudeBits most[kThreads / 32];
  };

  /// By all threads of a block. `u`: packed filters; `w`: [K][R][S][C / groups].
  static __device__ void run(const FilterPlaces& of, const void* w, void* u, std::int64_t filter,
                             Shared& shared) {
    const auto* const numbers = static_cast<const Bits*>(w);
    float scale = 1;
    if constexpr (Products::kConverts) {
      scale = scale_of(of, numbers, filter, shared);
      if (threadIdx.x == 0 && filter < of.filters) {
        auto* const scales = reinterpret_cast<float*>(static_cast<char*>(u) + of.scales_at);
        scales[filter] = 1 / scale;
      }
    }
    auto* const words = static_cast<std::uint32_t*>(u);
    const std::int64_t block = filter / of.filters_per_task;
    const std::int64_t row = filter % of.filters_per_task;
    const std::int64_t tile = row / SmallGemmCut::kWarpFilters, in_tile = row % kHalf;
    const std::int64_t half = row % SmallGemmCut::kWarpFilters / kHalf;
    const std::int64_t tiles = of.filters_per_task / SmallGemmCut::kWarpFilters;
    constexpr std::int64_t kPairs = kStepNumbers / 2, kQuarterPairs = kPairs / kQuarters;
    for (std::int64_t i = threadIdx.x; i < of.k_blocks * of.steps * kPairs; i += kThreads) {
      const std::int64_t pair = i % kPairs, step = i / kPairs % of.steps;
      const std::int64_t k_block = i / kPairs / of.steps;
      const std::int64_t lane = in_tile * kQuarters + pair / kQuarterPairs;
      const std::int64_t instruction = pair % kQuarterPairs / 2;
      const std::int64_t word = pair % 2 * 2 + half;
      const std::int64_t first = ((block * of.k_blocks + k_block) * tiles + tile) * of.steps + step;
      const std::int64_t to =
          (first * of.parts * FilterPlaces::kPartNumbers +
           instruction * FilterPlaces::kInstructionNumbers + lane * FilterPlaces::kLaneNumbers) /
              2 +
          word;
      const std::int64_t places[2] = {of.at(block, filter, k_block, step, 2 * pair),
                                      of.at(block, filter, k_block, step, 2 * pair + 1)};
      if constexpr (Products::kConverts) {
        const SplitPair values = split(places, numbers, scale);
        words[to] = reinterpret_cast<const std::uint32_t&>(values.high);
        if constexpr (Products::kPairs) {
          words[to + FilterPlaces::kPartNumbers / 2] =
              reinterpret_cast<const std::uint32_t&>(values.low);
        }
      } else {
        const std::uint32_t second = places[1] < 0 ? 0 : numbers[places[1]];
        words[to] = (places[0] < 0 ? 0 : numbers[places[0]]) | second << 16;
      }
    }
    publish_to_copy_engine();
  }

 private:
  using Bits = std::conditional_t<Products::kConverts, float, std::uint16_t>;
  static constexpr std::int64_t kQuarters = FilterPlaces::kQuarters;
  static constexpr std::int64_t kHalf = FilterPlaces::kHalfFilters;

  static __device__ SplitPair split(const std::int64_t (&places)[2], const float* w, float scale) {
    const auto number = [&](int i) { return places[i] < 0 ? 0 : w[places[i]] * scale; };
    const auto rest = [](float value, float high) {
      const bool finite = (__float_as_uint(value) & kInfinityBits) != kInfinityBits;
      return finite ? (value - high) * 0x1p11f : 0.0f;
    };
    const float first = number(0), second = number(1);
    const __half2 high = __floats2half2_rn(first, second);
    const float2 of_high = __half22float2(high);
    return {high, __floats2half2_rn(rest(first, of_high.x), rest(second, of_high.y))};
  }

  // A power of two that brings the largest finite number of the filter just below 2^15.
  static __device__ float scale_of(const FilterPlaces& of, const float* w, std::int64_t filter,
                                   Shared& shared) {
    const std::int64_t count = of.rows * of.cols * of.channels;
    LargestFinite largest;
    if (filter < of.filters) {
      for (std::int64_t i = threadIdx.x; i < count; i += kThreads) {
        largest.add(w[filter * count + i]);
      }
    }
    const MagnitudeBits of_warp = __reduce_max_sync(~0u, largest.bits());
    if (threadIdx.x % 32 == 0) shared.most[threadIdx.x / 32] = of_warp;
    __syncthreads();
    MagnitudeBits most = 0;
    for (const MagnitudeBits bits : shared.most) most = max(most, bits);
    constexpr int kMantissaBits = 23, kBias = 127;
    const int exponent = static_cast<int>(most >> kMantissaBits) - kBias;
    const int power = min(max(14 - exponent, -100), 100);
    return most == 0 ? 1 : __uint_as_float(static_cast<unsigned>(power + kBias) << kMantissaBits);
  }
};

}  // namespace megaconv::cuda
