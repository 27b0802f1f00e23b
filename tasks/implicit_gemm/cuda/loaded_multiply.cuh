// SPDX-License-Identifier: Apache-2.0
// Consumers of implicit GEMM whose threads load x: two warpgroups, and their epilogue.
#pragma once

#include "tasks/cuda/wgmma.cuh"
#include "tasks/implicit_gemm/cuda/implicit_gemm_walk.cuh"
#include "tasks/implicit_gemm/cuda/loaded_shape.cuh"

namespace megaconv::cuda {

/// Shape: a LoadedShape.
template <class Shape>
class LoadedConsumers : Shape {
  using Shape::kFewFilters, Shape::kFilterStages, Shape::kFilters, Shape::kGroupFilters,
      Shape::kGroupPlaces, Shape::kInputStages, Shape::kMaps, Shape::kMostEarlyParts,
      Shape::kPlaces, Shape::kProducers, Shape::kStageTaps, Shape::kStoresMeanwhile,
      Shape::kTilePlaces;
  using typename Shape::Number, typename Shape::Numbers, typename Shape::Operand,
      typename Shape::Output, typename Shape::Shared, typename Shape::Taps, typename Shape::Walk;

  // An octet pair further on, in the operands of filters and of padded pixels.
  static constexpr int kNextFilters = 2 * kFilters * 16, kNextPlaces = 2 * kPlaces * 16;
  static constexpr int kNumSums = kGroupPlaces / 2;  // of a thread

  /// What a thread adds up of a tile.
  struct Sums {
    float running[kNumSums] = {};
    float totals[kStoresMeanwhile ? kNumSums : 1] = {};

    __device__ float (&finished())[kNumSums] {
      if constexpr (kStoresMeanwhile) {
        return totals;
      } else {
        return running;
      }
    }
    __device__ void clear_finished() {
#pragma unroll
      for (float& sum : finished()) sum = 0.0f;
    }
    /// The running sums begin anew with the next products, which are not to keep them.
    __device__ void fold() {
      if constexpr (kStoresMeanwhile) {
#pragma unroll
        for (int i = 0; i < kNumSums; ++i) totals[i] += running[i];
      }
    }

    /// The products of kTaps taps. Those with low halves come first, while sums are small: what is
    /// cut off is a share of the sum.
    template <int kTaps>
    __device__ void add_products(const std::uint64_t (&u)[kTaps], const std::uint64_t (&x)[kTaps],
                                 bool keep) {
      if constexpr (Numbers::kSplit) {
#pragma unroll
        for (int i = 0; i < kTaps; ++i) {
          wgmma<kGroupPlaces>(running, u[i], advance(x[i], kNextPlaces), i > 0 || keep);
          wgmma<kGroupPlaces>(running, advance(u[i], kNextFilters), x[i]);
        }
#pragma unroll
        for (int i = 0; i < kTaps; ++i) wgmma<kGroupPlaces>(running, u[i], x[i]);
      } else {
#pragma unroll
        for (int i = 0; i < kTaps; ++i) {
          // In columns of 128 padded pixels: an instruction of 256 wants more registers than a
          // launch gives.
          add_column<0, kGroupPlaces <= 128 ? kGroupPlaces : 128>(u[i], x[i], i > 0 || keep);
          if constexpr (kGroupPlaces > 128) {
            add_column<128, kGroupPlaces - 128>(u[i], x[i], i > 0 || keep);
          }
        }
      }
    }

   private:
    template <int kFirst, int kWidth>
    __device__ void add_column(std::uint64_t u, std::uint64_t x, bool keep) {
      auto& sums = *reinterpret_cast<float(*)[kWidth / 2]>(&running[kFirst / 2]);
      const std::uint64_t column = advance(x, kFirst * 16);
      wgmma<kWidth, Number>(sums, u, column, keep);
      wgmma<kWidth, Number>(sums, advance(u, kNextFilters), advance(column, kNextPlaces));
    }
  };

