// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM (implicit_gemm.cuh) in NHWC on operands that lie in global memory as matrix
// instructions multiply them: 16-bit tensors themselves, or copies of float tensors
// (operand_rows.cuh). The copy engine brings them, and no thread touches an element.
//
// It walks through the pixels of x in the order of places, gaps included, for which it writes zeros
// (tensor maps of kind im2col; runtime/cuda/tensor_map.hpp makes them). A slab of channels
// (mapping/stripes.hpp) is a row, whose octets the copy engine permutes and the matrix instruction
// puts back in order, so that neither meets bank conflicts. Outputs of 16 bits leave by it, too.
//
//   copiers    two threads, one for x and one for w
//   consumers  two warpgroups, each: products of 64 filters and half the places of a tile
//   storers    a warp for each of these: outputs to y, while the next tile is multiplied; floats
//              are stored by the consumers, whom the storers only tell where
//
// What is read most often is w, by every tile; so a tile has few filters and many places. Their
// number divides a task evenly; consumers are compiled for every such width.
#pragma once

#include <cuda/ptx>

#include "mapping/stripes.hpp"
#include "tasks/cuda/implicit_gemm_walk.cuh"
#include "tasks/cuda/matrix_numbers.cuh"
#include "tasks/cuda/operand_rows.cuh"
#include "tasks/cuda/stage_ring.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/tensor_copy.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/cuda/wgmma.cuh"

namespace megaconv::cuda {

template <class Numbers>
struct ImplicitGemmInPlaceTask {
  using Number = typename Numbers::Number;
  using Stored = typename Numbers::Stored;
  static_assert(!Numbers::kSplit);
  static constexpr bool kFloats = std::is_same_v<Stored, float>;
  static constexpr int kFilters = 64;
  // Two warps copy, two store.
  static constexpr int kHelpers = 128, kConsumers = 256, kThreads = kHelpers + kConsumers;
  // 65536 registers of a multiprocessor, shared out by what the warps do.
  static constexpr int kLaunchRegisters = 168, kHelperRegisters = 56, kConsumerRegisters = 224;
  // Places of a consumer warpgroup: its share of a tile.
  static constexpr int kStep = kPlaceStepInPlace / 2, kMostWidth = kMostPlacesInPlace / 2;

  // Octets of filters of a place, permuted against bank conflicts.
  static constexpr int kOctets = kFilters / 8;
  using OutputRow = uint4[kOctets];
  // What is kept of a place of a tile: its outputs, or which pixel of y it is, -1 if none.
  using OutputPlace = std::conditional_t<kFloats, std::int32_t, OutputRow>;
  static __device__ int permuted(int place, int octet) { return octet ^ place % kOctets; }

  // Taps by which the first consumers keep ahead of the second, so that one warpgroup multiplies
  // while the other hands over its outputs. Meanwhile the second ones hold kPending taps, so there
  // must be as many stages of filters as both together.
  static constexpr int kLead = 3, kPending = 3;

  // Shared memory is cut as a plan needs it: input stages, outputs, and for w what is left.
  static constexpr int kLeastInputStages = 2, kMostInputStages = 4;
  static constexpr int kLeastFilterBytes = 64 * 1024, kMostFilterStages = 24;
  struct Barriers {
    StageRing<kMostInputStages> input;
    StageRing<kMostFilterStages> filter;
    StageRing<kMostInputStages> lead;  // the first consumers are kLead taps into a stage of input
    StageRing<1> output[2];
  };
  struct Shared {
    Barriers& barriers;
    std::byte* x;          // [input_stages][input_bytes]
    std::byte* u;          // [filter_stages][tap_bytes]
    OutputPlace* outputs;  // [2][tile_places / 2]
    int row_bytes, tap_bytes, input_bytes;
    int input_stages, filter_stages;
    /// Of a block's dynamic shared memory, which begins anywhere.
    __device__ Shared(const TaskArgs& a, std::byte* begin)
        : barriers(*reinterpret_cast<Barriers*>(begin)),
          row_bytes(a.slab_channels * static_cast<int>(sizeof(Number))),
          tap_bytes(kFilters * row_bytes),
          input_bytes((a.tile_places + a.reach_at_once) * row_bytes) {
      constexpr int kWithinSpan = kSwizzleSpan - 1;
      input_bytes = (input_bytes + kWithinSpan) & ~kWithinSpan;
      const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(begin));
      x = begin + ((address + sizeof(Barriers) + kWithinSpan) & ~kWithinSpan) - address;
      outputs = reinterpret_cast<OutputPlace*>(x);
      const int output_bytes = a.tile_places * static_cast<int>(sizeof(OutputPlace));
      x += (output_bytes + kWithinSpan) & ~kWithinSpan;
      const auto room = static_cast<int>(begin + kSharedBytesInPlace - x);
      const int with_all = (room - slabs(a) * a.r * a.s * tap_bytes) / input_bytes;
      const int with_few = (room - kLeastFilterBytes) / input_bytes;
      input_stages = with_all >= kLeastInputStages ? with_all : with_few;
      input_stages = max(kLeastInputStages, min(kMostInputStages, input_stages));
      u = x + input_stages * input_bytes;
      filter_stages = min(kMostFilterStages, (room - input_stages * input_bytes) / tap_bytes);
    }
  };

