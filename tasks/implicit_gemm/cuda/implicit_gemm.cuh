// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM on Hopper's tensor cores: a direct task multiplies a block of filters by the input
// as it lies under their taps. Neither the input's matrix nor any transform of it is ever stored in
// global memory.
//
//   sums[filter][place] = over slabs of channels, over taps:  U[tap] x[place + offset(tap)]
//
// Places are tasks/implicit_gemm/stripes.hpp's: those of a tile are neighbours, and under every tap
// they are neighbours again, `offset` further on. One copy of a tile's input in shared memory,
// kMostReach places longer than the tile, so serves all taps: the matrix instruction reads it from
// another start. What the numbers of x and w become on the way is in matrix_numbers.cuh.
//
//   loaders    x of the next slabs: load, convert, store to shared memory
//   copier     one warp, hands the filters of the next taps to TMA
//   consumers  two warpgroups, each: products of 64 filters and kGroupPlaces places; epilogue
//
// Tiles are compiled in several widths, so that tasks of some tiles, all equally wide, share out
// the places evenly among the multiprocessors.
#pragma once

#include <cuda_pipeline.h>

#include <cuda/ptx>
#include <type_traits>

#include "tasks/cuda/output_run.cuh"
#include "tasks/cuda/stage_ring.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/wgmma.cuh"
#include "tasks/implicit_gemm/cuda/implicit_gemm_filter.cuh"
#include "tasks/implicit_gemm/cuda/implicit_gemm_walk.cuh"
#include "tasks/implicit_gemm/stripes.hpp"

namespace megaconv::cuda {

template <class Numbers, int kNumFilters, int kNumPlaces, Layout kLayout>
struct ImplicitGemmTask {
  using Operand = ImplicitGemmFilters<Numbers, kNumFilters>;
  using Number = typename Numbers::Number;
  using Stored = typename Numbers::Stored;
  static constexpr int kFilters = kNumFilters, kDepth = Numbers::kDepth;
  static constexpr int kConsumers = 256, kLoaders = 224, kProducers = kLoaders + 32,
                       kThreads = kProducers + kConsumers;
  // A consumer warpgroup has 64 filters and kGroupPlaces of a tile: the other has the other
  // filters, or the other places.
  static constexpr int kGroupFilters = 64;
  static constexpr bool kFewFilters = kFilters == kGroupFilters;
  static constexpr int kTilePlaces = kNumPlaces,
                       kGroupPlaces = kFewFilters ? kTilePlaces / 2 : kTilePlaces;
  static constexpr int kPlaces = kTilePlaces + kMostReach;
  // A loading thread takes kRun channels of a place at a time. The next kAhead runs are on their
  // way to shared memory meanwhile; to registers, if numbers are too small for asynchronous copies.
  static constexpr int kRun = 16, kPlaceRuns = kDepth / kRun;
  static constexpr int kOwnPlaces = (kPlaces + kLoaders - 1) / kLoaders;
  static constexpr int kOwnRuns = kOwnPlaces * kPlaceRuns;
  static constexpr bool kToRegisters = kLayout == Layout::nchw && sizeof(Stored) < 4;
  static constexpr int kAhead = kOwnRuns == 1 ? 1 : 2;
  static_assert(kOwnRuns % kAhead == 0);
  // 65536 registers of a multiprocessor, shared out by what the warps do.
  static constexpr int kLaunchRegisters = 65536 / kThreads;
  static constexpr int kProducerRegisters = 72, kConsumerRegisters = 184;

