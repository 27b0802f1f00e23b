// SPDX-License-Identifier: Apache-2.0
// What the roles of a block share in implicit GEMM on operands in place
// (implicit_gemm_in_place.cuh): how many threads have which role, what lies in shared memory, and
// how a task is walked through.
#pragma once

#include <cuda/ptx>
#include <type_traits>

#include "tasks/cuda/block_cluster.cuh"
#include "tasks/cuda/stage_ring.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/task_stream.cuh"
#include "tasks/cuda/tensor_copy.cuh"
#include "tasks/implicit_gemm/stripes.hpp"

namespace megaconv::cuda {

/// kShares: the channels of each task are shared out to the blocks of a cluster (channel_shares(),
/// tasks/implicit_gemm/implicit_gemm.hpp).
template <class NumbersType, Operands kOperandsOfTask, bool kShares>
struct InPlaceShape {
  using Numbers = NumbersType;
  static constexpr Operands kOperands = kOperandsOfTask;
  static constexpr bool kSharesChannels = kShares;

  using Number = typename Numbers::Number;
  using Stored = typename Numbers::Stored;
  // Consumers of tall tiles make pairs of x in registers (tall_split.cuh).
  static constexpr bool kSplitsRows = kOperands == Operands::split_tall;
  static_assert(Numbers::kSplit == kSplitsRows);
  static_assert(sizeof(Number) * (kSplitsRows ? 2 : 1) == operand_bytes(kOperands));
  static constexpr bool kFloats = std::is_same_v<Stored, float>;
  static_assert(kFloats != have_16_bits(kOperands));
  static constexpr bool kConverts = kOperands == Operands::converted;
  // Or they convert it (tall_convert.cuh).
  static constexpr bool kConvertsRows = kSplitsRows || kOperands == Operands::converted_tall;
  // Blocks of a cluster, if there are several, load or convert x for each other: a stage of x is
  // empty when all of them have left it. Or they share channels.
  static constexpr bool kLoadsTogether = may_load_together(kOperands);
  static constexpr bool kSameInput = kConverts || kLoadsTogether;
  static constexpr bool kClusters = kSameInput || kSharesChannels;
  static constexpr bool kAbreast = !kSameInput && !kSharesChannels;  // images may be
  static constexpr int kFilters = most_filters_in_place(kOperands);
  // A consumer warpgroup has the products of kGroupFilters: all of a tile's and half of its padded
  // pixels, or half of the filters and all padded pixels.
  static constexpr int kGroupFilters = 64;
  static constexpr bool kWide = are_wide(kOperands);
  // Or half of a tall tile's padded pixels and all of its filters (tall_multiply.cuh).
  static constexpr bool kTall = are_tall(kOperands);
  // Two warps load, two store.
  static constexpr int kHelpers = 128, kConverters = kConverts ? 128 : 0, kConsumers = 256;
  static constexpr int kStorers = 64;
  static constexpr int kThreads = kHelpers + kConverters + kConsumers;
  // Warps that read a task: the loader of filters, storers, converters and consumers.
  static constexpr int kReaders = 1 + 2 + (kConverters + kConsumers) / 32;
  // Magnitudes of a task, which warps that convert note.
  static constexpr int kNotedOfBlock = (kConvertsRows ? kConsumers : kConverters) / 32;
  // Registers of a thread: at the launch, and then by role. (A warp that asks for more than others
  // have given up waits for ever.)
  static constexpr int kLaunchRegisters = kConverts ? 128 : 168, kHelperRegisters = 72,
                       kConverterRegisters = 104, kConsumerRegisters = kConverts ? 168 : 216;
  static_assert(kHelpers * kHelperRegisters + kConverters * kConverterRegisters +
                    kConsumers * kConsumerRegisters <=
                kThreads * kLaunchRegisters);
  // Padded pixels of a consumer warpgroup: its share of a tile.
  static constexpr int kGroupsOfPlaces = groups_of_places(kOperands);
  static constexpr int kMostWidth =
      (kSharesChannels ? kMostSharedPlaces : most_places_in_place(kOperands)) / kGroupsOfPlaces;
  static __device__ int first_place_of(int warpgroup, int width) {
    return kWide ? 0 : warpgroup * width;
  }
  static __device__ int first_filter_of(int warpgroup) {
    return kWide ? warpgroup * kGroupFilters : 0;
  }
  static __device__ int first_output_of(int warpgroup, int width) {
    return kWide ? warpgroup * kRows * width : warpgroup * width;
  }

