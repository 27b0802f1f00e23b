// SPDX-License-Identifier: Apache-2.0
// Producers of implicit GEMM whose threads load x: loaders, and one warp that supplies what else
// consumers need.
#pragma once

#include <cuda/ptx>

#include "tasks/implicit_gemm/cuda/loaded_runs.cuh"

namespace megaconv::cuda {

/// Shape: a LoadedShape.
template <class Shape>
class LoadedProducers : LoadedRuns<Shape> {
  using Runs = LoadedRuns<Shape>;
  using Shape::kAhead, Shape::kFilterStages, Shape::kGroupPlaces, Shape::kInputStages,
      Shape::kLayout, Shape::kMaps, Shape::kOwnRuns, Shape::kPlaceRuns, Shape::kPlaces, Shape::kRun,
      Shape::kSlots, Shape::kStageTaps, Shape::kStagesAhead, Shape::kTilePlaces,
      Shape::kToRegisters;
  using typename Runs::Ahead, typename Runs::PixelsAhead, typename Runs::RowsAhead,
      typename Runs::Run;
  using typename Shape::Input, typename Shape::Number, typename Shape::Numbers,
      typename Shape::Operand, typename Shape::Shared, typename Shape::Stored, typename Shape::Walk;

 public:
  /// By one warp: hands the filters of all tiles to TMA, and finds where their outputs lie. If
  /// there is room for all filters of a tile, those of the first one serve the others, too.
  template <class Wait>
  static __device__ void supply(const TaskArgs& a, const Walk& walk, Shared& shared,
                                Wait&& wait_for_filters) {
    const bool speaker = threadIdx.x % 32 == 0;
    typename StageRing<kFilterStages>::Cursor filter;
    typename StageRing<kMaps>::Cursor map;
    if (speaker) {
      wait_for_filters();
      shared.unscale = unscale_of(a);
    }
    for (int tile = 0; tile < walk.num_tiles; ++tile) {
      if (speaker && (tile == 0 || !walk.keeps_filters)) copy_filters(a, walk, shared, filter);
      __syncwarp();
      shared.map.wait_empty(map);
      int first = walk.first_place + tile * kTilePlaces;
      for (auto& group : shared.maps[map.stage]) {
        group.fill(a, {walk.stripe, first, min(first + kGroupPlaces, walk.end_place)},
                   {walk.first_k, walk.end_k});
        first += kGroupPlaces;
      }
      __syncwarp();
      if (speaker) shared.map.arrive_full(map.stage);
      map.advance();
    }
  }
  static __device__ void load_input(const TaskArgs& a, const Walk& walk, Shared& shared) {
    if constexpr (kStagesAhead && kLayout == Layout::nhwc) {
      if (RowsAhead::suits(a)) {
        load_input(a, walk, RowsAhead(a, walk, shared.landing), shared);
        return;
      }
      if (PixelsAhead::suits(a)) {
        load_input(a, walk, PixelsAhead(a, walk, shared.landing), shared);
        return;
      }
    }
    load_input(a, walk, Ahead(a, walk, shared.landing), shared);
  }

