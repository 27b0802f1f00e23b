// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM on Hopper's tensor cores: a direct task multiplies a block of filters by the input
// as it lies under their taps. Neither the input's matrix nor any transform of it is ever stored in
// global memory.
//
//   sums[filter][place] = over chunks of 16 channels, over taps:  U[tap] x[place + offset(tap)]
//
// Places are mapping/stripes.hpp's: those of a tile are neighbours, and under every tap they are
// neighbours again, `offset` further on. One copy of a tile's input in shared memory, kMostReach
// places longer than the tile, so serves all taps: the matrix instruction reads it from another
// start. FP32 accuracy comes from split FP16 operands (split_f16.cuh), three products a step.
//
//   loaders (3 warps)       x of the next chunks: load, split, store to shared memory
//   copier (1 warp)         hands the filters of the next taps to the copy engine
//   consumers (2 x 4 warps) products of 64 filters and 128 places each; epilogue
//
// Tensor cores round sums towards zero. The products of high halves of kChunksApart chunks are
// therefore summed apart and then added to the others by the FP32 units, which round to nearest;
// products with a low half are so small that their rounding does not matter.
#pragma once

#include <cuda/ptx>

#include "mapping/stripes.hpp"
#include "tasks/cuda/implicit_gemm_filter.cuh"
#include "tasks/cuda/output_run.cuh"
#include "tasks/cuda/stage_ring.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/wgmma.cuh"

namespace megaconv::cuda {

template <int kNumFilters, Layout kLayout>
struct ImplicitGemmTask {
  using Operand = ImplicitGemmFilters<kNumFilters>;
  static constexpr int kFilters = kNumFilters, kDepth = Operand::kDepth, kParts = Operand::kParts;
  static constexpr int kLoaders = 96, kProducers = kLoaders + 32, kConsumers = 256,
                       kThreads = kProducers + kConsumers;
  // A consumer warpgroup has 64 filters and 128 places of a tile: the other has the other filters,
  // or the other places.
  static constexpr int kGroupFilters = 64, kGroupPlaces = 128;
  static constexpr bool kFewFilters = kFilters == kGroupFilters;
  static constexpr int kTilePlaces = kFewFilters ? 2 * kGroupPlaces : kGroupPlaces;
  static constexpr int kPlaces = kTilePlaces + kMostReach;
  // Places that a loading thread has on their way, and all of a tile's.
  static constexpr int kAhead = kFewFilters ? 2 : 1;
  static constexpr int kOwnPlaces =
      (kPlaces + kAhead * kLoaders - 1) / (kAhead * kLoaders) * kAhead;
  static constexpr int kStageTaps = 3;
  static constexpr int kInputStages = 3, kFilterStages = kFewFilters ? 9 : 5;
  static constexpr int kChunksApart = 2;
  // 64512 registers: 168 a thread, shared out by what the warps do.
  static constexpr int kProducerRegisters = 104, kConsumerRegisters = 200;

  using Output = OutputRun<kLayout>;
  using Taps = __half[kStageTaps][kParts][kDepth / 8][kFilters][8];
  using Input = uint4[kParts][kDepth / 8][kPlaces];  // 8 channels each
  struct Shared {
    alignas(128) Input x[kInputStages];
    alignas(128) Taps u[kFilterStages];
    StageRing<kInputStages> input;
    StageRing<kFilterStages> filter;
    alignas(16) float outputs[kConsumers / 32][Output::kSize];
    float of_filter[kFilters], bias[kFilters];
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

  /// The largest finite |x| that the task saw goes to a.x_magnitudes[index].
  static __device__ void run(const TaskArgs& a, const Walk& walk, std::uint32_t index,
                             float x_scale, Shared& shared) {
    if (threadIdx.x == 0) {
      shared.input.init(kLoaders, kConsumers / 32);
      shared.filter.init(1, kConsumers / 32);
      ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
    }
    for (int i = static_cast<int>(threadIdx.x); i < kFilters; i += kThreads) {
      const int k = walk.first_k + i;
      shared.of_filter[i] = k < walk.end_k ? Operand::inverse_scales(a)[k] : 0.0f;
      shared.bias[i] = a.bias != nullptr && k < walk.end_k ? a.bias[k] : 0.0f;
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
      MagnitudeBits most = 0;
      for (const MagnitudeBits own : shared.most) most = max(most, own);
      if (walk.first_k == 0) a.x_magnitudes[index] = most;
    }
  }