  // Outputs of a padded pixel lie in rows of eight vectors, permuted against bank conflicts: a row
  // for every kRowFilters, the rows of a tile's padded pixels one after the other.
  static constexpr int kVectors = 8, kVectorFilters = 16 / static_cast<int>(sizeof(Stored));
  static constexpr int kRowFilters = kVectors * kVectorFilters, kRows = kGroupFilters / kRowFilters;
  using OutputRow = uint4[kVectors];
  static __device__ int permuted(int place, int vector) { return vector ^ place % kVectors; }

  // Outputs leave from pipeline stages, in parts (kColumnsOfPart, stripes.hpp), or those of a tile
  // together from the only stage.
  static constexpr int kOutputStages =
      may_leave_in_parts(kOperands, kTall ? kFilters : most_places_in_place(kOperands))
          ? kMostOutputStages
          : 1;
  using OutputRing = StageRing<kOutputStages>;
  struct OutputCursor {
    typename OutputRing::Cursor at;
    const int stages;
    __device__ explicit OutputCursor(const TaskArgs& a)
        : stages(kOutputStages > 1 ? a.memory.output_stages : 1) {}
    __device__ bool in_parts() const { return stages > 1; }
    __device__ void advance() { at.advance(stages); }
    /// Of the residual of a tile, whose outputs are not in parts.
    __device__ StageRing<1>::Cursor residual() const { return {0, at.parity}; }
  };

  // Taps by which the first consumers keep ahead of the second, so that one warpgroup multiplies
  // while the other hands over its outputs. Meanwhile the second ones hold kPending taps, so there
  // must be as many stages of filters as both together.
  static constexpr int kLead = 3, kPending = 3;

  static constexpr int kMostInputStages = most_input_stages(kOperands);
  using InputRing = StageRing<kMostInputStages>;
  using FilterRing = StageRing<kWide ? kMostInputStages : kMostFilterStages>;
  struct Barriers {
    TaskStream tasks;
    StageRing<kConverts ? kPieces : 1> pieces;
    InputRing input;
    FilterRing filter;
    // The first consumers are kLead taps into a stage of input. (Those of tall tiles never lead.)
    StageRing<kTall ? 1 : kMostInputStages> lead;
    OutputRing output[2];
    StageRing<1> residual[2];    // of the tile, where its outputs will be; output[] gives it back
    std::uint64_t partial_sums;  // of the first block of a cluster: those of the others are there
    int input_stages, filter_stages;
  };
  /// Blocks that load or convert x for each other, or share channels.
  static __device__ BlockCluster own_cluster() {
    if constexpr (kSameInput) return BlockCluster::current();
    if constexpr (kSharesChannels) {
      return {static_cast<int>(gridDim.y), static_cast<int>(blockIdx.y)};
    }
    return {1, 0};
  }
  static_assert(sizeof(Barriers) <= kBarrierBytesInPlace);
  static_assert(kBarrierBytesInPlace % kSwizzleSpan == 0);
  struct Shared {
    Barriers& barriers;
    // [kRows][tile_places], of these halves for each consumer warpgroup; of wide tiles
    // [2][output_stages][kRows][places of a stage]; of tall ones
    // [2][output_stages][tile_places / 2][output_pitch_of_tall(filters of a stage)] bytes
    OutputRow* outputs;
    std::byte* pieces;    // [num_pieces], if x is to be converted
    float* partial_sums;  // [blocks that share channels, but one][kWidth / 2][kConsumers]
    std::byte* x;         // [input_stages][input_bytes]
    std::byte* u;         // [filter_stages][tap_bytes]
    const int row_bytes, tap_bytes, input_bytes;
    const int num_pieces, input_stages, filter_stages;
    const BlockCluster cluster;
    const int first_k_block, end_k_block;  // of the block's share of the channels, or of all
    /// Of a block's dynamic shared memory, which begins at a multiple of kSwizzleSpan.
    __device__ Shared(const TaskArgs& a, std::byte* begin)
        : barriers(*reinterpret_cast<Barriers*>(begin)),
          row_bytes(a.k_block_channels * operand_bytes(kOperands)),
          tap_bytes(a.memory.tap_bytes),
          input_bytes(a.memory.input_bytes),
          num_pieces(a.memory.num_pieces),
          // Where they are in no uniform registers, ptxas would load arguments again for every tap.
          input_stages(Numbers::kScaled ? barriers.input_stages : a.memory.input_stages),
          filter_stages(Numbers::kScaled ? barriers.filter_stages : a.memory.filter_stages),
          cluster(own_cluster()),
          first_k_block(kSharesChannels ? cluster.rank() * a.block_k_blocks : 0),
          end_k_block(min(first_k_block + a.block_k_blocks, a.k_blocks)) {
      begin += kBarrierBytesInPlace;
      outputs = reinterpret_cast<OutputRow*>(begin);
      pieces = begin + a.memory.pieces;
      partial_sums = reinterpret_cast<float*>(begin + a.memory.partial_sums);
      x = begin + a.memory.input;
      u = begin + a.memory.filters;
    }
  };

