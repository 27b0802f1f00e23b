// SPDX-License-Identifier: Apache-2.0
// How the outputs of implicit GEMM reach y. A warp's sums are spread over its threads in a way that
// would store a few bytes here and there; through shared memory they become long runs that begin
// where sectors of 32 bytes do. (H200, n64c32h208k64: 1.2 ms with runs of 128 bytes that begin
// anywhere, 0.8 ms with aligned ones.)
#pragma once

#include <cstdint>

#include "mapping/stripes.hpp"
#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/vec.cuh"

namespace megaconv::cuda {

/// Some places of a stripe.
struct PlaceRange {
  int stripe, first, end;
};

/// A block of outputs of one warp: kFilters filters of kPlaces places, whose sums, scaled and with
/// bias, are put into shared memory and then stored with the rest of the epilogue.
template <class Stored, Layout kLayout>
class OutputRun {
 public:
  static constexpr bool kNchw = kLayout == Layout::nchw;
  static constexpr int kFilters = kNchw ? 8 : 16, kPlaces = kNchw ? 128 : 32;
  /// Rows in shared memory are filters (NCHW) or places (NHWC), padded against bank conflicts.
  static constexpr int kPitch = kNchw ? kPlaces + 8 : kFilters + 4;
  static constexpr int kSize = kPitch * (kNchw ? kFilters : kPlaces);

  /// Two neighbouring places of a filter; `place` is even.
  static __device__ void put(float* values, int filter, int place, float first, float second) {
    if constexpr (kNchw) {
      *reinterpret_cast<float2*>(&values[filter * kPitch + place]) = {first, second};
    } else {
      values[place * kPitch + filter] = first;
      values[(place + 1) * kPitch + filter] = second;
    }
  }

  /// For filters from first_k on, of which those below end_k exist.
  __device__ OutputRun(const TaskArgs& a, int first_k, int end_k)
      : a_(a),
        y_(reinterpret_cast<Stored*>(a.y)),
        residual_(reinterpret_cast<const Stored*>(a.residual)),
        first_k_(first_k),
        num_filters_(min(kFilters, end_k - first_k)) {}

  /// Stores what exists of the places.
  __device__ void store(const float* values, const PlaceRange& places) const {
    if constexpr (kNchw) {
      store_planes(values, places);
    } else {
      store_pixels(values, places);
    }
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }

  // NCHW. What lies side by side in y: with one stripe, the outputs of an image; else, of a row.
  __device__ void store_planes(const float* values, const PlaceRange& places) const {
    const Stripes& s = a_.stripes;
    const bool whole = s.cols >= a_.q;
    for (int place = places.first; place < places.end;) {
      const auto [image, row, col] = s.position(place);
      if (image >= a_.n) return;
      const int line_end = place - col + s.pitch;
      const int image_end = whole ? (image + 1) * s.period * s.pitch : line_end;
      const int end = min(places.end, image_end);
      int index = 0, count = 0;
      if (whole) {
        const int rows_left = end == image_end ? s.period : end / s.pitch % s.period;
        const int cols_left = end == image_end ? 0 : end % s.pitch;
        index = outputs_before(row, col);
        count = outputs_before(rows_left, cols_left) - index;
      } else if (row < a_.p) {
        const int first_col = places.stripe * s.cols;
        index = row * a_.q + first_col + col;
        count = min(end - place, min(s.cols, a_.q - first_col) - col);
      }
      store_neighbours(values, image, index, count, [&](int i) {
        if (!whole) return place + i - places.first;
        const int r = (index + i) / a_.q, c = (index + i) % a_.q;
        return (image * s.period + r) * s.pitch + c - places.first;
      });
      place = end;
    }
  }

  // Outputs of an image in front of a place.
  __device__ int outputs_before(int row, int col) const {
    return row >= a_.p ? a_.p * a_.q : row * a_.q + min(col, a_.q);
  }

