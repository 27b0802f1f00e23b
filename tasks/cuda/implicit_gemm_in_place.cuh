// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM (implicit_gemm.cuh) on tensors of 16-bit numbers in NHWC, which matrix instructions
// can multiply as they are: the copy engine brings x and w, and no thread touches an element.
//
// It walks through the pixels of x in the order of places, gaps included, for which it writes zeros
// (tensor maps of kind im2col; runtime/cuda/tensor_map.hpp makes them). A slab of 32 channels is a
// row of 64 bytes, whose octets the copy engine permutes and the matrix instruction puts back in
// order, so that neither meets bank conflicts.
//
//   copiers    two threads, one for x and one for w
//   consumers  two warpgroups, each: products of 64 filters and half the places of a tile
//   storers    a warp for each of these: outputs to y, while the next tile is multiplied
//
// What is read most often is w, by every tile; so a tile has few filters and many places. Their
// number divides a task evenly; consumers are compiled for every such width.
#pragma once

#include <cuda/ptx>

#include "mapping/stripes.hpp"
#include "tasks/cuda/implicit_gemm_walk.cuh"
#include "tasks/cuda/matrix_numbers.cuh"
#include "tasks/cuda/stage_ring.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/tensor_copy.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/cuda/wgmma.cuh"

namespace megaconv::cuda {

template <class Numbers>
struct ImplicitGemmInPlaceTask {
  using Number = typename Numbers::Number;
  static constexpr int kFilters = 64, kDepth = Numbers::kDepth;
  // Two warps copy, two store.
  static constexpr int kHelpers = 128, kConsumers = 256, kThreads = kHelpers + kConsumers;
  // 65536 registers of a multiprocessor, shared out by what the warps do.
  static constexpr int kLaunchRegisters = 168, kHelperRegisters = 56, kConsumerRegisters = 224;
  // Places of a consumer warpgroup: its share of a tile.
  static constexpr int kStep = kPlaceStepInPlace / 2, kMostWidth = kMostPlacesInPlace / 2;

  static constexpr int kRowBytes = kSlabOctets * 16;
  static constexpr int kTapBytes = kFilters * kRowBytes;
  // Octets of filters of a place, permuted against bank conflicts.
  static constexpr int kOctets = kFilters / 8;
  using OutputRow = uint4[kOctets];
  static __device__ int permuted(int place, int octet) { return octet ^ place % kOctets; }

  // Shared memory is cut as a plan needs it: input stages, outputs, and for w what is left.
  static constexpr int kInputStages = 2, kMostFilterStages = 32;
  struct Barriers {
    StageRing<kInputStages> input;
    StageRing<kMostFilterStages> filter;
    StageRing<1> output[2];
  };
  struct Shared {
    Barriers& barriers;
    std::byte* x;  // [kInputStages][input_bytes]
    std::byte* u;  // [filter_stages][kTapBytes]
    OutputRow* outputs[2];
    int input_bytes, filter_stages;
    /// Of a block's dynamic shared memory, which begins anywhere.
    __device__ Shared(const TaskArgs& a, std::byte* begin)
        : barriers(*reinterpret_cast<Barriers*>(begin)),
          input_bytes((a.tile_places + a.reach_at_once) * kRowBytes) {
      constexpr int kWithinSpan = kSwizzleSpan - 1;
      input_bytes = (input_bytes + kWithinSpan) & ~kWithinSpan;
      const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(begin));
      x = begin + ((address + sizeof(Barriers) + kWithinSpan) & ~kWithinSpan) - address;
      outputs[0] = reinterpret_cast<OutputRow*>(x + kInputStages * input_bytes);
      outputs[1] = outputs[0] + a.tile_places / 2;
      u = reinterpret_cast<std::byte*>(outputs[1] + a.tile_places / 2);
      filter_stages =
          min(kMostFilterStages, static_cast<int>(begin + kSharedBytesInPlace - u) / kTapBytes);
    }
  };

  /// What a task is, and how it walks through channels and taps.
  struct Walk {
    int first_place, end_place, num_tiles, first_k;
    int chunks;  // each: the taps of some rows of a filter, in a slab of channels
    int taps;    // of a chunk
    __device__ Walk(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
      first_place = static_cast<int>(group) * a.places_per_group;
      end_place = min(first_place + a.places_per_group, a.places);
      num_tiles = (end_place - first_place + a.tile_places - 1) / a.tile_places;
      first_k = static_cast<int>(block) * a.filters_per_gemm_task;
      chunks = a.c_padded / kDepth * (a.r / a.rows_at_once);
      taps = a.rows_at_once * a.s;
    }
    // All filters, from the first tile to the last.
    __device__ bool keeps_filters(const Shared& shared) const {
      return chunks * taps <= shared.filter_stages;
    }
  };

