// SPDX-License-Identifier: Apache-2.0
// How consumers of tall tiles convert floats: from shared memory, where TMA has put them, to FP16
// numbers in registers, as a matrix instruction takes its rows from there. Nothing is written to
// shared memory, and products are twice as fast as those of TF32.
//
// A thread has four channels of a row at a time, because it reads a vector of four floats. An
// instruction wants two and two more eight channels on; so filters have their channels in another
// order (kRegisterOrder, operand_rows.cuh). Neighbouring threads of a row read every second vector:
// eight threads, of two rows, meet all banks once.
#pragma once

#include <cuda_fp16.h>

#include "tasks/cuda/split_f16.cuh"
#include "tasks/cuda/wgmma.cuh"
#include "tasks/implicit_gemm/cuda/in_place_taps.cuh"

namespace megaconv::cuda {

/// Shape: an InPlaceShape of tall tiles whose consumers convert.
template <class Shape>
class ConvertingTaps : InPlaceTaps<Shape> {
  using typename Shape::Barriers, typename Shape::Shared;
  using Taps = InPlaceTaps<Shape>;
  using Taps::free_input, Taps::in_register;

 public:
  using typename Taps::FilterCursor, typename Taps::InputCursor;

  __device__ explicit ConvertingTaps(float scale) : scale_(scale) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int row = warp % 4 * 16 + lane / 4, vector = lane % 4 * 2 ^ lane / 4;
    own_ = row * kRowBytes + vector * 16;
  }
  /// Of all x since begin().
  __device__ MagnitudeBits largest() const { return most_.bits(); }
  __device__ void begin() { most_ = {}; }

  /// Products of some chunks. Of stages of x, a warpgroup has the rows from `first_x` on.
  template <int kFilters>
  __device__ __forceinline__ void multiply(float (&sums)[kFilters / 2], int chunks,
                                           bool keeps_filters, InputCursor& input,
                                           FilterCursor& filter, const std::byte* first_x,
                                           std::uint64_t first_u,
                                           const ClusterBarriers& input_everywhere,
                                           const Shared& shared) {
    Barriers& barriers = shared.barriers;
    const bool speaker = threadIdx.x % 32 == 0;
    const bool frees_filters = speaker && !keeps_filters;
    const int input_stages = in_register(shared.input_stages);
    const int filter_stages = in_register(shared.filter_stages);
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
      if (frees_filters && chunk != 0) barriers.filter.arrive_empty(last_filter);
      load(x + kTallPlaces * kRowBytes, second_half);
      issue<kFilters>(sums, second_half, advance(u, kSteps * kWgmmaRowBytes));
      // Its registers tell that all of the stage is there.
      free_input(input.stage, speaker, input_everywhere, barriers);
      last_filter = filter.stage;
      input.advance(input_stages);
      filter.advance(filter_stages);
      wgmma_wait<1>();
      if (chunk + 1 == chunks) break;
      x = first_x + input.stage * kStageBytes;
      barriers.input.wait_full(input);
      load(x, first_half);
    }
    wgmma_wait<0>();
    if (frees_filters) barriers.filter.arrive_empty(last_filter);
  }

 private:
  static constexpr int kRowBytes = 128;  // 32 floats of x, or 64 numbers of a filter
  static constexpr int kStageBytes = 2 * kTallPlaces * kRowBytes;
  static constexpr int kSteps = 2;  // matrix instructions of a row of x

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

  // Of the rows at `x`.
  __device__ __forceinline__ void load(const std::byte* x, std::uint32_t (&numbers)[kSteps][4]) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const auto* const row = reinterpret_cast<const float4*>(x + (own_ ^ step * 16));
      const float4 upper = row[0], lower = row[8 * kRowBytes / sizeof(float4)];
      numbers[step][0] = convert(upper.x, upper.y), numbers[step][2] = convert(upper.z, upper.w);
      numbers[step][1] = convert(lower.x, lower.y), numbers[step][3] = convert(lower.z, lower.w);
    }
  }
  __device__ std::uint32_t convert(float first, float second) {
    most_.add(first), most_.add(second);
    const __half2 both = __floats2half2_rn(first * scale_, second * scale_);
    return *reinterpret_cast<const std::uint32_t*>(&both);
  }

  const float scale_;
  int own_;  // bytes from the first row to where this thread begins to read
  LargestFinite most_;
};

}  // namespace megaconv::cuda