 private:
  static constexpr int kLaunchRegisters = 168;

  // Hands the filters of all tiles, chunks and taps to the copy engine, a few taps at a time.
  static __device__ void copy_filters(const TaskArgs& a, const Walk& walk, Shared& shared) {
    if (threadIdx.x != kLoaders) return;
    typename StageRing<kFilterStages>::Cursor at;
    for (int tile = 0; tile < walk.num_tiles; ++tile) {
      const __half* next = Operand::block(a, walk.filter_block);
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
          next += num_bytes / sizeof(__half);
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

  // Neighbouring threads read neighbouring floats: nobody finds anything in L1 (NCHW).
  static __device__ float load_once(const float* x) {
    float value;
    asm("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(value) : "l"(x));
    return value;
  }

  // kDepth channels of one place from channel c on.
  static __device__ void load_channels(const TaskArgs& a, std::uint32_t offset, int c, bool in_runs,
                                       float (&values)[kDepth]) {
    const int count = offset == kNowhere ? 0 : a.c - c;
    const std::size_t stride = kLayout == Layout::nchw ? static_cast<std::size_t>(a.h) * a.w_in : 1;
    const float* x = a.x + (offset == kNowhere ? 0 : offset) + static_cast<std::size_t>(c) * stride;
    if (kLayout == Layout::nhwc && in_runs) {
#pragma unroll
      for (int i = 0; i < kDepth; i += 4) {
        const Vec<4> run = i < count ? load<4>(x + i) : zero<4>();
#pragma unroll
        for (int j = 0; j < 4; ++j) values[i + j] = run.lane[j];
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      values[i] = i < count ? load_once(x) : 0.0f;
      x += stride;
    }
  }

  static __device__ void load_input(const TaskArgs& a, const Walk& walk, float x_scale,
                                    Shared& shared) {
    const int thread = static_cast<int>(threadIdx.x);
    const int num_places = kTilePlaces + a.stripes.reach;
    const bool in_runs =
        a.c % 4 == 0 && reinterpret_cast<std::uintptr_t>(a.x) % sizeof(Vec<4>) == 0;
    typename StageRing<kInputStages>::Cursor at;
    float most = 0;
    for (int tile = 0; tile < walk.num_tiles; ++tile) {
      std::uint32_t offsets[kOwnPlaces];
#pragma unroll
      for (int i = 0; i < kOwnPlaces; ++i) {
        const int place = i * kLoaders + thread;
        offsets[i] = place < num_places
                         ? input_offset(a, walk, walk.first_place + tile * kTilePlaces + place)
                         : kNowhere;
      }
      // The next places are on their way while one is split.
      float ahead[kAhead][kDepth];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) load_channels(a, offsets[i], 0, in_runs, ahead[i]);
      for (int chunk = 0; chunk < walk.chunks; ++chunk) {
        shared.input.wait_empty(at);
#pragma unroll
        for (int i = 0; i < kOwnPlaces; ++i) {
          float values[kDepth];
#pragma unroll
          for (int j = 0; j < kDepth; ++j) values[j] = ahead[i % kAhead][j];
          const int next_chunk = chunk + (i + kAhead) / kOwnPlaces;
          load_channels(a, next_chunk < walk.chunks ? offsets[(i + kAhead) % kOwnPlaces] : kNowhere,
                        next_chunk * kDepth, in_runs, ahead[i % kAhead]);
          const int place = i * kLoaders + thread;
          if (place < num_places) store_split(values, x_scale, shared.x[at.stage], place, most);
        }
        ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
        shared.input.arrive_full(at.stage);
        at.advance();
      }
    }
    const MagnitudeBits warp_most = __reduce_max_sync(0xffffffffu, __float_as_uint(most));
    if (thread % 32 == 0) shared.most[thread / 32] = warp_most;
  }

  static __device__ void store_split(const float (&values)[kDepth], float x_scale, Input& to,
                                     int place, float& most) {
#pragma unroll
    for (int octet = 0; octet < kDepth / 8; ++octet) {
      __half2 high[4], low[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float first = values[octet * 8 + i * 2], second = values[octet * 8 + i * 2 + 1];
        most = fmaxf(most, finite_magnitude(first));
        most = fmaxf(most, finite_magnitude(second));
        const SplitPair pair = split_pair(first * x_scale, second * x_scale);
        high[i] = pair.high;
        low[i] = pair.low;
      }
      to[0][octet][place] = *reinterpret_cast<const uint4*>(high);
      to[1][octet][place] = *reinterpret_cast<const uint4*>(low);
    }
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

  static constexpr int kNumSums = kGroupPlaces / 2;  // of a thread
  using Sums = float[kNumSums];

  static __device__ void consume(const TaskArgs& a, const Walk& walk, float x_scale,
                                 Shared& shared) {
    const int warpgroup = warpgroup_index() - kProducers / 128;
    const int first_filter = kFewFilters ? 0 : warpgroup * kGroupFilters;
    const int first_place = kFewFilters ? warpgroup * kGroupPlaces : 0;
    const bool speaker = threadIdx.x % 32 == 0;
    typename StageRing<kInputStages>::Cursor input;
    typename StageRing<kFilterStages>::Cursor filter;
    for (int tile = 0; tile < walk.num_tiles; ++tile) {
      Sums sums, high, low;
#pragma unroll
      for (int i = 0; i < kNumSums; ++i) sums[i] = high[i] = low[i] = 0.0f;
      for (int first_chunk = 0; first_chunk < walk.chunks; first_chunk += kChunksApart) {
        const int end_chunk = min(first_chunk + kChunksApart, walk.chunks);
        for (int chunk = first_chunk; chunk < end_chunk; ++chunk) {
          shared.input.wait_full(input);
          const std::uint64_t x =
              wgmma_operand(&shared.x[input.stage][0][0][first_place], kPlaces * 16);
          TapOffsets offsets(a);
          for (int part = 0; part < walk.parts; ++part) {
            shared.filter.wait_full(filter);
            const std::uint64_t u =
                wgmma_operand(&shared.u[filter.stage][0][0][0][first_filter][0], kFilters * 16);
            switch (min(kStageTaps, walk.taps - part * kStageTaps)) {
              case 1:
                add_products<1>(u, x, offsets, high, low);
                break;
              case 2:
                add_products<2>(u, x, offsets, high, low);
                break;
              default:
                add_products<kStageTaps>(u, x, offsets, high, low);
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
#pragma unroll
        for (int i = 0; i < kNumSums; ++i) {
          sums[i] += high[i];
          high[i] = 0.0f;
        }
      }
#pragma unroll
      for (int i = 0; i < kNumSums; ++i) sums[i] = fmaf(low[i], 1 / kLowScale, sums[i]);
      store_sums(a, walk, first_filter, walk.first_place + tile * kTilePlaces + first_place,
                 1.0f / x_scale, sums, shared);
    }
  }

  // The products of a part, kTaps taps, as one batch. One block of code without branches: a batch
  // that ends in another block would count as two for wgmma_wait.
  template <int kTaps>
  static __device__ void add_products(std::uint64_t u, std::uint64_t x, TapOffsets& offsets,
                                      Sums& high, Sums& low) {
    constexpr int kLow = kDepth * sizeof(__half);  // from a high half's operand, for one row
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kTaps; ++i) {
      const std::uint64_t u_high = advance(u, i * static_cast<int>(sizeof(Taps) / kStageTaps));
      const std::uint64_t x_high = advance(x, offsets.next() * 16);
      wgmma<kGroupPlaces>(high, u_high, x_high);
      wgmma<kGroupPlaces>(low, u_high, advance(x_high, kLow * kPlaces));
      wgmma<kGroupPlaces>(low, advance(u_high, kLow * kFilters), x_high);
    }
    wgmma_commit();
  }

  // Stores what exists of a warp's sums, with the epilogue. Thread 4 f + q holds, of filters f and
  // f + 8, places 8 j + 2 q and the next.
  static __device__ void store_sums(const TaskArgs& a, const Walk& walk, int first_filter,
                                    int first_place, float of_input, const Sums& sums,
                                    Shared& shared) {
    const int warp = (static_cast<int>(threadIdx.x) - kProducers) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float* const values = shared.outputs[warp];
    first_filter += warp % 4 * 16;
    float of_filter[2], bias[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      of_filter[half] = shared.of_filter[first_filter + half * 8 + lane / 4];
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
              return fmaf(sum * of_input, of_filter[half], bias[half]);
            };
            Output::put(values, half * 8 - filter + lane / 4, j * 8 + lane % 4 * 2, value(0),
                        value(1));
          }
        }
        __syncwarp();
        const int first = first_place + place;
        output.store(values, {walk.stripe, first, min(first + Output::kPlaces, walk.end_place)});
        __syncwarp();
      }
    }
  }
};

}  // namespace megaconv::cuda
