// SPDX-License-Identifier: Apache-2.0
// How consumers of tall tiles take floats from shared memory, where TMA has put them, to registers,
// as a matrix instruction takes its rows from there. Nothing is written to shared memory.
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

/// Shape: an InPlaceShape of tall tiles whose consumers make FP16 numbers of floats.
template <class Shape>
class RowsOfFloats : protected InPlaceTaps<Shape> {
  using InPlaceTaps<Shape>::in_register;

 public:
  __device__ explicit RowsOfFloats(float scale) : scale_(scale) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int row = warp % 4 * 16 + lane / 4, vector = lane % 4 * 2 ^ lane / 4;
    own_ = row * kRowBytes + vector * 16;
  }
  /// Of all x since begin().
  __device__ MagnitudeBits largest() const { return most_.bits(); }
  __device__ void begin() { most_ = {}; }

 protected:
  static constexpr int kRowBytes = 128;  // 32 floats of x, or 64 numbers of a filter
  static constexpr int kSteps = 2;       // matrix instructions of a row of x

  /// How a loop goes through the pipelines; a thread speaks for its warp.
  struct Pipelines {
    __device__ Pipelines(const typename Shape::Shared& shared, bool keeps_filters)
        : speaker(threadIdx.x % 32 == 0),
          frees_filters(speaker && !keeps_filters),
          input_stages(in_register(shared.input_stages)),
          filter_stages(in_register(shared.filter_stages)) {}
    const bool speaker, frees_filters;
    const int input_stages, filter_stages;
  };

  /// Calls take(step, register, number, next) for the registers of each instruction, of the rows at
  /// `x`; numbers are scaled.
  template <class Take>
  __device__ __forceinline__ void for_each_pair(const std::byte* x, Take&& take) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const auto* const row = reinterpret_cast<const float4*>(x + (own_ ^ step * 16));
      const float4 upper = row[0], lower = row[8 * kRowBytes / sizeof(float4)];
      const auto take_scaled = [&](int i, float first, float second) {
        most_.add(first), most_.add(second);
        take(step, i, first * scale_, second * scale_);
      };
      take_scaled(0, upper.x, upper.y), take_scaled(2, upper.z, upper.w);
      take_scaled(1, lower.x, lower.y), take_scaled(3, lower.z, lower.w);
    }
  }

 private:
  const float scale_;
  int own_;  // bytes from the first row to where this thread begins to read
  LargestFinite most_;
};

}  // namespace megaconv::cuda