  static __device__ __forceinline__ void run(const TaskArgs& a, const Walk& walk,
                                             const Shared& shared) {
    Barriers& barriers = shared.barriers;
    if (threadIdx.x == 0) {
      barriers.input.init(1, kConsumers / 32);
      barriers.filter.init(1, kConsumers / 32);
      for (auto& output : barriers.output) output.init(128 / 32, 1);
      ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
    }
    ::cuda::ptx::fence_proxy_async();
    __syncthreads();
    if (threadIdx.x < kHelpers) {
      decrease_registers<kHelperRegisters>();
      if (threadIdx.x == 0) {
        copy_input(a, walk, shared);
      } else if (threadIdx.x == 32) {
        copy_filters(a, walk, shared);
      } else if (threadIdx.x >= 64) {
        store_outputs(a, walk, static_cast<int>(threadIdx.x) / 32 - 2, shared);
      }
      __syncwarp();
      increase_registers<kLaunchRegisters>();
    } else {
      increase_registers<kConsumerRegisters>();
      consume_width<kMostWidth>(a, walk, shared);
      decrease_registers<kLaunchRegisters>();
      store_last(a, walk, shared);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      barriers.input.close();
      barriers.filter.close();
      for (auto& output : barriers.output) output.close();
    }
  }

 private:
  static __device__ void copy_input(const TaskArgs& a, const Walk& walk, const Shared& shared) {
    auto& ring = shared.barriers.input;
    const Stripes& s = a.stripes;
    const Stripes::Position next_tile = s.position(a.tile_places);
    const Stripes::Position next_row{0, a.dilation_h, 0};
    const auto num_bytes =
        static_cast<std::uint32_t>((a.tile_places + a.reach_at_once) * kRowBytes);
    Stripes::Position tile_start = s.position(walk.first_place);
    typename StageRing<kInputStages>::Cursor at;
    for (int tile = 0; tile < walk.num_tiles; ++tile, tile_start = s.sum(tile_start, next_tile)) {
      for (int c = 0; c < a.c_padded; c += kDepth) {
        Stripes::Position start = tile_start;
        for (int row = 0; row < a.r; row += a.rows_at_once, start = s.sum(start, next_row)) {
          ring.wait_empty(at);
          copy_pixels(shared.x + at.stage * shared.input_bytes, a.x_tensor, c, start.col - a.pad_w,
                      start.row - a.pad_h, start.image, ring.expect(at, num_bytes));
          at.advance();
        }
      }
    }
  }

  static __device__ void copy_filters(const TaskArgs& a, const Walk& walk, const Shared& shared) {
    auto& ring = shared.barriers.filter;
    typename StageRing<kMostFilterStages>::Cursor at;
    for (int tile = 0; tile < (walk.keeps_filters(shared) ? 1 : walk.num_tiles); ++tile) {
      for (int c = 0; c < a.c_padded; c += kDepth) {
        for (int tap = 0; tap < a.r * a.s; ++tap) {
          ring.wait_empty(at);
          copy_box(shared.u + at.stage * kTapBytes, a.w_tensor, c, walk.first_k, tap,
                   ring.expect(at, kTapBytes));
          at.advance(shared.filter_stages);
        }
      }
    }
  }

  // With the width that the plan has. (Matrix instructions must not run across calls.)
  template <int kWidth>
  static __device__ __forceinline__ void consume_width(const TaskArgs& a, const Walk& walk,
                                                       const Shared& shared) {
    if (a.tile_places == 2 * kWidth) {
      consume<kWidth>(a, walk, shared);
    } else if constexpr (kWidth > kStep) {
      consume_width<kWidth - kStep>(a, walk, shared);
    }
  }