  using Output = OutputRun<Stored, kLayout, kGroupPlaces>;
  // With few sums a thread has room for those of two tiles: it stores one tile's while the next is
  // multiplied.
  static constexpr bool kStoresMeanwhile = kGroupPlaces <= 128;
  static_assert(kStoresMeanwhile || !Numbers::kSplit);  // split sums are two, running and total
  // A tile's, the next one's, and where some warps still store, the one's before.
  static constexpr int kMaps = kStoresMeanwhile ? 3 : 2;
  using OutputMaps = typename Output::Map[kConsumers / 128][kMaps];
  static constexpr int kStageTaps = 3;
  using Taps = Number[kStageTaps][kSlabOctets][kFilters][8];
  using Input = uint4[kSlabOctets][kPlaces];  // 8 channels each
  using Outputs = float[kConsumers / 32][Output::kSize];
  using Piece = std::conditional_t<kLayout == Layout::nchw, Stored, uint4>;  // of a copy
  static constexpr int kRunPieces = kRun * sizeof(Stored) / sizeof(Piece);
  using Landing = Piece[kToRegisters ? 1 : kAhead][kRunPieces][kLoaders];
  static constexpr int kInputStages = 3;
  static constexpr int kSharedBytes = 224 * 1024;  // of 227 KB
  static constexpr int kFilterStages =
      static_cast<int>((kSharedBytes - kInputStages * sizeof(Input) - sizeof(Landing) -
                        sizeof(Outputs) - sizeof(OutputMaps)) /
                       sizeof(Taps));
  // Parts of a tile that are started before the sums of the one before are stored; with all stages
  // full of them, no filters would be on their way.
  static constexpr int kMostEarlyParts = kStoresMeanwhile ? kFilterStages / 2 : 1;
  struct Shared {
    alignas(128) Input x[kInputStages];
    alignas(128) Taps u[kFilterStages];
    alignas(16) Landing landing;
    StageRing<kInputStages> input;
    StageRing<kFilterStages> filter;
    alignas(16) Outputs outputs;
    alignas(16) OutputMaps maps;
    float bias[kFilters];
    MagnitudeBits most[kLoaders / 32];
  };

  /// What a task is, and how it walks through channels and taps.
  struct Walk {
    int stripe, first_place, end_place, num_tiles;  // of kTilePlaces places
    int filter_block, first_k, end_k, taps, parts, chunks;
    bool keeps_filters;  // of all chunks and taps, from the first tile to the last
    __device__ Walk(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
      const int runs = (a.places + a.places_per_group - 1) / a.places_per_group;
      stripe = static_cast<int>(group) / runs;
      first_place = static_cast<int>(group) % runs * a.places_per_group;
      end_place = min(first_place + a.places_per_group, a.places);
      num_tiles = (end_place - first_place + kTilePlaces - 1) / kTilePlaces;
      filter_block = static_cast<int>(block);
      first_k = filter_block * a.filters_per_gemm_task;
      end_k = min(a.k, first_k + a.filters_per_gemm_task);
      taps = a.r * a.s;
      parts = (taps + kStageTaps - 1) / kStageTaps;
      chunks = a.c_padded / kDepth;
      keeps_filters = chunks * parts <= kFilterStages;
    }
  };

  /// The largest finite |x| that the task saw goes to a.x_magnitudes[index], if numbers are scaled.
  /// One thread calls wait_for_filters() before U is read.
  template <class Wait>
  static __device__ void run(const TaskArgs& a, const Walk& walk, std::uint32_t index,
                             Shared& shared, Wait&& wait_for_filters) {
    if (threadIdx.x == 0) {
      shared.input.init(kLoaders, kConsumers / 32);
      shared.filter.init(1, kConsumers / 32);
      ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
    }
    for (int i = static_cast<int>(threadIdx.x); i < kFilters; i += kThreads) {
      const int k = walk.first_k + i;
      const auto* const bias = reinterpret_cast<const Stored*>(a.bias);
      shared.bias[i] = bias != nullptr && k < walk.end_k ? static_cast<float>(bias[k]) : 0.0f;
    }
    ::cuda::ptx::fence_proxy_async();
    __syncthreads();
    if (threadIdx.x < kProducers) {
      decrease_registers<kProducerRegisters>();
      if (threadIdx.x < kLoaders) {
        load_input(a, walk, shared);
      } else if (threadIdx.x == kLoaders) {
        wait_for_filters();
        copy_filters(a, walk, shared);
      }
      __syncwarp();
      increase_registers<kLaunchRegisters>();
    } else {
      increase_registers<kConsumerRegisters>();
      consume(a, walk, shared);
      decrease_registers<kLaunchRegisters>();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      shared.input.close();
      shared.filter.close();
      if constexpr (Numbers::kScaled) {
        MagnitudeBits most = 0;
        for (const MagnitudeBits own : shared.most) most = max(most, own);
        if (walk.first_k == 0) a.x_magnitudes[index] = most;
      }
    }
  }