 public:
  /// The products of all tiles, by one of the warpgroups.
  static __device__ void consume(const TaskArgs& a, const Walk& walk, Shared& shared) {
    const int warpgroup = warpgroup_index() - kProducers / 128;
    const int first_filter = kFewFilters ? 0 : warpgroup * kGroupFilters;
    const int first_place = kFewFilters ? warpgroup * kGroupPlaces : 0;
    auto& maps = shared.maps[warpgroup];
    typename StageRing<kInputStages>::Cursor input;
    typename StageRing<kFilterStages>::Cursor filter;
    Sums sums;
    const auto store = [&](int tile) {
      warpgroup_sync(warpgroup);
      store_sums(a, walk, first_filter, Unscale(a), sums.finished(), maps[tile % kMaps], shared);
      sums.clear_finished();
    };
    const Stripes::Position next_tile = a.stripes.position(kTilePlaces);
    const Stripes::Position next_part = a.stripes.position(Output::Map::kPart);
    typename Output::Map::Cursor at(a.stripes, walk.first_place + first_place,
                                    static_cast<int>(threadIdx.x) % 128);
    for (int tile = 0; tile < walk.num_tiles; ++tile) {
      const int tile_place = walk.first_place + tile * kTilePlaces + first_place;
      maps[tile % kMaps].fill(
          a, {walk.stripe, tile_place, min(tile_place + kGroupPlaces, walk.end_place)}, at,
          next_part, walk.first_k + first_filter, static_cast<int>(threadIdx.x) % 128);
      multiply(a, walk, first_filter, first_place, sums, input, filter, shared, [&] {
        if (kStoresMeanwhile && tile > 0) store(tile - 1);
      });
      at.advance(a.stripes, next_tile);
      if (!kStoresMeanwhile) store(tile);
    }
    if (kStoresMeanwhile) store(walk.num_tiles - 1);
  }

 private:
  // The sums of the products of a tile. Calls meanwhile() as soon as the tensor cores have enough
  // to do.
  template <class Meanwhile>
  static __device__ void multiply(const TaskArgs& a, const Walk& walk, int first_filter,
                                  int first_place, Sums& sums,
                                  typename StageRing<kInputStages>::Cursor& input,
                                  typename StageRing<kFilterStages>::Cursor& filter, Shared& shared,
                                  Meanwhile&& meanwhile) {
    const bool speaker = threadIdx.x % 32 == 0;
    // What has been started and not been released.
    auto oldest_input = input;
    auto oldest_filter = filter;
    if (walk.keeps_filters) oldest_filter = filter = {};
    const auto release = [&] {
      for (; oldest_filter.stage != filter.stage; oldest_filter.advance()) {
        if (speaker && !walk.keeps_filters) shared.filter.arrive_empty(oldest_filter.stage);
      }
      for (; oldest_input.stage != input.stage; oldest_input.advance()) {
        if (speaker) shared.input.arrive_empty(oldest_input.stage);
      }
    };
    const int num_parts = walk.chunks * walk.parts;
    // Fewer than would take all pipeline stages of input: somebody must still release one.
    int early_parts = min(min(kMostEarlyParts, (kInputStages - 1) * walk.parts),
                          min(walk.parts_apart, num_parts));
    int part = 0;  // of the chunk
    int taps_left = walk.all_taps;
    std::uint64_t x = 0;
    TapOffsets offsets = walk.has_steps ? TapOffsets(kTilePlaces) : TapOffsets(a, 1);
    for (int first = 0; first < num_parts; first += walk.parts_apart) {
      const int end = min(first + walk.parts_apart, num_parts);
      for (int i = first; i < end; ++i) {
        if (part == 0) {
          shared.input.wait_full(input);
          x = wgmma_operand(&shared.x[input.stage][0][first_place], kPlaces * 16);
          offsets.restart();
        }
        shared.filter.wait_full(filter);
        const std::uint64_t u =
            wgmma_operand(&shared.u[filter.stage][0][0][first_filter][0], kFilters * 16);
        const int taps = min(kStageTaps, min(walk.taps - part * kStageTaps, taps_left));
        taps_left -= taps;
        switch (taps) {
          case 1:
            add_part<1>(u, x, offsets, sums, i > first);
            break;
          case 2:
            add_part<2>(u, x, offsets, sums, i > first);
            break;
          default:
            add_part<kStageTaps>(u, x, offsets, sums, i > first);
        }
        if (early_parts > 0) {
          if (--early_parts == 0) meanwhile();
        } else {
          // Those before are done with as soon as their products are.
          wgmma_wait<1>();
          release();
        }
        filter.advance();
        if (++part == walk.parts) part = 0, input.advance();
      }
      wgmma_wait<0>();
      release();
      sums.fold();
    }
  }

