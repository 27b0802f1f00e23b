// SPDX-License-Identifier: Apache-2.0
// How consumers of tall tiles split floats: from shared memory, where TMA has put them, to pairs of
// FP16 numbers in registers (split_f16.cuh), as a matrix instruction takes its rows from there.
//
// Tensor cores cut off what they add up, by a share of the sum. So the three products of a K block
// of 32 channels come to running sums, those with a low half first, which the FP32 units fold into
// the totals. Meanwhile the tensor cores serve the other warpgroup:
//
//   start the products of a K block
//   split the x of the next one             the tensor cores run on while the threads work here
//   wait for the products, fold them
#pragma once

#include "tasks/implicit_gemm/cuda/tall_rows.cuh"

namespace megaconv::cuda {

/// Shape: an InPlaceShape of tall tiles whose consumers split.
template <class Shape>
class SplittingTaps : public RowsOfFloats<Shape> {
  using typename Shape::Barriers, typename Shape::Shared;
  using Rows = RowsOfFloats<Shape>;
  using Rows::free_input, Rows::kRowBytes, Rows::kSteps;
  using typename Rows::Pipelines;

 public:
  using Rows::Rows;
  using typename Rows::FilterCursor, typename Rows::InputCursor;

  /// Products of some chunks, a K block each. Of stages of x, a warpgroup has the rows from
  /// `first_x` on.
  template <int kFilters>
  __device__ __forceinline__ void multiply(float (&totals)[kFilters / 2], int chunks,
                                           bool keeps_filters, InputCursor& input,
                                           FilterCursor& filter, const std::byte* first_x,
                                           std::uint64_t first_u,
                                           const ClusterBarriers& input_everywhere,
                                           const Shared& shared) {
    Barriers& barriers = shared.barriers;
    const Pipelines pipelines(shared, keeps_filters);
    const auto load_next = [&](Pairs& pairs) {
      barriers.input.wait_full(input);
      load(first_x + input.stage * kStageBytes, pairs);
    };
    // Of `now`; splits what comes behind it to `next`, if there is something.
    const auto multiply_k_block = [&](const Pairs& now, Pairs& next) {
      barriers.filter.wait_full(filter);
      float running[kFilters / 2];
      issue<kFilters>(running, now, advance_lower(first_u, filter.stage * (kFilters * kRowBytes)));
      // Its registers tell that all of the stage is there.
      free_input(input.stage, pipelines.speaker, input_everywhere, barriers);
      input.advance(pipelines.input_stages);
      if (--chunks != 0) load_next(next);
      wgmma_wait<0>();
      if (pipelines.frees_filters) barriers.filter.arrive_empty(filter.stage);
      filter.advance(pipelines.filter_stages);
#pragma unroll
      for (int i = 0; i < kFilters / 2; ++i) totals[i] += running[i];
      return chunks != 0;
    };
    Pairs even, odd;
    load_next(even);
#pragma unroll 1
    while (multiply_k_block(even, odd) && multiply_k_block(odd, even)) {
    }
  }

 private:
  static constexpr int kStageBytes = kTallPlaces * kRowBytes;
  static constexpr int kLowBytes = kRowBytes / 2;  // from high halves of a filter to its low ones

  struct Pairs {
    std::uint32_t high[kSteps][4], low[kSteps][4];
  };

  template <int kFilters>
  static __device__ __forceinline__ void issue(float (&sums)[kFilters / 2], const Pairs& rows,
                                               std::uint64_t u) {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const std::uint64_t high = advance(u, step * kWgmmaRowBytes);
      wgmma_rows<kFilters>(sums, rows.low[step], high, step != 0);
      wgmma_rows<kFilters>(sums, rows.high[step], advance(high, kLowBytes));
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      wgmma_rows<kFilters>(sums, rows.high[step], advance(u, step * kWgmmaRowBytes));
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void load(const std::byte* x, Pairs& pairs) {
    this->for_each_pair(x, [&](int step, int i, float first, float second) {
      const SplitPair pair = split_pair(first, second);
      pairs.high[step][i] = *reinterpret_cast<const std::uint32_t*>(&pair.high);
      pairs.low[step][i] = *reinterpret_cast<const std::uint32_t*>(&pair.low);
    });
  }
};

}  // namespace megaconv::cuda