 private:
  // Hands the filters of all tiles, chunks and taps to TMA, a few taps at a time. If
  // there is room for all of a tile's, those of the first serve the others, too.
  static __device__ void copy_filters(const TaskArgs& a, const Walk& walk, Shared& shared) {
    typename StageRing<kFilterStages>::Cursor at;
    for (int tile = 0; tile < (walk.keeps_filters ? 1 : walk.num_tiles); ++tile) {
      const Number* next = Operand::block(a, walk.filter_block);
      for (int chunk = 0; chunk < walk.chunks; ++chunk) {
        for (int tap = 0; tap < walk.taps; tap += kStageTaps) {
          const int count = min(kStageTaps, walk.taps - tap);
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
  }

  static constexpr std::uint32_t kNowhere = 0xffffffffu;

  // Element of x under the first tap of the place at a position, in channel 0; kNowhere in a gap.
  static __device__ std::uint32_t input_offset(const TaskArgs& a, const Walk& walk,
                                               const Stripes::Position& at) {
    const int row = at.row - a.pad_h, col = walk.stripe * a.stripes.cols + at.col - a.pad_w;
    const bool exists = at.image < a.n && static_cast<unsigned>(row) < static_cast<unsigned>(a.h) &&
                        static_cast<unsigned>(col) < static_cast<unsigned>(a.w_in);
    if (!exists) return kNowhere;
    const auto pixel = static_cast<std::uint32_t>(row * a.w_in + col);
    const auto image_start = static_cast<std::uint32_t>(at.image) *
                             static_cast<std::uint32_t>(a.c) *
                             static_cast<std::uint32_t>(a.h * a.w_in);
    return image_start +
           (kLayout == Layout::nchw ? pixel : pixel * static_cast<std::uint32_t>(a.c));
  }

  // kRun channels of a place.
  using Run = Stored[kRun];

  // Where a thread's numbers come from: the places that it loads, channels c and on.
  struct Source {
    std::uint32_t offsets[kOwnPlaces];
    int c;
  };
  // The places that a thread loads of one tile after the other.
  class OwnPlaces {
   public:
    __device__ OwnPlaces(const TaskArgs& a, const Walk& walk)
        : a_(a), walk_(walk), place_(walk.first_place + static_cast<int>(threadIdx.x)) {
#pragma unroll
      for (int i = 0; i < kOwnPlaces; ++i) {
        positions_[i] = a.stripes.position(place_ + i * kLoaders);
      }
    }
    /// Those of the next tile.
    __device__ void next(Source& source, const Stripes::Position& next_tile) {
      const int end = min(first_ + kTilePlaces, walk_.end_place) + a_.stripes.reach;
#pragma unroll
      for (int i = 0; i < kOwnPlaces; ++i) {
        const bool exists = first_ < walk_.end_place && place_ + i * kLoaders < end;
        source.offsets[i] = exists ? input_offset(a_, walk_, positions_[i]) : kNowhere;
        positions_[i] = a_.stripes.sum(positions_[i], next_tile);
      }
      first_ += kTilePlaces;
      place_ += kTilePlaces;
    }

   private:
    const TaskArgs& a_;
    const Walk& walk_;
    int first_ = walk_.first_place;
    int place_;
    Stripes::Position positions_[kOwnPlaces];
  };

  // Runs on their way.
  class Ahead {
   public:
    __device__ Ahead(const TaskArgs& a, Landing& landing)
        : a_(a),
          landing_(landing),
          in_vectors_(a.c % kVector == 0 &&
                      reinterpret_cast<std::uintptr_t>(a.x) % sizeof(uint4) == 0) {}

    /// Starts to load a source's index-th run, if that exists.
    __device__ void start(const Source& source, int index) {
      const std::uint32_t offset = source.offsets[index / kPlaceRuns];
      const int c = source.c + index % kPlaceRuns * kRun;
      if (offset != kNowhere) {
        // The first summands are the same for all threads.
        const Stored* const x = reinterpret_cast<const Stored*>(a_.x) + c * stride() + offset;
        const int count = a_.c - c;
        if (kLayout != Layout::nchw && !in_vectors_) {
          gather(x, count, index % kAhead);
        } else if (count >= kRun) {
          copy<true>(x, count, index % kAhead);
        } else {
          copy<false>(x, count, index % kAhead);
        }
      }
      if constexpr (!kToRegisters) __pipeline_commit();
    }
    /// The index-th run that was started, kAhead starts ago.
    __device__ void finish(int index, Run& run) {
      if constexpr (kToRegisters) {
#pragma unroll
        for (int i = 0; i < kRun; ++i) run[i] = runs_[index % kAhead][i];
      } else {
        __pipeline_wait_prior(kAhead - 1);
#pragma unroll
        for (int i = 0; i < kRunPieces; ++i) {
          reinterpret_cast<Piece*>(run)[i] = landing_[index % kAhead][i][threadIdx.x];
        }
      }
    }

   private:
    static constexpr int kVector = sizeof(uint4) / sizeof(Stored);

    // From a channel to the next, in numbers.
    __device__ std::size_t stride() const {
      return kLayout == Layout::nchw ? static_cast<std::size_t>(a_.h) * a_.w_in : 1;
    }
    // kWhole: count is at least kRun. Half the instructions.
    template <bool kWhole>
    __device__ void copy(const Stored* x, int count, int slot) {
      constexpr int kNumbers = sizeof(Piece) / sizeof(Stored);  // of a piece
      const std::size_t step = stride() * kNumbers;
      const Stored* const first = x;
#pragma unroll
      for (int i = 0; i < kRunPieces; ++i, x += step) {
        const bool exists = kWhole || i * kNumbers < count;
        if constexpr (kToRegisters) {
          runs_[slot][i] = exists ? *x : static_cast<Stored>(0.0f);
        } else {
          // Past the last channel, zeros are written and nothing is read.
          __pipeline_memcpy_async(&landing_[slot][i][threadIdx.x], exists ? x : first,
                                  sizeof(Piece), exists ? 0 : sizeof(Piece));
        }
      }
    }
    // Pixels whose channels lie anywhere (NHWC).
    __device__ void gather(const Stored* x, int count, int slot) {
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        const Stored value = i < count ? x[i] : static_cast<Stored>(0.0f);
        Piece& piece = landing_[slot][i * kRunPieces / kRun][threadIdx.x];
        reinterpret_cast<Stored*>(&piece)[i % (kRun / kRunPieces)] = value;
      }
    }

    const TaskArgs& a_;
    Landing& landing_;
    const bool in_vectors_;
    alignas(16) Run runs_[kToRegisters ? kAhead : 1];
  };

  static __device__ void load_input(const TaskArgs& a, const Walk& walk, Shared& shared) {
    typename StageRing<kInputStages>::Cursor at;
    MagnitudeBits most = 0;
    const Stripes::Position next_tile = a.stripes.position(kTilePlaces);
    OwnPlaces places(a, walk);
    Source now, next;
    now.c = 0;
    places.next(now, next_tile);
    Ahead ahead(a, shared.landing);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) ahead.start(now, i);
    for (int tile = 0; tile < walk.num_tiles;) {
      next = now;
      next.c += kDepth;
      if (next.c == a.c_padded) {
        next.c = 0;
        places.next(next, next_tile);
        ++tile;
      }
      shared.input.wait_empty(at);
#pragma unroll
      for (int i = 0; i < kOwnRuns; ++i) {
        const int place = i / kPlaceRuns * kLoaders + static_cast<int>(threadIdx.x);
        const int octet = i % kPlaceRuns * (kRun / 8);
        Input& to = shared.x[at.stage];
        alignas(16) Run run;
        ahead.finish(i, run);
        if (now.offsets[i / kPlaceRuns] != kNowhere) {
          store_run(run, a.x_scale, to, octet, place, most);
        } else if (place < kPlaces) {
#pragma unroll
          for (int j = 0; j < kSlabOctets / kPlaceRuns; ++j) to[octet + j][place] = uint4{};
        }
        constexpr int kHere = kOwnRuns - kAhead;
        ahead.start(i < kHere ? now : next, i < kHere ? i + kAhead : i - kHere);
      }
      ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
      shared.input.arrive_full(at.stage);
      at.advance();
      now = next;
    }
    if constexpr (!kToRegisters) __pipeline_wait_prior(0);
    if constexpr (Numbers::kScaled) {
      const MagnitudeBits warp_most = __reduce_max_sync(0xffffffffu, most);
      if (threadIdx.x % 32 == 0) shared.most[threadIdx.x / 32] = warp_most;
    }
  }

  // As operands of a place, from `octet` on.
  static __device__ void store_run(const Run& run, float x_scale, Input& to, int octet, int place,
                                   MagnitudeBits& most) {
    if constexpr (Numbers::kScaled) most = max(most, finite_magnitude(run));
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
    float most = 0.0f;
#pragma unroll
    for (const float number : run) most = fmaxf(most, fabsf(number));  // not of a NaN
    if (__float_as_uint(most) < kInfinityBits) return __float_as_uint(most);
    most = 0.0f;
#pragma unroll
    for (const float number : run) most = fmaxf(most, isinf(number) ? 0.0f : fabsf(number));
    return __float_as_uint(most);
  }

  // An octet pair further on, in the operands of filters and of places.
  static constexpr int kNextFilters = 2 * kFilters * 16, kNextPlaces = 2 * kPlaces * 16;
  static constexpr int kNumSums = kGroupPlaces / 2;  // of a thread

  /// What a thread adds up of a tile.
  struct Sums {
    // Tensor cores round sums towards zero. Those of split numbers are therefore moved every few
    // parts to the totals, by the FP32 units, which round to nearest. Rounded numbers have errors
    // beside which that does not matter.
    static constexpr int kPartsApart = Numbers::kSplit ? 3 : 1 << 20;
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
          // In columns of 128 places: an instruction of 256 wants more registers than a launch
          // gives.
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
                          min(Sums::kPartsApart, num_parts));
    int part = 0;  // of the chunk
    std::uint64_t x = 0;
    TapOffsets offsets(a, 1);
    for (int first = 0; first < num_parts; first += Sums::kPartsApart) {
      const int end = min(first + Sums::kPartsApart, num_parts);
      for (int i = first; i < end; ++i) {
        if (part == 0) {
          shared.input.wait_full(input);
          x = wgmma_operand(&shared.x[input.stage][0][first_place], kPlaces * 16);
          offsets.restart();
        }
        shared.filter.wait_full(filter);
        const std::uint64_t u =
            wgmma_operand(&shared.u[filter.stage][0][0][first_filter][0], kFilters * 16);
        switch (min(kStageTaps, walk.taps - part * kStageTaps)) {
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
    __device__ float operator()(float sum) const {
      if constexpr (Numbers::kScaled) sum = sum * first * second;
      return sum;
    }
  };

  // Stores what exists of a warp's sums, with the epilogue. Thread 4 f + q holds, of filters f and
  // f + 8, places 8 j + 2 q and the next.
  static __device__ void store_sums(const TaskArgs& a, const Walk& walk, int first_filter,
                                    Unscale unscale, const float (&sums)[kNumSums],
                                    const typename Output::Map& map, Shared& shared) {
    const int warp = (static_cast<int>(threadIdx.x) - kProducers) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float* const values = shared.outputs[warp];
    first_filter += warp % 4 * 16;
    float bias[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
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
              const float sum = sums[(place / 8 + j) * 4 + half * 2 + i];
              return unscale(sum) + bias[half];
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