  // `count` outputs from `index` of an image on; place_of(i) is where the i-th lies in `values`.
  template <class PlaceOf>
  __device__ void store_neighbours(const float* values, int image, int index, int count,
                                   PlaceOf place_of) const {
    constexpr int kSector = 32 / sizeof(Stored);
    const std::int64_t pixels = static_cast<std::int64_t>(a_.p) * a_.q;
    const std::int64_t first =
        (static_cast<std::int64_t>(image) * a_.k + first_k_) * pixels + index;
    const int phase =
        static_cast<int>(reinterpret_cast<std::uintptr_t>(y_ + first) / sizeof(Stored) % kSector);
    for (int i = lane() - phase; i < count; i += 32) {
      if (i < 0) continue;
      const float* const value = values + place_of(i);
      float run[kFilters];
#pragma unroll
      for (int f = 0; f < kFilters; ++f) run[f] = value[f * kPitch];
      if (residual_ != nullptr) {
        const Stored* residual = residual_ + first + i;
#pragma unroll
        for (int f = 0; f < kFilters; ++f, residual += pixels) {
          if (f < num_filters_) run[f] += static_cast<float>(*residual);
        }
      }
      if (a_.relu) {
#pragma unroll
        for (float& output : run) output = fmaxf(output, 0.0f);
      }
      Stored* y = y_ + first + i;
#pragma unroll
      for (int f = 0; f < kFilters; ++f, y += pixels) {
        if (f < num_filters_) *y = static_cast<Stored>(run[f]);
      }
    }
  }

  // NHWC. Four threads have the filters of a place.
  __device__ void store_pixels(const float* values, const PlaceRange& places) const {
    const Stripes& s = a_.stripes;
    const bool in_runs = a_.k % 4 == 0 && aligned(y_) && aligned(residual_);
    const int filter = lane() % 4 * 4, num_filters = num_filters_ - filter;
#pragma unroll
    for (int i = 0; i < kPlaces; i += 8) {
      const int place = places.first + i + lane() / 4;
      const auto [image, row, col] = s.position(place);
      const int out_col = places.stripe * s.cols + col;
      const bool exists =
          place < places.end && image < a_.n && row < a_.p && col < s.cols && out_col < a_.q;
      if (!exists || num_filters <= 0) continue;
      const std::int64_t pixel = (static_cast<std::int64_t>(image) * a_.p + row) * a_.q + out_col;
      const std::int64_t at = pixel * a_.k + first_k_ + filter;
      Vec<4> run = load<4>(&values[(i + lane() / 4) * kPitch + filter]);
      if (in_runs && num_filters >= 4) {
        if (residual_ != nullptr) {
          const auto residual = *reinterpret_cast<const Vec<4, Stored>*>(residual_ + at);
#pragma unroll
          for (int f = 0; f < 4; ++f) run.lane[f] += static_cast<float>(residual.lane[f]);
        }
        if (a_.relu) {
#pragma unroll
          for (float& output : run.lane) output = fmaxf(output, 0.0f);
        }
        Vec<4, Stored> stored;
#pragma unroll
        for (int f = 0; f < 4; ++f) stored.lane[f] = static_cast<Stored>(run.lane[f]);
        *reinterpret_cast<Vec<4, Stored>*>(y_ + at) = stored;
        continue;
      }
#pragma unroll
      for (int f = 0; f < 4; ++f) {
        if (f >= num_filters) continue;
        if (residual_ != nullptr) run.lane[f] += static_cast<float>(residual_[at + f]);
        y_[at + f] = static_cast<Stored>(a_.relu ? fmaxf(run.lane[f], 0.0f) : run.lane[f]);
      }
    }
  }

  static __device__ bool aligned(const Stored* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % sizeof(Vec<4, Stored>) == 0;
  }

  const TaskArgs& a_;
  Stored* y_;
  const Stored* residual_;
  int first_k_, num_filters_;
};

}  // namespace megaconv::cuda
