// SPDX-License-Identifier: Apache-2.0
// How the outputs of tensor tiles reach y: a warp's sums are spread over its threads in a way that
// would store a few bytes here and there; through shared memory they become long runs.
#pragma once

#include <cstdint>

#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/vec.cuh"

namespace megaconv::cuda {

/// An output pixel: its image, and its number in it. May be none.
struct OutputPixel {
  bool exists;
  int image, index;
};

/// A warp's outputs, 16 filters of 32 places, on their way from shared memory to y.
template <Layout kLayout>
class OutputRun {
 public:
  static constexpr int kFilters = 16, kPlaces = 32;
  /// Rows in shared memory are filters (NCHW) or places (NHWC), padded so that neither writing nor
  /// reading meets bank conflicts.
  static constexpr int kPitch = kLayout == Layout::nchw ? kPlaces + 8 : kFilters + 4;
  static constexpr int kSize = kLayout == Layout::nchw ? kFilters * kPitch : kPlaces * kPitch;
  static __device__ int index(int filter, int place) {
    return kLayout == Layout::nchw ? filter * kPitch + place : place * kPitch + filter;
  }

  /// Two neighbouring places of a filter; `place` is even.
  static __device__ void put(float* values, int filter, int place, float first, float second) {
    if constexpr (kLayout == Layout::nchw) {
      *reinterpret_cast<float2*>(&values[index(filter, place)]) = {first, second};
    } else {
      values[index(filter, place)] = first;
      values[index(filter, place + 1)] = second;
    }
  }

  __device__ OutputRun(const TaskArgs& a, int first_k, int end_k)
      : a_(a),
        first_k_(first_k),
        num_filters_(min(kFilters, end_k - first_k)),
        pixels_(a.p * a.q),
        in_runs_(a.k % 4 == 0 && aligned(a.y) && aligned(a.residual)) {}

  /// pixel_of(place): row a.q + col in its image, and the image; false in a gap.
  template <class PixelOf>
  __device__ void store(const float* values, PixelOf pixel_of) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (kLayout == Layout::nchw) {
      const OutputPixel pixel = pixel_of(lane);
      if (!pixel.exists) return;
      const std::int64_t first =
          (static_cast<std::int64_t>(pixel.image) * a_.k + first_k_) * pixels_ + pixel.index;
      float run[kFilters];
#pragma unroll
      for (int i = 0; i < kFilters; ++i) run[i] = values[index(i, lane)];
      if (a_.residual != nullptr) {
        const float* residual = a_.residual + first;
#pragma unroll
        for (int i = 0; i < kFilters; ++i, residual += pixels_) {
          if (i < num_filters_) run[i] += *residual;
        }
      }
      if (a_.relu) {
#pragma unroll
        for (float& value : run) value = fmaxf(value, 0.0f);
      }
      float* y = a_.y + first;
      if (num_filters_ >= kFilters) {
#pragma unroll
        for (int i = 0; i < kFilters; ++i, y += pixels_) *y = run[i];
      } else {
#pragma unroll
        for (int i = 0; i < kFilters; ++i, y += pixels_) {
          if (i < num_filters_) *y = run[i];
        }
      }
    } else {
      const int filter = lane % 4 * 4, num_filters = num_filters_ - filter;
#pragma unroll
      for (int i = 0; i < kPlaces; i += 8) {
        const int place = i + lane / 4;
        const OutputPixel pixel = pixel_of(place);
        if (!pixel.exists) continue;
        const std::int64_t at =
            (static_cast<std::int64_t>(pixel.image) * pixels_ + pixel.index) * a_.k + first_k_ +
            filter;
        const Vec<4> run = load<4>(&values[index(filter, place)]);
        if (in_runs_ && num_filters >= 4) {
          store_four(at, run);
          continue;
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (j < num_filters) store_one(at + j, run.lane[j]);
        }
      }
    }
  }

 private:
  static __device__ bool aligned(const float* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % sizeof(Vec<4>) == 0;
  }
  __device__ void store_one(std::int64_t at, float sum) const {
    if (a_.residual != nullptr) sum += a_.residual[at];
    a_.y[at] = a_.relu ? fmaxf(sum, 0.0f) : sum;
  }
  __device__ void store_four(std::int64_t at, Vec<4> sums) const {
    const Vec<4> residual = a_.residual != nullptr ? load<4>(a_.residual + at) : zero<4>();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums.lane[i] += residual.lane[i];
      if (a_.relu) sums.lane[i] = fmaxf(sums.lane[i], 0.0f);
    }
    cuda::store(a_.y + at, sums);
  }

  const TaskArgs& a_;
  int first_k_, num_filters_, pixels_;
  bool in_runs_;
};

}  // namespace megaconv::cuda
