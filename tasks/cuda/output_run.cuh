// SPDX-License-Identifier: Apache-2.0
// How the outputs of implicit GEMM reach y. A warp's sums are spread over its threads in a way that
// would store a few bytes here and there; through shared memory they become long runs that begin
// where sectors of 32 bytes do. (H200, n64c32h208k64: 1.2 ms with runs of 128 bytes that begin
// anywhere, 0.8 ms with aligned ones.)
#pragma once

#include <cstdint>

#include "tasks/cuda/activation.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/vec.cuh"
#include "tasks/implicit_gemm/stripes.hpp"

namespace megaconv::cuda {

/// Some padded pixels of a stripe, and some filters.
struct PlaceRange {
  int stripe, first, end;
};
struct FilterRange {
  int first, end;
};

/// Where the outputs of a run of padded pixels lie in y: a table that a warp fills, once for all
/// filters. The padded pixels that an output exists for are neighbours in it, as in y.
template <class Stored, Layout kLayout, int kMostPlaces>
struct OutputMap {
  static constexpr bool kNchw = kLayout == Layout::nchw;
  static constexpr int kFillers = 32;
  static constexpr int kSector = 32 / sizeof(Stored);
  // NCHW: what exists of kPart padded pixels each is a range of slots, which begin as far from a
  // sector of memory as their outputs of the first filter do.
  static constexpr int kPart = 128, kParts = (kMostPlaces + kPart - 1) / kPart;
  struct Slot {
    int place;        // from the first one on
    std::uint32_t y;  // from `first_y` on, of filter 0
  };
  Slot slots[kNchw ? kMostPlaces + kSector : 1];
  int part_slots[kParts + 1];
  std::int64_t first_y;
  // NHWC: the pixel of a padded pixel; -1: none. A warp stores those of as many as it has threads.
  static constexpr int kPixels = (kMostPlaces + 31) / 32 * 32;
  int pixels[kNchw ? 1 : kPixels];

  /// NHWC: that of a pixel comes to the L2 cache, of filters from the first one on, before the
  /// outputs are stored.
  static __device__ void bring_residual(const TaskArgs& a, int pixel, FilterRange filters) {
    const auto* const residual = reinterpret_cast<const Stored*>(a.residual);
    const std::int64_t at = static_cast<std::int64_t>(pixel) * a.k + filters.first;
    const int bytes = (filters.end - filters.first) * static_cast<int>(sizeof(Stored));
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(residual + at);
    if (residual == nullptr || bytes <= 0 || (address | bytes) % 16 != 0) return;
#ifdef __CUDACC__
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(residual + at), "r"(bytes)
                 : "memory");
#endif
  }
  /// By all threads of a warp.
  __device__ void fill(const TaskArgs& a, const PlaceRange& places, FilterRange filters) {
    const Stripes& s = a.stripes;
    const int lane = static_cast<int>(threadIdx.x) % kFillers;
    const int first_col = places.stripe * s.cols, cols = min(s.cols, a.q - first_col);
    const int num_places = min(places.end - places.first, kMostPlaces);
    const auto exists = [&](const Stripes::Position& position) {
      return position.image < a.n && position.row < a.p && position.col < cols;
    };
    Stripes::Position own = s.position(places.first + lane);
    const Stripes::Position next = s.position(kFillers);
    if constexpr (!kNchw) {
      for (int i = lane; i < kPixels; i += kFillers, own = s.sum(own, next)) {
        pixels[i] = i < num_places && exists(own)
                        ? (own.image * a.p + own.row) * a.q + first_col + own.col
                        : -1;
        if (pixels[i] >= 0) bring_residual(a, pixels[i], filters);
      }
    } else {
      // Outputs of the stripe in front of a padded pixel.
      const auto rank = [&](const Stripes::Position& position) {
        if (position.image >= a.n) return a.n * a.p * cols;
        const bool in_row = position.row < a.p;
        return (position.image * a.p + min(position.row, a.p)) * cols +
               (in_row ? min(position.col, cols) : 0);
      };
      Stripes::Position first = s.position(places.first);
      const int first_rank = rank(first);
      if (!exists(first)) {  // then the first output is that of the next row
        first = {first.image, first.row + 1, 0};
        if (first.row >= a.p) first = {first.image + 1, 0, 0};
      }
      const std::int64_t plane = static_cast<std::int64_t>(a.p) * a.q;
      const std::int64_t image_size = a.k * plane;
      const auto* const y = reinterpret_cast<const Stored*>(a.y) + first.image * image_size +
                            filters.first * plane + first.row * a.q + first_col + first.col;
      const int phase =
          static_cast<int>(reinterpret_cast<std::uintptr_t>(y) / sizeof(Stored) % kSector);
      for (int i = lane; i < num_places; i += kFillers, own = s.sum(own, next)) {
        const int slot = phase + rank(own) - first_rank;
        if (exists(own)) {
          slots[slot] = {i, static_cast<std::uint32_t>((own.image - first.image) * image_size +
                                                       own.row * a.q + first_col + own.col)};
        }
        const bool last = i + 1 == num_places;
        if (last || (i + 1) % kPart == 0) {
          const int part = i / kPart + 1;
          for (int end = part; end <= (last ? kParts : part); ++end) {
            part_slots[end] = slot + (exists(own) ? 1 : 0);
          }
        }
      }
      if (lane == 0) {
        first_y = first.image * image_size;
        part_slots[0] = phase;
        if (num_places <= 0) {
          for (int end = 1; end <= kParts; ++end) part_slots[end] = phase;
        }
      }
    }
  }
};