  static __device__ int slabs(const TaskArgs& a) {
    return (a.c_padded + a.slab_channels - 1) / a.slab_channels;
  }

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
      chunks = slabs(a) * (a.r / a.rows_at_once);
      taps = a.rows_at_once * a.s;
    }
    // With a tile alone there is nothing to hide.
    __device__ bool has_lead() const { return num_tiles > 1 && taps > kLead; }
    // All filters, from the first tile to the last.
    __device__ bool keeps_filters(const Shared& shared) const {
      return chunks * taps <= shared.filter_stages;
    }
  };

  /// All threads call wait() before they touch what kernels before have written.
  template <class Wait>
  static __device__ __forceinline__ void run(const TaskArgs& a, const Walk& walk,
                                             const Shared& shared, Wait&& wait) {
    Barriers& barriers = shared.barriers;
    if (threadIdx.x == 0) {
      barriers.input.init(1, kConsumers / 32);
      barriers.filter.init(1, kConsumers / 32);
      barriers.lead.init(128 / 32, 1);
      constexpr int kWarps = 128 / 32;
      for (auto& output : barriers.output) {
        output.init(kFloats ? 1 : kWarps, kFloats ? kWarps : 1);
      }
      ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
    }
    ::cuda::ptx::fence_proxy_async();
    __syncthreads();
    wait();
    if (threadIdx.x < kHelpers) {
      decrease_registers<kHelperRegisters>();
      if (threadIdx.x == 0) {
        copy_input(a, walk, shared);
      } else if (threadIdx.x == 32) {
        copy_filters(a, walk, shared);
      } else if (threadIdx.x >= 64) {
        const int warpgroup = static_cast<int>(threadIdx.x) / 32 - 2;
        if constexpr (kFloats) {
          find_outputs(a, walk, warpgroup, shared);
        } else {
          store_outputs(a, walk, warpgroup, shared);
        }
      }
      __syncwarp();
      increase_registers<kLaunchRegisters>();
    } else {
      increase_registers<kConsumerRegisters>();
      consume_width<kMostWidth>(a, walk, shared);
      decrease_registers<kLaunchRegisters>();
    }
  }
  /// Called by one thread between two tasks.
  static __device__ void close(const Shared& shared) {
    Barriers& barriers = shared.barriers;
    barriers.input.close();
    barriers.filter.close();
    barriers.lead.close();
    for (auto& output : barriers.output) output.close();
  }

 private:
  static __device__ void copy_input(const TaskArgs& a, const Walk& walk, const Shared& shared) {
    auto& ring = shared.barriers.input;
    const Stripes& s = a.stripes;
    const Stripes::Position next_tile = s.position(a.tile_places);
    const Stripes::Position next_row{0, a.dilation_h, 0};
    const auto num_bytes =
        static_cast<std::uint32_t>((a.tile_places + a.reach_at_once) * shared.row_bytes);
    Stripes::Position tile_start = s.position(walk.first_place);
    typename StageRing<kMostInputStages>::Cursor at;
    for (int tile = 0; tile < walk.num_tiles; ++tile, tile_start = s.sum(tile_start, next_tile)) {
      for (int c = 0; c < a.c_padded; c += a.slab_channels) {
        Stripes::Position start = tile_start;
        for (int row = 0; row < a.r; row += a.rows_at_once, start = s.sum(start, next_row)) {
          ring.wait_empty(at);
          copy_pixels(shared.x + at.stage * shared.input_bytes, a.x_tensor, c, start.col - a.pad_w,
                      start.row - a.pad_h, start.image, ring.expect(at, num_bytes));
          at.advance(shared.input_stages);
        }
      }
    }
  }

  static __device__ void copy_filters(const TaskArgs& a, const Walk& walk, const Shared& shared) {
    auto& ring = shared.barriers.filter;
    typename StageRing<kMostFilterStages>::Cursor at;
    for (int tile = 0; tile < (walk.keeps_filters(shared) ? 1 : walk.num_tiles); ++tile) {
      for (int c = 0; c < a.c_padded; c += a.slab_channels) {
        for (int tap = 0; tap < a.r * a.s; ++tap) {
          ring.wait_empty(at);
          copy_box(shared.u + at.stage * shared.tap_bytes, a.w_tensor, c, walk.first_k, tap,
                   ring.expect(at, static_cast<std::uint32_t>(shared.tap_bytes)));
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
    const Finish finish(a, walk.first_k);
    typename StageRing<kMostInputStages>::Cursor input;
    typename StageRing<kMostFilterStages>::Cursor filter;
    StageRing<1>::Cursor output;
    float sums[kWidth / 2] = {};
    for (int tile = 0; tile < walk.num_tiles; ++tile) {
      multiply<kWidth>(a, walk, warpgroup * kWidth, input, filter, sums, shared);
      OutputPlace* const outputs = shared.outputs + warpgroup * kWidth;
      if constexpr (kFloats) {
        ring.wait_full(output);
        store_floats<kWidth>(a, walk.first_k, finish, sums, outputs);
      } else {
        ring.wait_empty(output);
        put_outputs<kWidth>(finish, sums, outputs);
        ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) {
        kFloats ? ring.arrive_empty(output.stage) : ring.arrive_full(output.stage);
      }
      output.advance();
    }
  }

  // Adds the products of a tile.
  template <int kWidth>
  static __device__ __forceinline__ void multiply(
      const TaskArgs& a, const Walk& walk, int first_place,
      typename StageRing<kMostInputStages>::Cursor& input,
      typename StageRing<kMostFilterStages>::Cursor& filter, float (&sums)[kWidth / 2],
      const Shared& shared) {
    Barriers& barriers = shared.barriers;
    if (walk.keeps_filters(shared)) filter = {};
    // Taps that are being multiplied, at most kPending; those before are given back.
    int pending = 0, oldest_filter = filter.stage, oldest_input = input.stage, oldest_tap = 0;
    const auto release = [&] {
      const bool speaker = threadIdx.x % 32 == 0;
      if (speaker) barriers.filter.arrive_empty(oldest_filter);
      if (++oldest_filter == shared.filter_stages) oldest_filter = 0;
      if (++oldest_tap == walk.taps) {
        if (speaker) barriers.input.arrive_empty(oldest_input);
        if (++oldest_input == shared.input_stages) oldest_input = 0;
        oldest_tap = 0;
      }
    };
    constexpr int kRowBytes = slab_channels_in_place(2 * kWidth) * static_cast<int>(sizeof(Number));
    TapOffsets offsets(a, kRowBytes);
    const bool leads = walk.has_lead() && first_place == 0;
    const bool follows = walk.has_lead() && first_place != 0;
    for (int chunk = 0; chunk < walk.chunks; ++chunk) {
      if (follows) barriers.lead.wait_full(input);
      barriers.input.wait_full(input);
      const int stage = input.stage;
      const std::uint64_t places = wgmma_swizzled_operand<kRowBytes>(
          shared.x + stage * shared.input_bytes + first_place * kRowBytes);
      input.advance(shared.input_stages);
      offsets.restart();
      for (int tap = 0; tap < walk.taps; ++tap) {
        barriers.filter.wait_full(filter);
        const std::uint64_t u =
            wgmma_swizzled_operand<kRowBytes>(shared.u + filter.stage * kFilters * kRowBytes);
        const std::uint64_t x = advance(places, offsets.next());
        filter.advance(shared.filter_stages);
        wgmma_fence();
#pragma unroll
        for (int channels = 0; channels < kRowBytes; channels += 16 * sizeof(Number)) {
          wgmma<kWidth, Number>(sums, advance(u, channels), advance(x, channels));
        }
        wgmma_commit();
        if (leads && tap == kLead - 1 && threadIdx.x % 32 == 0) barriers.lead.arrive_full(stage);
        wgmma_wait<kPending>();
        if (++pending > kPending) --pending, release();
      }
    }
    wgmma_wait<0>();
    for (; pending > 0; --pending) release();
  }

  // The first of the two filters, eight apart, whose sums this thread has.
  static __device__ int own_filter(int first_k) {
    return first_k + static_cast<int>(threadIdx.x) % 128 / 32 * 16 +
           static_cast<int>(threadIdx.x) % 32 / 4;
  }

  // From sums to outputs: the scales undone, the smaller factor first, so that no step overflows
  // where the result does not; bias and ReLU.
  class Finish {
   public:
    __device__ Finish(const TaskArgs& a, int first_k) : relu_(a.relu) {
      if constexpr (Numbers::kScaled) {
        const float of_input = 1.0f / a.x_footer->scale;
        const float of_filter = 1.0f / footer_of_filters(a).scale;
        first_ = fminf(of_input, of_filter), second_ = fmaxf(of_input, of_filter);
      }
      const auto* const bias = reinterpret_cast<const Stored*>(a.bias);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int k = own_filter(first_k) + half * 8;
        bias_[half] = bias != nullptr && k < a.k ? static_cast<float>(bias[k]) : 0.0f;
      }
    }
    /// Of the thread's first or second filter.
    __device__ float operator()(int half, float sum) const {
      if constexpr (Numbers::kScaled) sum = sum * first_ * second_;
      sum += bias_[half];
      return relu_ ? fmaxf(sum, 0.0f) : sum;
    }

   private:
    float first_ = 1, second_ = 1, bias_[2];
    const bool relu_;
  };

  // Where a share's outputs go, for the consumers that have their sums.
  static __device__ void find_outputs(const TaskArgs& a, const Walk& walk, int warpgroup,
                                      const Shared& shared) {
    auto& ring = shared.barriers.output[warpgroup];
    const int lane = static_cast<int>(threadIdx.x) % 32, width = a.tile_places / 2;
    StageRing<1>::Cursor at;
    for (int tile = 0; tile < walk.num_tiles; ++tile, at.advance()) {
      const int first = walk.first_place + tile * a.tile_places + warpgroup * width;
      ring.wait_empty(at);
      for (int i = lane; i < width; i += 32) {
        const Stripes::Position at_place = a.stripes.position(first + i);
        const bool exists = first + i < walk.end_place && at_place.row < a.p && at_place.col < a.q;
        shared.outputs[warpgroup * width + i] =
            exists ? (at_place.image * a.p + at_place.row) * a.q + at_place.col : -1;
      }
      __syncwarp();
      if (lane == 0) ring.arrive_full(at.stage);
    }
  }

  // Stores a warpgroup's sums, eight neighbouring filters of a place at a time, which are a sector
  // of memory; they are zero then.
  template <int kWidth>
  static __device__ __forceinline__ void store_floats(const TaskArgs& a, int first_k,
                                                      const Finish& finish,
                                                      float (&sums)[kWidth / 2],
                                                      const std::int32_t* pixels) {
    const int k = own_filter(first_k), pair = static_cast<int>(threadIdx.x) % 4 * 2;
    float* const y = a.y + k;
    const bool first = k < a.k, second = k + 8 < a.k;
#pragma unroll
    for (int i = 0; i < kWidth / 8; ++i) {
      const int2 both = *reinterpret_cast<const int2*>(&pixels[i * 8 + pair]);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int pixel = j == 0 ? both.x : both.y;
        float* const to = y + static_cast<std::int64_t>(pixel) * a.k;
        if (pixel >= 0 && first) to[0] = finish(0, sums[i * 4 + j]);
        if (pixel >= 0 && second) to[8] = finish(1, sums[i * 4 + 2 + j]);
        sums[i * 4 + j] = sums[i * 4 + 2 + j] = 0.0f;
      }
    }
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
  static __device__ __forceinline__ void put_outputs(const Finish& finish,
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
        const Vec<2, Number> both{{static_cast<Number>(finish(i % 2, two[0])),
                                   static_cast<Number>(finish(i % 2, two[1]))}};
        two[0] = two[1] = 0.0f;
        pairs[i] = *reinterpret_cast<const std::uint32_t*>(&both);
      }
      store_transposed(to + place * kOctets, pairs);
    }
  }

  // Outputs of a share of a tile that lie in one row of y.
  struct Run {
    int first, cols;  // in the share; what there is of it in y
    int image, row, col;
    /// The share's `line`-th, if it begins at `start`.
    __device__ Run(const TaskArgs& a, const Stripes::Position& start, int line)
        : first(line == 0 ? 0 : line * a.stripes.pitch - start.col),
          image(start.image),
          row(start.row + line),
          col(line == 0 ? start.col : 0) {
      for (; row >= a.stripes.period; row -= a.stripes.period) ++image;
      cols = row < a.p ? max(a.q - col, 0) : 0;
    }
    /// Columns that boxes hold, of a share of so many places: whole ones, or all to the row's end.
    __device__ int in_boxes(const TaskArgs& a, int places) const {
      return first + cols <= places ? cols : (places - first) / a.output_cols * a.output_cols;
    }
  };

  // A warp: outputs of a warpgroup's share of each tile, while the next one is multiplied. The copy
  // engine takes them in boxes of some columns of a row, which it cuts where the row ends; what is
  // left where a share ends amid a row is stored by threads, eight a place.
  static __device__ void store_outputs(const TaskArgs& a, const Walk& walk, int warpgroup,
                                       const Shared& shared) {
    auto& ring = shared.barriers.output[warpgroup];
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int width = a.tile_places / 2;
    const OutputRow* const outputs = shared.outputs + warpgroup * width;
    StageRing<1>::Cursor at;
    for (int tile = 0; tile < walk.num_tiles; ++tile, at.advance()) {
      const int first = walk.first_place + tile * a.tile_places + warpgroup * width;
      const int places = min(width, walk.end_place - first);
      const Stripes::Position start = a.stripes.position(first);
      const int last = (start.col + places - 1) / a.stripes.pitch;
      ring.wait_full(at);
      for (int line = lane; line <= last && places > 0; line += 32) {
        const Run run(a, start, line);
        const int cols = run.in_boxes(a, places);
        for (int i = 0; i < cols; i += a.output_cols) {
          const std::int32_t to[] = {walk.first_k, run.col + i, run.row, run.image};
          ::cuda::ptx::cp_async_bulk_tensor(::cuda::ptx::space_global, ::cuda::ptx::space_shared,
                                            &a.y_tensor, to, outputs + run.first + i);
        }
      }
      ::cuda::ptx::cp_async_bulk_commit_group();
      if (places > 0) store_rest(a, walk, Run(a, start, last), places, outputs);
      ::cuda::ptx::cp_async_bulk_wait_group_read(::cuda::ptx::n32_t<0>());
      __syncwarp();
      if (lane == 0) ring.arrive_empty(at.stage);
    }
  }
  static __device__ void store_rest(const TaskArgs& a, const Walk& walk, const Run& run, int places,
                                    const OutputRow* outputs) {
    const int lane = static_cast<int>(threadIdx.x) % 32, octet = lane % kOctets;
    const int k = walk.first_k + octet * 8;
    const int end = k < a.k ? min(run.cols, places - run.first) : 0;
    const int pixel = (run.image * a.p + run.row) * a.q + run.col;
    auto* const y = reinterpret_cast<Number*>(a.y) + static_cast<std::int64_t>(pixel) * a.k + k;
    for (int i = run.in_boxes(a, places) + lane / kOctets; i < end; i += 32 / kOctets) {
      const int from = run.first + i;
      *reinterpret_cast<uint4*>(y + static_cast<std::int64_t>(i) * a.k) =
          outputs[from][permuted(from, octet)];
    }
  }
};

}  // namespace megaconv::cuda