  /// Each: the taps whose input is kept at a time, in a K block of channels.
  static __device__ int num_chunks(const TaskArgs& a, int k_blocks) {
    if (a.cols_at_once != a.s) k_blocks *= a.s;
    return a.rows_at_once == a.r ? k_blocks : k_blocks * a.r;
  }

  /// A task's padded pixels, in a stripe, and filters.
  struct Walk {
    int stripe = 0, first_place, end_place, num_tiles, first_k;
    __device__ Walk(const TaskArgs& a, const Task& task) {
      auto group = static_cast<int>(task.group);
      if (kConverts || (kAbreast && a.stripes.images > 1)) {
        stripe = group / a.stripe_groups;
        group -= stripe * a.stripe_groups;
      }
      first_place = group * a.places_per_group;
      end_place = min(first_place + a.places_per_group, a.places);
      num_tiles = a.task_tiles;
      const int places = end_place - first_place;
      if (places < a.places_per_group) num_tiles = a.last_task_tiles;
      first_k = static_cast<int>(task.block) * a.filters_per_gemm_task;
    }
  };

  /// How all tasks of a block walk through channels and taps.
  struct Course {
    int chunks, taps;     // of a tile, of a chunk
    bool has_lead;        // with a tile alone there is nothing to hide
    bool keeps_filters;   // all of a task's, from the first tile to the last
    bool keeps_them_all;  // and all tasks have the same
    __device__ Course(const TaskArgs& a, const Shared& shared, bool repeats) {
      chunks = num_chunks(a, shared.end_k_block - shared.first_k_block);
      taps = a.rows_at_once * a.cols_at_once;
      has_lead = taps > kLead && (repeats || a.places_per_group > a.tile_places);
      keeps_filters = chunks * taps <= shared.filter_stages;
      keeps_them_all = keeps_filters && a.k <= a.gemm_filters;
    }
  };

  /// By a warp of storers: all tasks, each by store(task). Both warps store a task's outputs, and
  /// signal together.
  template <class Source, class Store>
  static __device__ void store_tasks(const Source& source, const Shared& shared, Store store) {
    TaskReader<Source> tasks(shared.barriers.tasks, source);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (Task task; tasks.next(task); tasks.advance()) {
      __syncwarp();
      if (!Source::kSignals && lane == 0) tasks.leave();
      store(task);
      if constexpr (Source::kSignals) {
        // Until then its signals stay in shared memory: registers are few.
        tasks.signal(threadIdx.x - (kHelpers - kStorers), kStorers, [] { sync_storers(); });
        __syncwarp();
        if (lane == 0) tasks.leave();
      }
    }
  }
  /// Of the threads of both warps. (Barrier 0 is the block's.)
  static __device__ void sync_storers() {
    asm volatile("barrier.cta.sync 1, %0;" ::"n"(kStorers) : "memory");
  }

  /// The blocks of a cluster have tasks of the same padded pixels, and convert these piece by piece
  /// in turns, each for all.
  struct Turns {
    // The padded pixel of a stage where this block's next piece begins; from one piece to its next.
    int first, step;
    __device__ explicit Turns(const BlockCluster& cluster)
        : first(cluster.rank() * kPiecePlaces), step(cluster.size() * kPiecePlaces) {}
    /// Of a stage.
    __device__ int own_places(int places) const {
      if (first >= places) return 0;
      const int before_last = (places - first - 1) / step;
      return before_last * kPiecePlaces + min(places - first - before_last * step, kPiecePlaces);
    }
    /// Called with the first padded pixel of the next piece that lies behind the stage's.
    __device__ void go_on(int place, int places) {
      first = place - (places + kPiecePlaces - 1) / kPiecePlaces * kPiecePlaces;
    }
  };
};

}  // namespace megaconv::cuda