  // The products of a part, kTaps taps, as one batch. One block of code without branches: a batch
  // that ends in another block would count as two for wgmma_wait.
  template <int kTaps>
  static __device__ void add_part(std::uint64_t u, std::uint64_t x, TapOffsets& offsets, Sums& sums,
                                  bool keep) {
    std::uint64_t taps[kTaps], inputs[kTaps];
#pragma unroll
    for (int i = 0; i < kTaps; ++i) {
      taps[i] = advance(u, i * static_cast<int>(sizeof(Taps) / kStageTaps));
      inputs[i] = advance(x, offsets.next() * 16);
    }
    wgmma_fence();
    sums.template add_products<kTaps>(taps, inputs, keep);
    wgmma_commit();
  }

  // Undoes the scales of sums; the smaller factor first, so that no step overflows where the result
  // does not.
  struct Unscale {
    float first, second;
    __device__ explicit Unscale(const TaskArgs& a) : first(1), second(1) {
      if constexpr (Numbers::kScaled) {
        const float of_input = 1.0f / a.x_scale, of_filter = 1.0f / Operand::footer(a).scale;
        first = fminf(of_input, of_filter), second = fmaxf(of_input, of_filter);
      }
    }
  };

  // Stores what exists of a warp's sums, with the epilogue. Thread 4 f + q holds, of filters f and
  // f + 8, padded pixels 8 j + 2 q and the next.
  static __device__ void store_sums(const TaskArgs& a, const Walk& walk, int first_filter,
                                    Unscale unscale, const float (&sums)[kNumSums],
                                    const typename Output::Map& map, Shared& shared) {
    const int warp = (static_cast<int>(threadIdx.x) - kProducers) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float* const values = shared.outputs[warp];
    first_filter += warp % 4 * 16;
    float scale[2], bias[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      scale[half] = unscale.second * shared.scale[first_filter + half * 8 + lane / 4];
      bias[half] = shared.bias[first_filter + half * 8 + lane / 4];
    }
#pragma unroll
    for (int filter = 0; filter < 16; filter += Output::kFilters) {
      const Output output(a, walk.first_k + first_filter + filter, walk.end_k);
#pragma unroll
      for (int place = 0; place < kGroupPlaces; place += Output::kPlaces) {
#pragma unroll
        for (int half = filter / 8; half < (filter + Output::kFilters) / 8; ++half) {
#pragma unroll
          for (int j = 0; j < Output::kPlaces / 8; ++j) {
            if (place + j * 8 >= kGroupPlaces) break;
            const auto value = [&](int i) {
              float sum = sums[(place / 8 + j) * 4 + half * 2 + i];
              if constexpr (Numbers::kScaled) sum *= unscale.first;
              return sum * scale[half] + bias[half];
            };
            Output::put(values, half * 8 - filter + lane / 4, j * 8 + lane % 4 * 2, value(0),
                        value(1));
          }
        }
        __syncwarp();
        output.store(values, map, place);
        __syncwarp();
      }
    }
  }
};

}  // namespace megaconv::cuda
