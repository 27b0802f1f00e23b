// SPDX-License-Identifier: Apache-2.0
// How consumers of tall tiles convert floats: to FP16 numbers in registers (tall_rows.cuh).
// Products are twice as fast as those of TF32.
#pragma once

#include "tasks/implicit_gemm/cuda/tall_rows.cuh"

namespace megaconv::cuda {

/// Shape: an InPlaceShape of tall tiles whose consumers convert.
template <class Shape>
class ConvertingTaps : public RowsOfFloats<Shape> {
  using typename Shape::Barriers, typename Shape::Shared;
  using Rows = RowsOfFloats<Shape>;
  using Rows::free_input, Rows::kRowBytes, Rows::kSteps;
  using typename Rows::Pipelines;

 public:
  using Rows::Rows;
  using typename Rows::FilterCursor, typename Rows::InputCursor;

  /// Products of some chunks. Of stages of x, a warpgroup has the rows from `first_x` on.
  template <int kFilters>
  __device__ __forceinline__ void multiply(float (&sums)[kFilters / 2], int chunks,
                                           bool keeps_filters, InputCursor& input,
                                           FilterCursor& filter, const std::byte* first_x,
                                           std::uint64_t first_u,
                                           const ClusterBarriers& input_everywhere,
                                           const Shared& shared) {
    Barriers& barriers = shared.barriers;
    const Pipelines pipelines(shared, keeps_filters);
    std::uint32_t first_half[kSteps][4], second_half[kSteps][4];
    const std::byte* x = first_x + input.stage * kStageBytes;
    barriers.input.wait_full(input);
    load(x, first_half);
    int last_filter = 0;
#pragma unroll 1
    for (int chunk = 0;; ++chunk) {
      barriers.filter.wait_full(filter);
      const std::uint64_t u = advance_lower(first_u, filter.stage * (kFilters * kRowBytes));
      issue<kFilters>(sums, first_half, u);
      wgmma_wait<1>();
      if (pipelines.frees_filters && chunk != 0) barriers.filter.arrive_empty(last_filter);
      load(x + kTallPlaces * kRowBytes, second_half);
      issue<kFilters>(sums, second_half, advance(u, kSteps * kWgmmaRowBytes));
      // Its registers tell that all of the stage is there.
      free_input(input.stage, pipelines.speaker, input_everywhere, barriers);
      last_filter = filter.stage;
      input.advance(pipelines.input_stages);
      filter.advance(pipelines.filter_stages);
      wgmma_wait<1>();
      if (chunk + 1 == chunks) break;
      x = first_x + input.stage * kStageBytes;
      barriers.input.wait_full(input);
      load(x, first_half);
    }
    wgmma_wait<0>();
    if (pipelines.frees_filters) barriers.filter.arrive_empty(last_filter);
  }

 private:
  static constexpr int kStageBytes = 2 * kTallPlaces * kRowBytes;

  template <int kFilters>
  static __device__ __forceinline__ void issue(float (&sums)[kFilters / 2],
                                               const std::uint32_t (&rows)[kSteps][4],
                                               std::uint64_t u) {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      wgmma_rows<kFilters>(sums, rows[step], advance(u, step * kWgmmaRowBytes));
    }
    wgmma_commit();
  }

  __device__ __forceinline__ void load(const std::byte* x, std::uint32_t (&numbers)[kSteps][4]) {
    this->for_each_pair(x, [&](int step, int i, float first, float second) {
      const __half2 both = __floats2half2_rn(first, second);
      numbers[step][i] = *reinterpret_cast<const std::uint32_t*>(&both);
    });
  }
};

}  // namespace megaconv::cuda