 private:
  static __device__ Unscale unscale_of(const TaskArgs& a) {
    if constexpr (!Numbers::kScaled) return {1.0f, 1.0f};
    const float of_input = 1.0f / a.x_scale, of_filter = 1.0f / Operand::footer(a).scale;
    return {fminf(of_input, of_filter), fmaxf(of_input, of_filter)};
  }
  // Those of a tile, a few taps at a time.
  static __device__ void copy_filters(const TaskArgs& a, const Walk& walk, Shared& shared,
                                      typename StageRing<kFilterStages>::Cursor& at) {
    const Number* next = Operand::block(a, walk.filter_block);
    for (int left = walk.all_taps; left > 0; left -= walk.taps) {
      const int taps = min(walk.taps, left);
      for (int tap = 0; tap < taps; tap += kStageTaps) {
        const int count = min(kStageTaps, taps - tap);
        const auto num_bytes = static_cast<std::uint32_t>(count * sizeof(shared.u[0][0]));
        shared.filter.wait_empty(at);
        std::uint64_t* const barrier = shared.filter.expect(at, num_bytes);
        ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_cluster, ::cuda::ptx::space_global,
                                   &shared.u[at.stage], next, num_bytes, barrier);
        next += num_bytes / sizeof(Number);
        at.advance();
      }
    }
  }
  template <class Loads>
  static __device__ void load_input(const TaskArgs& a, const Walk& walk, Loads ahead,
                                    Shared& shared) {
    typename StageRing<kInputStages>::Cursor at;
    MagnitudeBits most = 0;
    // Of a stage's index-th run: stages take turns, or runs.
    const auto slot_of = [](int stage, int index) {
      return (kStagesAhead ? stage : index) & (kSlots - 1);
    };
    const int num_stages = walk.num_tiles * walk.chunks;
    constexpr int kStarts = (kAhead + kOwnRuns - 1) / kOwnRuns;  // stages before the first
    for (int stage = -kStarts; stage < num_stages; ++stage) {
#pragma unroll
      for (int i = 0; i < kOwnRuns; ++i) {
        const int slot = slot_of(stage, i);
        alignas(16) Run run;
        bool exists = false;
        if (stage >= 0) exists = ahead.finish(i / kPlaceRuns, slot, run);
        const auto start_next = [&] {
          if (stage * kOwnRuns + i < -kAhead) return;
          constexpr int kNext = kAhead % kOwnRuns;
          const int next = i + kNext < kOwnRuns ? i + kNext : i + kNext - kOwnRuns;
          ahead.start(next / kPlaceRuns, next % kPlaceRuns, slot);
        };
        if constexpr (Loads::kStartsEarly) {
          // This asks for all numbers, so that they have been read where the next run will land.
          if constexpr (Numbers::kScaled) {
            if (exists) most = max(most, finite_magnitude(run));
          }
          start_next();
        }
        if (stage >= 0) {
          if (i == 0) shared.input.wait_empty(at);
          Input& to = shared.x[at.stage];
          const int place = ahead.of_stage(i / kPlaceRuns), octet = i % kPlaceRuns * (kRun / 8);
          if (exists) {
            if constexpr (Numbers::kScaled && !Loads::kStartsEarly) {
              most = max(most, finite_magnitude(run));
            }
            store_run(run, a.x_scale, to, octet, place);
          } else if (place < kPlaces && ahead.has(i / kPlaceRuns, stage)) {
#pragma unroll
            for (int j = 0; j < kKBlockOctets / kPlaceRuns; ++j) to[octet + j][place] = uint4{};
          }
        }
        if constexpr (!Loads::kStartsEarly) start_next();
      }
      if (stage < 0) continue;
      ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
      shared.input.arrive_full(at.stage);
      at.advance();
    }
    if constexpr (!kToRegisters) __pipeline_wait_prior(0);
    if constexpr (Numbers::kScaled) {
      const MagnitudeBits warp_most = __reduce_max_sync(0xffffffffu, most);
      if (threadIdx.x % 32 == 0) shared.most[threadIdx.x / 32] = warp_most;
    }
  }

  // As operands of a padded pixel, from `octet` on.
  static __device__ void store_run(const Run& run, float x_scale, Input& to, int octet, int place) {
#pragma unroll
    for (int i = 0; i < kRun / 8; ++i) {
      if constexpr (!Numbers::kScaled) {
        to[octet + i][place] = reinterpret_cast<const uint4*>(run)[i];
      } else {
        alignas(16) __half2 high[4], low[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float* const two = &run[i * 8 + j * 2];
          const SplitPair pair = split_pair(two[0] * x_scale, two[1] * x_scale);
          high[j] = pair.high;
          low[j] = pair.low;
        }
        to[octet + i][place] = *reinterpret_cast<const uint4*>(high);
        if constexpr (Numbers::kSplit)
          to[octet + i + 2][place] = *reinterpret_cast<const uint4*>(low);
      }
    }
  }

  // Of the finite numbers of a run the largest.
  static __device__ MagnitudeBits finite_magnitude(const Run& run) {
    // In four chains, since a thread would wait for one. Not of a NaN.
    float chains[4] = {};
#pragma unroll
    for (int i = 0; i < kRun; ++i) chains[i % 4] = fmaxf(chains[i % 4], fabsf(run[i]));
    float most = fmaxf(fmaxf(chains[0], chains[1]), fmaxf(chains[2], chains[3]));
    if (__float_as_uint(most) < kInfinityBits) return __float_as_uint(most);
    most = 0.0f;
#pragma unroll
    for (const float number : run) most = fmaxf(most, isinf(number) ? 0.0f : fabsf(number));
    return __float_as_uint(most);
  }
};

}  // namespace megaconv::cuda
