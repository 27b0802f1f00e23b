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
      Shape::kGroupPlaces, Shape::kHasSteps, Shape::kInputStages, Shape::kMaps,
      Shape::kMostEarlyParts, Shape::kMostSteps, Shape::kPlaces, Shape::kProducers,
      Shape::kStageTaps, Shape::kStoresMeanwhile, Shape::kTilePlaces;
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
    const int group = kFewFilters ? warpgroup : 0;  // of padded pixels
    Pipeline pipeline(walk, shared, first_filter, group * kGroupPlaces);
    typename StageRing<kMaps>::Cursor map;
    Sums sums;
    const auto store = [&] {
      shared.map.wait_full(map);
      store_sums(a, walk, first_filter, sums.finished(), shared.maps[map.stage][group], shared);
      if (threadIdx.x % 32 == 0) shared.map.arrive_empty(map.stage);
      map.advance();
      sums.clear_finished();
    };
    for (int tile = 0; tile < walk.num_tiles; ++tile) {
      multiply(a, walk, sums, pipeline, kStoresMeanwhile && tile > 0, store);
      if (!kStoresMeanwhile) store();
    }
    if (kStoresMeanwhile) store();
  }

 private:
  /// Stages of filters and of input that a warpgroup multiplies, and those that it has yet to
  /// release. A part is released with the input of its chunk, if it is the last one of that.
  class Pipeline {
   public:
    __device__ Pipeline(const Walk& walk, Shared& shared, int first_filter, int first_place)
        : shared_(shared),
          u_(wgmma_operand(&shared.u[0][0][0][first_filter][0], kFilters * 16)),
          x_(wgmma_operand(&shared.x[0][0][first_place], kPlaces * 16)),
          parts_(kHasSteps ? 1 : walk.parts),
          releases_filters_(!walk.keeps_filters) {}
    /// Before the first part of a tile.
    __device__ void begin_tile() {
      if (!releases_filters_) filter_ = {};
    }
    __device__ bool begins_chunk() const { return kHasSteps || part_ == 0; }
    __device__ int part() const { return part_; }
    __device__ std::uint64_t input() {
      shared_.input.wait_full(input_);
      return advance(x_, input_.stage * static_cast<int>(sizeof(shared_.x[0])));
    }
    __device__ std::uint64_t filters() {
      shared_.filter.wait_full(filter_);
      return advance(u_, filter_.stage * static_cast<int>(sizeof(Taps)));
    }
    /// On to the next part.
    __device__ void advance_part() {
      filter_.advance();
      if (kHasSteps || ++part_ == parts_) part_ = 0, input_.advance();
    }
    /// Of all parts that have not been released the first, whose products are there.
    __device__ void release_part() {
      const bool ends_chunk = kHasSteps || oldest_part_ + 1 == parts_;
      if (threadIdx.x % 32 == 0) {
        if (releases_filters_) shared_.filter.arrive_empty(oldest_filter_);
        if (ends_chunk) shared_.input.arrive_empty(oldest_input_);
      }
      if (++oldest_filter_ == kFilterStages) oldest_filter_ = 0;
      ++oldest_part_;
      if (!ends_chunk) return;
      oldest_part_ = 0;
      if (++oldest_input_ == kInputStages) oldest_input_ = 0;
    }

   private:
    Shared& shared_;
    const std::uint64_t u_, x_;  // of the first stages
    const int parts_;            // of a chunk
    const bool releases_filters_;
    typename StageRing<kInputStages>::Cursor input_;
    typename StageRing<kFilterStages>::Cursor filter_;
    int part_ = 0;
    int oldest_part_ = 0, oldest_input_ = 0, oldest_filter_ = 0;  // not released
  };

  // The sums of the products of a tile. `store`: what to do as soon as the tensor cores have enough
  // to do, if `stores`.
  template <class Store>
  static __device__ void multiply(const TaskArgs& a, const Walk& walk, Sums& sums,
                                  Pipeline& pipeline, bool stores, Store&& store) {
    pipeline.begin_tile();
    std::conditional_t<kHasSteps, StepOffsets, TapOffsets> offsets(a, 1);
    std::uint64_t x = 0;
    int taps_left = walk.all_taps;
    const auto start_part = [&](bool keep) {
      if (pipeline.begins_chunk()) {
        x = pipeline.input();
        offsets.restart();
      }
      const std::uint64_t u = pipeline.filters();
      const int chunk_taps = kHasSteps ? kMostSteps : walk.taps - pipeline.part() * kStageTaps;
      const int taps = min(kStageTaps, min(chunk_taps, taps_left));
      taps_left -= taps;
      switch (taps) {
        case 1:
          add_part<1>(u, x, offsets, sums, keep);
          break;
        case 2:
          add_part<2>(u, x, offsets, sums, keep);
          break;
        default:
          add_part<kStageTaps>(u, x, offsets, sums, keep);
      }
      pipeline.advance_part();
    };
    int left = walk.chunks * walk.parts, until_fold = min(walk.parts_apart, left);
    bool keep = false;  // the running sums
    if (stores) {
      // Fewer than would take all pipeline stages of input: somebody must still release one.
      const int early_parts =
          min(min(kMostEarlyParts, (kInputStages - 1) * walk.parts), until_fold);
#pragma unroll 1
      for (int i = 0; i < early_parts; ++i) start_part(i > 0);
      store();
      wgmma_wait<0>();
#pragma unroll 1
      for (int i = 0; i < early_parts; ++i) pipeline.release_part();
      left -= early_parts;
      until_fold -= early_parts;
      keep = true;
    }
    bool multiplies = false;  // a part that has not been released
    for (;;) {
      if (until_fold == 0) {
        wgmma_wait<0>();
        if (multiplies) pipeline.release_part();
        multiplies = false;
        sums.fold();
        if (left == 0) break;
        until_fold = min(walk.parts_apart, left);
        keep = false;
      }
      start_part(keep);
      keep = true;
      // The part before is done with as soon as its products are.
      wgmma_wait<1>();
      if (multiplies) pipeline.release_part();
      multiplies = true;
      --left;
      --until_fold;
    }
  }

  // As TapOffsets, of taps that have inputs of their own, one tile's behind the other.
  class StepOffsets {
   public:
    __device__ StepOffsets(const TaskArgs&, int place_size) : step_(kTilePlaces * place_size) {}
    __device__ void restart() { offset_ = 0; }
    __device__ int next() {
      const int offset = offset_;
      offset_ += step_;
      return offset;
    }

   private:
    const int step_;
    int offset_ = 0;
  };

  // The products of a part, kTaps taps, as one batch. One block of code without branches: a batch
  // that ends in another block would count as two for wgmma_wait.
  template <int kTaps, class Offsets>
  static __device__ void add_part(std::uint64_t u, std::uint64_t x, Offsets& offsets, Sums& sums,
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

  // Stores what exists of a warp's sums, with the epilogue. Thread 4 f + q holds, of filters f and
  // f + 8, padded pixels 8 j + 2 q and the next.
  static __device__ void store_sums(const TaskArgs& a, const Walk& walk, int first_filter,
                                    const float (&sums)[kNumSums], const typename Output::Map& map,
                                    Shared& shared) {
    const Unscale unscale = shared.unscale;
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
