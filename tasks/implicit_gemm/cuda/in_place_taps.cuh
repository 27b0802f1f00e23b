// SPDX-License-Identifier: Apache-2.0
// Products of implicit GEMM on operands in place where a pipeline stage of x is for one tap: the
// loop of a consumer warpgroup. A turn is as few instructions as can be, because narrow tiles are
// multiplied sooner than they run.
#pragma once

#include "tasks/cuda/wgmma.cuh"
#include "tasks/implicit_gemm/cuda/in_place_shape.cuh"

namespace megaconv::cuda {

/// Shape: an InPlaceShape.
template <class Shape>
class InPlaceTaps : protected Shape {
  using Shape::kSameInput;
  using typename Shape::Barriers, typename Shape::Number, typename Shape::Shared;

 protected:
  using InputCursor = typename Shape::InputRing::Cursor;
  using FilterCursor = typename Shape::FilterRing::Cursor;

  /// Of chunks that are a tap each. multiply(input, filter) issues the matrix instructions of a
  /// stage of x and one of filters.
  template <class Multiply>
  static __device__ __forceinline__ void multiply_taps(int chunks, bool keeps_filters,
                                                       InputCursor& input, FilterCursor& filter,
                                                       const ClusterBarriers& input_everywhere,
                                                       const Shared& shared, Multiply multiply) {
    Barriers& barriers = shared.barriers;
    const bool speaker = threadIdx.x % 32 == 0;
    const bool frees_filters = speaker && !keeps_filters;
    const int input_stages = in_register(shared.input_stages);
    const int filter_stages = in_register(shared.filter_stages);
    int last_input = 0, last_filter = 0;
    const auto release = [&] {
      if (frees_filters) barriers.filter.arrive_empty(last_filter);
      free_input(last_input, speaker, input_everywhere, barriers);
    };
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
      barriers.input.wait_full(input);
      barriers.filter.wait_full(filter);
      wgmma_fence();
      multiply(input.stage, filter.stage);
      wgmma_commit();
      wgmma_wait<1>();
      if (chunk != 0) release();
      last_input = input.stage, last_filter = filter.stage;
      input.advance(input_stages);
      filter.advance(filter_stages);
    }
    wgmma_wait<0>();
    release();
  }
  /// The products of a K block of 64 rows by so many columns.
  template <int kColumns, int kRowBytes>
  static __device__ __forceinline__ void multiply_k_block(float (&sums)[kColumns / 2],
                                                          std::uint64_t rows,
                                                          std::uint64_t columns) {
#pragma unroll
    for (int channels = 0; channels < kRowBytes; channels += kWgmmaRowBytes) {
      wgmma<kColumns, Number>(sums, advance(rows, channels), advance(columns, channels));
    }
  }
  /// By all threads of a warp, one of which speaks for it.
  static __device__ __forceinline__ void free_input(int stage, bool speaker,
                                                    const ClusterBarriers& input_everywhere,
                                                    Barriers& barriers) {
    if constexpr (kSameInput) {
      input_everywhere.arrive(stage);
    } else if (speaker) {
      barriers.input.arrive_empty(stage);
    }
  }
  /// What ptxas would otherwise load from the arguments again at every use.
  static __device__ int in_register(int value) { return __shfl_sync(0xffffffffu, value, 0); }
};

}  // namespace megaconv::cuda