  // One warpgroup's share of all tiles, kWidth places each.
  template <int kWidth>
  static __device__ __forceinline__ void consume(const TaskArgs& a, const Walk& walk,
                                                 const Shared& shared) {
    const int warpgroup = warpgroup_index() - kHelpers / 128;
    auto& ring = shared.barriers.output[warpgroup];
    const float2 bias = own_bias(a, walk.first_k);
    typename StageRing<kInputStages>::Cursor input;
    typename StageRing<kMostFilterStages>::Cursor filter;
    StageRing<1>::Cursor output;
    float sums[kWidth / 2] = {};
    for (int tile = 0; tile < walk.num_tiles; ++tile) {
      multiply<kWidth>(a, walk, warpgroup * kWidth, input, filter, sums, shared);
      ring.wait_empty(output);
      put_outputs<kWidth>(a.relu, bias, sums, shared.outputs[warpgroup]);
      __syncwarp();
      if (threadIdx.x % 32 == 0) ring.arrive_full(output.stage);
      output.advance();
    }
  }

  // Adds the products of a tile.
  template <int kWidth>
  static __device__ __forceinline__ void multiply(
      const TaskArgs& a, const Walk& walk, int first_place,
      typename StageRing<kInputStages>::Cursor& input,
      typename StageRing<kMostFilterStages>::Cursor& filter, float (&sums)[kWidth / 2],
      const Shared& shared) {
    Barriers& barriers = shared.barriers;
    if (walk.keeps_filters(shared)) filter = {};
    // Taps that are being multiplied, at most kPending; those before are given back.
    constexpr int kPending = 3;
    int pending = 0, oldest_filter = filter.stage, oldest_input = input.stage, oldest_tap = 0;
    const auto release = [&] {
      const bool speaker = threadIdx.x % 32 == 0;
      if (speaker) barriers.filter.arrive_empty(oldest_filter);
      if (++oldest_filter == shared.filter_stages) oldest_filter = 0;
      if (++oldest_tap == walk.taps) {
        if (speaker) barriers.input.arrive_empty(oldest_input);
        if (++oldest_input == kInputStages) oldest_input = 0;
        oldest_tap = 0;
      }
    };
    TapOffsets offsets(a, kRowBytes);
    for (int chunk = 0; chunk < walk.chunks; ++chunk) {
      barriers.input.wait_full(input);
      const std::uint64_t places = wgmma_swizzled_operand(
          shared.x + input.stage * shared.input_bytes + first_place * kRowBytes);
      input.advance();
      offsets.restart();
      for (int tap = 0; tap < walk.taps; ++tap) {
        barriers.filter.wait_full(filter);
        const std::uint64_t u = wgmma_swizzled_operand(shared.u + filter.stage * kTapBytes);
        const std::uint64_t x = advance(places, offsets.next());
        filter.advance(shared.filter_stages);
        constexpr int kNextChannels = kRowBytes / 2;
        wgmma_fence();
        wgmma<kWidth, Number>(sums, u, x);
        wgmma<kWidth, Number>(sums, advance(u, kNextChannels), advance(x, kNextChannels));
        wgmma_commit();
        wgmma_wait<kPending>();
        if (++pending > kPending) --pending, release();
      }
    }
    wgmma_wait<0>();
    for (; pending > 0; --pending) release();
  }

  // Of filters lane / 4 and lane / 4 + 8 of the warp's 16.
  static __device__ float2 own_bias(const TaskArgs& a, int first_k) {
    const auto* const bias = reinterpret_cast<const Number*>(a.bias);
    const int k = first_k + static_cast<int>(threadIdx.x) % 128 / 32 * 16 +
                  static_cast<int>(threadIdx.x) % 32 / 4;
    const auto value = [&](int filter) {
      return bias != nullptr && filter < a.k ? static_cast<float>(bias[filter]) : 0.0f;
    };
    return {value(k), value(k + 8)};
  }

  // Four matrices of 8 x 8 numbers of 16 bits, of which thread 4 i + j has row i, columns 2 j and
  // the next: their columns become rows of 16 bytes. Row r of matrix m goes to where thread 8 m + r
  // points.
  static __device__ void store_transposed(void* row, const std::uint32_t (&matrices)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(row))),
                 "r"(matrices[0]), "r"(matrices[1]), "r"(matrices[2]), "r"(matrices[3])
                 : "memory");
  }

  // Rounds a warpgroup's sums and puts them where storers find them; the sums are zero then. This
  // thread has, of filters f and f + 8, places 8 i + 2 q and the next.
  template <int kWidth>
  static __device__ __forceinline__ void put_outputs(bool relu, float2 bias,
                                                     float (&sums)[kWidth / 2],
                                                     OutputRow* outputs) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32;
    // Row r of matrix m, which lane 8 m + r points to: eight filters of a place.
    const int row = lane / 16 * 8 + lane % 8, octet = warp * 2 + lane / 8 % 2;
    uint4* const to = &outputs[row][permuted(row, octet)];
