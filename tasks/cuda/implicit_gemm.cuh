// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM on Hopper's tensor cores: a direct task multiplies a block of filters by the input
// as it lies under their taps. Neither the input's matrix nor any transform of it is ever stored in
// global memory.
//
//   sums[filter][place] = over slabs of channels, over taps:  U[tap] x[place + offset(tap)]
//
// Places are mapping/stripes.hpp's: those of a tile are neighbours, and under every tap they are
// neighbours again, `offset` further on. One copy of a tile's input in shared memory, kMostReach
// places longer than the tile, so serves all taps: the matrix instruction reads it from another
// start. What the numbers of x and w become on the way is in matrix_numbers.cuh.
//
//   loaders    x of the next slabs: load, convert, store to shared memory
//   copier     one warp, hands the filters of the next taps to the copy engine
//   consumers  two warpgroups, each: products of 64 filters and kGroupPlaces places; epilogue
#pragma once

#include <cuda_pipeline.h>

#include <cuda/ptx>
#include <type_traits>

#include "mapping/stripes.hpp"
#include "tasks/cuda/implicit_gemm_filter.cuh"
#include "tasks/cuda/output_run.cuh"
#include "tasks/cuda/stage_ring.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/vec.cuh"
#include "tasks/cuda/wgmma.cuh"

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
  static constexpr int kAhead = 2;
  static_assert(kOwnRuns % kAhead == 0);
  // 65536 registers of a multiprocessor, shared out by what the warps do.
  static constexpr int kLaunchRegisters = 65536 / kThreads;
  static constexpr int kProducerRegisters = Numbers::kSplit ? 56 : 72,
                       kConsumerRegisters = Numbers::kSplit ? 200 : 184;

  using Output = OutputRun<Stored, kLayout, kGroupPlaces>;
  using OutputMaps = typename Output::Map[kConsumers / 128][2];  // of this tile and the next
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
    }
  };

  /// The largest finite |x| that the task saw goes to a.x_magnitudes[index], if numbers are scaled.
  static __device__ void run(const TaskArgs& a, const Walk& walk, std::uint32_t index,
                             float x_scale, Shared& shared) {
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
        load_input(a, walk, x_scale, shared);
      } else {
        copy_filters(a, walk, shared);
      }
      __syncwarp();
      increase_registers<kLaunchRegisters>();
    } else {
      increase_registers<kConsumerRegisters>();
      consume(a, walk, x_scale, shared);
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
  // Hands the filters of all tiles, chunks and taps to the copy engine, a few taps at a time.
  static __device__ void copy_filters(const TaskArgs& a, const Walk& walk, Shared& shared) {
    if (threadIdx.x != kLoaders) return;
    typename StageRing<kFilterStages>::Cursor at;
    for (int tile = 0; tile < walk.num_tiles; ++tile) {
      const Number* next = Operand::block(a, walk.filter_block);
      for (int chunk = 0; chunk < walk.chunks; ++chunk) {
        for (int tap = 0; tap < walk.taps; tap += kStageTaps) {
          const int count = min(kStageTaps, walk.taps - tap);
          const auto num_bytes = static_cast<std::uint32_t>(count * sizeof(shared.u[0][0]));
          shared.filter.wait_empty(at);
          std::uint64_t* const barrier = &shared.filter.full[at.stage];
          ::cuda::ptx::mbarrier_arrive_expect_tx(::cuda::ptx::sem_release, ::cuda::ptx::scope_cta,
                                                 ::cuda::ptx::space_shared, barrier, num_bytes);
          ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_cluster, ::cuda::ptx::space_global,
                                     &shared.u[at.stage], next, num_bytes, barrier);
          next += num_bytes / sizeof(Number);
          at.advance();
        }
      }
    }
  }

  static constexpr std::uint32_t kNowhere = 0xffffffffu;

  // Element of x under `place`'s first tap in channel 0; kNowhere in a gap.
  static __device__ std::uint32_t input_offset(const TaskArgs& a, const Walk& walk, int place) {
    const Stripes::Position at = a.stripes.position(place);
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

    __device__ void find_places(const TaskArgs& a, const Walk& walk, int tile) {
#pragma unroll
      for (int i = 0; i < kOwnPlaces; ++i) {
        const int first = walk.first_place + tile * kTilePlaces;
        const int place = first + i * kLoaders + static_cast<int>(threadIdx.x);
        const bool exists = tile < walk.num_tiles &&
                            place < min(first + kTilePlaces, walk.end_place) + a.stripes.reach;
        offsets[i] = exists ? input_offset(a, walk, place) : kNowhere;
      }
    }
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
        if (kLayout == Layout::nchw || in_vectors_) {
          copy(x, a_.c - c, index % kAhead);
        } else {
          gather(x, a_.c - c, index % kAhead);
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
    __device__ void copy(const Stored* x, int count, int slot) {
      constexpr int kNumbers = sizeof(Piece) / sizeof(Stored);  // of a piece
      const std::size_t step = stride() * kNumbers;
      const Stored* const first = x;
#pragma unroll
      for (int i = 0; i < kRunPieces; ++i, x += step) {
        const bool exists = i * kNumbers < count;
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

  static __device__ void load_input(const TaskArgs& a, const Walk& walk, float x_scale,
                                    Shared& shared) {
    typename StageRing<kInputStages>::Cursor at;
    MagnitudeBits most = 0;
    Source now, next;
    now.c = 0;
    now.find_places(a, walk, 0);
    Ahead ahead(a, shared.landing);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) ahead.start(now, i);
    for (int tile = 0; tile < walk.num_tiles;) {
      next = now;
      next.c += kDepth;
      if (next.c == a.c_padded) {
        next.c = 0;
        next.find_places(a, walk, ++tile);
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
          store_run(run, x_scale, to, octet, place, most);
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
    MagnitudeBits most = 0;
#pragma unroll
    for (int i = 0; i < kRun; i += 2) {
      most = __vimax3_u32(most, __float_as_uint(fabsf(run[i])), __float_as_uint(fabsf(run[i + 1])));
    }
    if (most < kInfinityBits) return most;
    most = 0;
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      const MagnitudeBits bits = __float_as_uint(fabsf(run[i]));
      if (bits < kInfinityBits) most = max(most, bits);
    }
    return most;
  }

  // From a place to the input under its taps, one tap after the other.
  class TapOffsets {
   public:
    __device__ explicit TapOffsets(const TaskArgs& a)
        : cols_(a.s),
          step_(a.dilation_w),
          to_next_row_(a.dilation_h * a.stripes.pitch - a.s * a.dilation_w) {}
    __device__ int next() {
      const int offset = offset_;
      offset_ += step_;
      if (++col_ == cols_) col_ = 0, offset_ += to_next_row_;
      return offset;
    }

   private:
    const int cols_, step_, to_next_row_;
    int offset_ = 0, col_ = 0;
  };

  // An octet pair further on, in the operands of filters and of places.
  static constexpr int kNextFilters = 2 * kFilters * 16, kNextPlaces = 2 * kPlaces * 16;
  static constexpr int kNumSums = kGroupPlaces / 2;  // of a thread

  // Those of kWidth places from the kFirst-th on.
  template <int kWidth, int kFirst = 0>
  static __device__ float (&first(float (&sums)[kNumSums]))[kWidth / 2] {
    return *reinterpret_cast<float(*)[kWidth / 2]>(&sums[kFirst / 2]);
  }

  // Tensor cores round sums towards zero. The products of high halves of kChunksApart chunks are
  // therefore summed apart and then added to the others by the FP32 units, which round to nearest;
  // products with a low half are so small that their rounding does not matter.
  struct SplitSums {
    static constexpr int kChunksApart = 2;
    float total[kNumSums] = {}, high[kNumSums] = {}, low[kNumSums] = {};

    template <int kWidth>
    __device__ void add_products(std::uint64_t u, std::uint64_t x) {
      wgmma<kWidth>(first<kWidth>(high), u, x);
      wgmma<kWidth>(first<kWidth>(low), u, advance(x, kNextPlaces));
      wgmma<kWidth>(first<kWidth>(low), advance(u, kNextFilters), x);
    }
    __device__ void fold() {
#pragma unroll
      for (int i = 0; i < kNumSums; ++i) {
        total[i] += high[i];
        high[i] = 0.0f;
      }
    }
    __device__ void finish() {
#pragma unroll
      for (int i = 0; i < kNumSums; ++i) total[i] = fmaf(low[i], 1 / kLowScale, total[i]);
    }
  };
  // Rounding in the sums does not matter beside that of the operands, or of the outputs.
  struct PlainSums {
    static constexpr int kChunksApart = 1 << 20;
    float total[kNumSums] = {};

    // In columns of 128 places: an instruction of 256 wants more registers than a launch gives.
    template <int kWidth>
    __device__ void add_products(std::uint64_t u, std::uint64_t x) {
      if constexpr (kWidth <= 128) {
        add_column<0, kWidth>(u, x);
      } else {
        add_column<0, 128>(u, x);
        add_column<128, kWidth - 128>(u, x);
      }
    }
    template <int kFirst, int kWidth>
    __device__ void add_column(std::uint64_t u, std::uint64_t x) {
      auto& sums = first<kWidth, kFirst>(total);
      const std::uint64_t column = advance(x, kFirst * 16);
      wgmma<kWidth, Number>(sums, u, column);
      wgmma<kWidth, Number>(sums, advance(u, kNextFilters), advance(column, kNextPlaces));
    }
    __device__ void fold() {}
    __device__ void finish() {}
  };
  using Sums = std::conditional_t<Numbers::kSplit, SplitSums, PlainSums>;

  static __device__ void consume(const TaskArgs& a, const Walk& walk, float x_scale,
                                 Shared& shared) {
    const int warpgroup = warpgroup_index() - kProducers / 128;
    const int first_filter = kFewFilters ? 0 : warpgroup * kGroupFilters;
    const int first_place = kFewFilters ? warpgroup * kGroupPlaces : 0;
    typename StageRing<kInputStages>::Cursor input;
    typename StageRing<kFilterStages>::Cursor filter;
    for (int tile = 0; tile < walk.num_tiles; ++tile) {
      const int tile_place = walk.first_place + tile * kTilePlaces + first_place;
      typename Output::Map& map = shared.maps[warpgroup][tile % 2];
      map.fill(a, {walk.stripe, tile_place, min(tile_place + kGroupPlaces, walk.end_place)},
               walk.first_k + first_filter, static_cast<int>(threadIdx.x) % 128);
      warpgroup_sync(warpgroup);
      Sums sums;
      with_width(walk.end_place - tile_place, [&](auto width) {
        multiply<decltype(width)::value>(a, walk, first_filter, first_place, sums, input, filter,
                                         shared);
      });
      sums.finish();
      store_sums(a, walk, first_filter, Unscale(a, x_scale), sums.total, map, shared);
    }
  }

  // Calls body(std::integral_constant<int, width>{}) with as many places, in whole steps, as a
  // warpgroup has to multiply of the next `places`; where one has the second half of a tile, that
  // may be none. With more steps than two, ptxas puts a wait behind every instruction.
  template <class Body>
  static __device__ void with_width(int places, Body&& body) {
    constexpr int kStep = kGroupPlaces / 2, kLeast = kFewFilters ? 0 : 1;
    const int steps = min(max(places + kStep - 1, 0) / kStep, 2);
    unroll<3 - kLeast>([&](auto i) {
      constexpr int kSteps = decltype(i)::value + kLeast;
      if (steps == kSteps) body(std::integral_constant<int, kSteps * kStep>{});
    });
  }

  // The sums of the products of a tile, of kWidth places.
  template <int kWidth>
  static __device__ void multiply(const TaskArgs& a, const Walk& walk, int first_filter,
                                  int first_place, Sums& sums,
                                  typename StageRing<kInputStages>::Cursor& input,
                                  typename StageRing<kFilterStages>::Cursor& filter,
                                  Shared& shared) {
    const bool speaker = threadIdx.x % 32 == 0;
    for (int first_chunk = 0; first_chunk < walk.chunks; first_chunk += Sums::kChunksApart) {
      const int end_chunk = min(first_chunk + Sums::kChunksApart, walk.chunks);
      for (int chunk = first_chunk; chunk < end_chunk; ++chunk) {
        shared.input.wait_full(input);
        const std::uint64_t x = wgmma_operand(&shared.x[input.stage][0][first_place], kPlaces * 16);
        TapOffsets offsets(a);
        for (int part = 0; part < walk.parts; ++part) {
          shared.filter.wait_full(filter);
          const std::uint64_t u =
              wgmma_operand(&shared.u[filter.stage][0][0][first_filter][0], kFilters * 16);
          switch (min(kStageTaps, walk.taps - part * kStageTaps)) {
            case 1:
              add_part<kWidth, 1>(u, x, offsets, sums);
              break;
            case 2:
              add_part<kWidth, 2>(u, x, offsets, sums);
              break;
            default:
              add_part<kWidth, kStageTaps>(u, x, offsets, sums);
          }
          // The part before is done with as soon as its products are.
          if (part > 0 || chunk > first_chunk) {
            wgmma_wait<1>();
            if (speaker) {
              shared.filter.arrive_empty(filter.stage_before());
              if (part == 0) shared.input.arrive_empty(input.stage_before());
            }
          }
          filter.advance();
        }
        input.advance();
      }
      wgmma_wait<0>();
      if (speaker) {
        shared.filter.arrive_empty(filter.stage_before());
        shared.input.arrive_empty(input.stage_before());
      }
      sums.fold();
    }
  }

  // The products of a part, kTaps taps, as one batch. One block of code without branches: a batch
  // that ends in another block would count as two for wgmma_wait.
  template <int kWidth, int kTaps>
  static __device__ void add_part(std::uint64_t u, std::uint64_t x, TapOffsets& offsets,
                                  Sums& sums) {
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kTaps; ++i) {
      const std::uint64_t tap = advance(u, i * static_cast<int>(sizeof(Taps) / kStageTaps));
      const std::uint64_t input = advance(x, offsets.next() * 16);
      if constexpr (kWidth != 0) sums.template add_products<kWidth>(tap, input);
    }
    wgmma_commit();
  }

  // Undoes the scales of sums; the smaller factor first, so that no step overflows where the result
  // does not.
  struct Unscale {
    float first, second;
    __device__ Unscale(const TaskArgs& a, float x_scale) : first(1), second(1) {
      if constexpr (Numbers::kScaled) {
        const float of_input = 1.0f / x_scale, of_filter = 1.0f / Operand::footer(a).scale;
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