/// A block of outputs of one warp: kFilters filters of kPlaces padded pixels, whose sums, scaled
/// and with bias, are put into shared memory and then stored with the rest of the epilogue.
template <class Stored, Layout kLayout, int kMostPlaces>
class OutputRun {
 public:
  using Map = OutputMap<Stored, kLayout, kMostPlaces>;
  static constexpr bool kNchw = kLayout == Layout::nchw;
  static constexpr int kFilters = kNchw ? 8 : 16, kPlaces = kNchw ? 128 : 32;
  /// Rows in shared memory are filters (NCHW) or padded pixels (NHWC), padded against bank
  /// conflicts.
  static constexpr int kPitch = kNchw ? kPlaces + 8 : kFilters + 4;
  static constexpr int kSize = kPitch * (kNchw ? kFilters : kPlaces);

  /// Two neighbouring padded pixels of a filter; `place` is even.
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

  /// Stores what exists of kPlaces padded pixels from the map's first_place-th on.
  __device__ void store(const float* values, const Map& map, int first_place) const {
    if constexpr (kNchw) {
      store_planes(values, map, first_place);
    } else {
      store_pixels(values, map, first_place);
    }
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }

  // NCHW.
  __device__ void store_planes(const float* values, const Map& map, int first_place) const {
    static_assert(kPlaces == Map::kPart);
    const std::int64_t plane = static_cast<std::int64_t>(a_.p) * a_.q;
    const std::int64_t first_y = map.first_y + first_k_ * plane;
    const int part = first_place / Map::kPart;
    const int begin = map.part_slots[part], end = map.part_slots[part + 1];
    // Outputs at once of each filter: one after the other, a warp by itself waits for each.
    constexpr int kRuns = 2;
    for (int i = begin / 32 * 32 + lane(); i < end; i += kRuns * 32) {
      std::int64_t at[kRuns];
      bool exists[kRuns];
      float run[kRuns][kFilters];
#pragma unroll
      for (int j = 0; j < kRuns; ++j) {
        const int slot_index = i + j * 32;
        exists[j] = slot_index >= begin && slot_index < end;
        const typename Map::Slot slot =
            exists[j] ? map.slots[slot_index] : typename Map::Slot{first_place, 0};
        at[j] = first_y + slot.y;
#pragma unroll
        for (int f = 0; f < kFilters; ++f) {
          run[j][f] = values[f * kPitch + slot.place - first_place];
        }
      }
      if (residual_ != nullptr) {
#pragma unroll
        for (int j = 0; j < kRuns; ++j) {
          const Stored* residual = residual_ + at[j];
#pragma unroll
          for (int f = 0; f < kFilters; ++f, residual += plane) {
            if (exists[j] && f < num_filters_) run[j][f] += static_cast<float>(*residual);
          }
        }
      }
#pragma unroll
      for (auto& outputs : run) activate(a_.activation, outputs);
#pragma unroll
      for (int j = 0; j < kRuns; ++j) {
        Stored* y = y_ + at[j];
#pragma unroll
        for (int f = 0; f < kFilters; ++f, y += plane) {
          if (exists[j] && f < num_filters_) *y = static_cast<Stored>(run[j][f]);
        }
      }
    }
  }

  // NHWC. Four threads have the filters of a padded pixel, where filters come in fours.
  __device__ void store_pixels(const float* values, const Map& map, int first_place) const {
    if (a_.k % 4 != 0 || !aligned(y_) || !aligned(residual_)) {
      store_numbers(y_, residual_, a_.activation, a_.k, first_k_, num_filters_, values,
                    &map.pixels[first_place]);
      return;
    }
    constexpr int kRows = kPlaces / 8;  // of eight padded pixels
    const int filter = lane() % 4 * 4;
    std::int64_t at[kRows];
    bool exists[kRows];
    float run[kRows * 4];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int pixel = map.pixels[first_place + i * 8 + lane() / 4];
      at[i] = static_cast<std::int64_t>(pixel) * a_.k + first_k_ + filter;
      exists[i] = pixel >= 0 && filter < num_filters_;
      const auto four = load<4>(&values[(i * 8 + lane() / 4) * kPitch + filter]);
#pragma unroll
      for (int f = 0; f < 4; ++f) run[i * 4 + f] = four.lane[f];
    }
    if (residual_ != nullptr) {
      // All of them are on their way before the first output is stored, which might be one of them.
      Vec<4, Stored> residual[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        residual[i] = exists[i] ? load_stored<4>(residual_ + at[i]) : zero<4, Stored>();
      }
#pragma unroll
      for (int i = 0; i < kRows * 4; ++i) {
        run[i] += static_cast<float>(residual[i / 4].lane[i % 4]);
      }
    }
    activate(a_.activation, run);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      Vec<4, Stored> stored;
#pragma unroll
      for (int f = 0; f < 4; ++f) stored.lane[f] = static_cast<Stored>(run[i * 4 + f]);
      if (exists[i]) *reinterpret_cast<Vec<4, Stored>*>(y_ + at[i]) = stored;
    }
  }
  // Number by number; out of line, since few layers need it.
  static __device__ __noinline__ void store_numbers(Stored* y, const Stored* residual,
                                                    ActivationTerms activation, int k, int first_k,
                                                    int num_filters, const float* values,
                                                    const int* pixels) {
#pragma unroll 1
    for (int i = lane(); i < kPlaces * kFilters; i += 32) {
      const int pixel = pixels[i / kFilters], filter = i % kFilters;
      if (pixel < 0 || filter >= num_filters) continue;
      const std::int64_t at = static_cast<std::int64_t>(pixel) * k + first_k + filter;
      float value = values[i / kFilters * kPitch + filter];
      if (residual != nullptr) value += static_cast<float>(residual[at]);
      y[at] = static_cast<Stored>(activate(activation, value));
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