#pragma unroll
    for (int place = 0; place < kWidth; place += 16) {
      std::uint32_t pairs[4];  // of filters f and f + 8, of eight places and the next
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float* const two = &sums[place / 2 + i * 2];
        const float add = i % 2 == 0 ? bias.x : bias.y;
        float first = two[0] + add, second = two[1] + add;
        two[0] = two[1] = 0.0f;
        if (relu) first = fmaxf(first, 0.0f), second = fmaxf(second, 0.0f);
        const Vec<2, Number> both{{static_cast<Number>(first), static_cast<Number>(second)}};
        pairs[i] = *reinterpret_cast<const std::uint32_t*>(&both);
      }
      store_transposed(to + place * kOctets, pairs);
    }
  }

  // Stores the outputs of a warpgroup's share of a tile after the other, as far as there are such
  // pixels and filters. kTeam threads do that together, eight a place.
  template <int kTeam>
  class Storer {
   public:
    __device__ Storer(const TaskArgs& a, const Walk& walk, int warpgroup, int member)
        : a_(a),
          octet_(member % kOctets),
          member_place_(member / kOctets),
          k_(walk.first_k + octet_ * 8),
          first_(walk.first_place + warpgroup * (a.tile_places / 2) + member_place_),
          rest_(walk.end_place - first_),
          start_(a.stripes.position(first_)),
          next_tile_(a.stripes.position(a.tile_places)) {}
    __device__ void skip() {
      rest_ -= a_.tile_places;
      start_ = a_.stripes.sum(start_, next_tile_);
    }
    /// Those of the tile that it has come to.
    __device__ void store(const OutputRow* outputs) const {
      const Stripes& s = a_.stripes;
      const int width = a_.tile_places / 2, row_gap = s.pitch - a_.q;
      const int image_gap = (s.period - a_.p) * a_.q;
      // Past the end of the group another task stores.
      const int end = k_ < a_.k ? min(width, rest_) : 0;
      int row = start_.row, col = start_.col;
      int pixel = (start_.image * a_.p + row) * a_.q + col;
      auto* const y = reinterpret_cast<Number*>(a_.y) + k_;
      for (int place = 0; place < width; place += kBatch * kPlaces) {
        uint4 values[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const int from = place + i * kPlaces + member_place_;
          values[i] = outputs[from][permuted(from, octet_)];
        }
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          if (col < a_.q && row < a_.p && place + i * kPlaces < end) {
            *reinterpret_cast<uint4*>(y + static_cast<std::int64_t>(pixel) * a_.k) = values[i];
          }
          col += kPlaces, pixel += kPlaces;
          while (col >= s.pitch) {
            col -= s.pitch, pixel -= row_gap;
            if (++row == s.period) row = 0, pixel -= image_gap;
          }
        }
      }
    }

   private:
    static constexpr int kPlaces = kTeam / kOctets, kBatch = kStep / kPlaces;

    const TaskArgs& a_;
    const int octet_, member_place_, k_, first_;
    int rest_;
    Stripes::Position start_;
    const Stripes::Position next_tile_;
  };

  // A warp: all tiles but the last, while the next ones are multiplied.
  static __device__ void store_outputs(const TaskArgs& a, const Walk& walk, int warpgroup,
                                       const Shared& shared) {
    auto& ring = shared.barriers.output[warpgroup];
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Storer<32> storer(a, walk, warpgroup, lane);
    StageRing<1>::Cursor at;
    for (int tile = 0; tile + 1 < walk.num_tiles; ++tile, storer.skip()) {
      ring.wait_full(at);
      storer.store(shared.outputs[warpgroup]);
      __syncwarp();
      if (lane == 0) ring.arrive_empty(at.stage);
      at.advance();
    }
  }
  // A warpgroup by itself: the last one.
  static __device__ void store_last(const TaskArgs& a, const Walk& walk, const Shared& shared) {
    const int warpgroup = warpgroup_index() - kHelpers / 128;
    Storer<128> storer(a, walk, warpgroup, static_cast<int>(threadIdx.x) % 128);
    for (int tile = 0; tile + 1 < walk.num_tiles; ++tile) storer.skip();
    warpgroup_sync(warpgroup);
    storer.store(shared.outputs[warpgroup]);
  }
};

}  // namespace megaconv::cuda
