// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM (implicit_gemm.cuh) in NHWC on operands that the copy engine brings. They lie in
// global memory as matrix instructions multiply them, 16-bit tensors themselves or copies of float
// tensors (operand_rows.cuh), or are floats that it rounds to TF32 on their way, so that no thread
// touches an element; or x is floats, which it brings piece by piece for threads to convert from
// one place of shared memory to another.
//
// It walks through the pixels of x in the order of places, gaps included, for which it writes zeros
// (tensor maps of kind im2col, or boxes of images abreast; runtime/cuda/tensor_map.hpp). A slab of
// channels (mapping/stripes.hpp) is a row, whose octets the copy engine permutes and the matrix
// instruction puts back in order, so that neither meets bank conflicts. Outputs leave by it, too.
//
//   copiers     two threads, one for x, which also takes the tasks, and one for w
//   converters  a warpgroup, if x is to be converted; blocks of a cluster convert it for each other
//   consumers   two warpgroups, each: products of 64 filters and half the places of a tile
//   storers     a warp for each of these: outputs to y, while the next tile is multiplied
//
// What is read most often is w, by every tile; so a tile has few filters and many places. Their
// number divides a task evenly; consumers are compiled for every such width. Tasks follow each
// other without a pause (task_stream.cuh). Of few tasks the channels are shared out (blockIdx.y) to
// the blocks of a cluster, whose sums come to the first one; a block alone takes the shares in turn
// and adds their sums up in the same order.
#pragma once

#include <cuda/ptx>
#include <iterator>

#include "mapping/stripes.hpp"
#include "tasks/cuda/block_cluster.cuh"
#include "tasks/cuda/implicit_gemm_walk.cuh"
#include "tasks/cuda/matrix_numbers.cuh"
#include "tasks/cuda/operand_rows.cuh"
#include "tasks/cuda/stage_ring.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/task_stream.cuh"
#include "tasks/cuda/tensor_copy.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/cuda/wgmma.cuh"

namespace megaconv::cuda {

/// kSharesChannels: of each task (channel_shares(), mapping/tiling.hpp).
template <class Numbers, Operands kOperands, bool kSharesChannels = false>
struct ImplicitGemmInPlaceTask {
  using Number = typename Numbers::Number;
  using Stored = typename Numbers::Stored;
  static_assert(!Numbers::kSplit && sizeof(Number) == operand_bytes(kOperands));
  static constexpr bool kFloats = std::is_same_v<Stored, float>;
  static_assert(kFloats == (kOperands != Operands::in_tensor));
  static constexpr bool kConverts = kOperands == Operands::converted;
  static constexpr bool kClusters = kConverts || kSharesChannels;
  static constexpr bool kAbreast = !kClusters;  // images may be
  static constexpr int kFilters = 64;
  // Two warps copy, two store.
  static constexpr int kHelpers = 128, kConverters = kConverts ? 128 : 0, kConsumers = 256;
  static constexpr int kThreads = kHelpers + kConverters + kConsumers;
  // Who reads of a task: the copier of filters, the storers, converters and consumers, by warps.
  static constexpr int kReaders = 1 + 2 + (kConverters + kConsumers) / 32;
  static constexpr int kNotedOfBlock = kConverters / 32;  // magnitudes of a task
  // What registers a block is launched with, shared out by what the warps do. (Whoever asks for
  // more than others have given up waits for ever.)
  static constexpr int kLaunchRegisters = kConverts ? 128 : 168, kHelperRegisters = 72,
                       kConverterRegisters = 104, kConsumerRegisters = kConverts ? 168 : 216;
  static_assert(kHelpers * kHelperRegisters + kConverters * kConverterRegisters +
                    kConsumers * kConsumerRegisters <=
                kThreads * kLaunchRegisters);
  // Places of a consumer warpgroup: its share of a tile.
  static constexpr int kMostWidth =
      (kSharesChannels ? kMostSharedPlaces : most_places_in_place(kOperands)) / 2;

  // Outputs of a place lie in rows of eight vectors, permuted against bank conflicts: a row for
  // every kRowFilters, the rows of a tile's places one after the other.
  static constexpr int kVectors = 8, kVectorFilters = 16 / static_cast<int>(sizeof(Stored));
  static constexpr int kRowFilters = kVectors * kVectorFilters, kRows = kFilters / kRowFilters;
  using OutputRow = uint4[kVectors];
  static __device__ int permuted(int place, int vector) { return vector ^ place % kVectors; }

  // Taps by which the first consumers keep ahead of the second, so that one warpgroup multiplies
  // while the other hands over its outputs. Meanwhile the second ones hold kPending taps, so there
  // must be as many stages of filters as both together.
  static constexpr int kLead = 3, kPending = 3;

  static constexpr int kMostInputStages = most_input_stages(kOperands);
  struct Barriers {
    TaskStream tasks;
    StageRing<kPieces> pieces;
    StageRing<kMostInputStages> input;
    StageRing<kMostFilterStages> filter;
    StageRing<kMostInputStages> lead;  // the first consumers are kLead taps into a stage of input
    StageRing<1> output[2];
    std::uint64_t partial_sums;  // of the first block of a cluster: those of the others are there
    int input_stages, filter_stages;
  };
  /// Blocks that convert x for each other, or share channels.
  static __device__ BlockCluster own_cluster() {
    if constexpr (kConverts) return BlockCluster::current();
    if constexpr (kSharesChannels) {
      return {static_cast<int>(gridDim.y), static_cast<int>(blockIdx.y)};
    }
    return {1, 0};
  }
  static_assert(sizeof(Barriers) + kSwizzleSpan <= kBarrierBytesInPlace);
  struct Shared {
    Barriers& barriers;
    OutputRow* outputs;   // [kRows][tile_places], of these halves for each consumer warpgroup
    std::byte* pieces;    // [num_pieces], if x is to be converted
    float* partial_sums;  // [blocks that share channels, but one][kWidth / 2][kConsumers]
    std::byte* x;         // [input_stages][input_bytes]
    std::byte* u;         // [filter_stages][tap_bytes]
    const int row_bytes, tap_bytes, input_bytes;
    const int num_pieces, input_stages, filter_stages;
    const BlockCluster cluster;
    const int first_slab, end_slab;  // of the block's share of the channels, or of all
    /// Of a block's dynamic shared memory, which begins anywhere.
    __device__ Shared(const TaskArgs& a, std::byte* begin)
        : barriers(*reinterpret_cast<Barriers*>(begin)),
          row_bytes(a.slab_channels * static_cast<int>(sizeof(Number))),
          tap_bytes(a.memory.tap_bytes),
          input_bytes(a.memory.input_bytes),
          num_pieces(a.memory.num_pieces),
          // Where they are in no uniform registers, ptxas would load arguments again for every tap.
          input_stages(Numbers::kScaled ? barriers.input_stages : a.memory.input_stages),
          filter_stages(Numbers::kScaled ? barriers.filter_stages : a.memory.filter_stages),
          cluster(own_cluster()),
          first_slab(kSharesChannels ? cluster.rank() * a.block_slabs : 0),
          end_slab(min(first_slab + a.block_slabs, a.slabs)) {
      constexpr int kWithinSpan = kSwizzleSpan - 1;
      const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(begin));
      begin += ((address + sizeof(Barriers) + kWithinSpan) & ~kWithinSpan) - address;
      outputs = reinterpret_cast<OutputRow*>(begin);
      pieces = begin + a.memory.pieces;
      partial_sums = reinterpret_cast<float*>(begin + a.memory.partial_sums);
      x = begin + a.memory.input;
      u = begin + a.memory.filters;
    }
  };

  /// Each: the taps of one row of a filter or of all, in a slab of channels.
  static __device__ int num_chunks(const TaskArgs& a, int slabs) {
    return a.rows_at_once == a.r ? slabs : slabs * a.r;
  }

  /// A task's places, in a stripe, and filters.
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
      if (places < a.places_per_group) num_tiles = (places + a.tile_places - 1) / a.tile_places;
      first_k = static_cast<int>(task.block) * a.filters_per_gemm_task;
    }
  };

  /// How all tasks of a block walk through channels and taps.
  struct Course {
    int chunks, taps;     // of a tile, of a chunk
    int share_chunks;     // of a share of channels, whose sums are added up
    bool has_lead;        // with a tile alone there is nothing to hide
    bool keeps_filters;   // all of a task's, from the first tile to the last
    bool keeps_them_all;  // and all tasks have the same
    __device__ Course(const TaskArgs& a, const Shared& shared, bool repeats) {
      chunks = num_chunks(a, shared.end_slab - shared.first_slab);
      share_chunks = kSharesChannels ? num_chunks(a, a.share_slabs) : chunks;
      taps = a.rows_at_once * a.s;
      has_lead = taps > kLead && (repeats || a.places_per_group > a.tile_places);
      keeps_filters = chunks * taps <= shared.filter_stages;
      keeps_them_all = keeps_filters && a.k <= kFilters;
    }
  };

  /// Called by all threads of a block before run(), which is given what it returns.
  static __device__ Shared open(const TaskArgs& a, std::byte* memory) {
    Barriers& barriers = *reinterpret_cast<Barriers*>(memory);
    if (threadIdx.x == 32) {
      prefetch_map(a.x_tensors[0]);
      prefetch_map(a.w_tensor);
      if (a.output_cols != 0) prefetch_map(a.y_tensor);
    }
    if (threadIdx.x == 0) {
      make_barriers(barriers);
      if constexpr (Numbers::kScaled) {
        barriers.input_stages = a.memory.input_stages;
        barriers.filter_stages = a.memory.filter_stages;
      }
      ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
      ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
    }
    kClusters ? own_cluster().sync() : __syncthreads();
    return Shared(a, memory);
  }
  /// Called by all threads of a block behind run(): the others of its cluster may still arrive at
  /// its barriers.
  static __device__ void close() {
    if constexpr (kConverts) own_cluster().sync();
  }
  /// Called by all threads of a block behind run(), to run() once more.
  static __device__ Shared reopen(const TaskArgs& a, std::byte* memory) {
    Barriers& barriers = *reinterpret_cast<Barriers*>(memory);
    __syncthreads();
    threadIdx.x < kHelpers ? increase_registers<kLaunchRegisters>()
                           : decrease_registers<kLaunchRegisters>();
    if (threadIdx.x == 0) {
      barriers.tasks.close();
      if constexpr (kConverts) barriers.pieces.close();
      barriers.input.close();
      barriers.filter.close();
      barriers.lead.close();
      for (auto& output : barriers.output) output.close();
    }
    __syncthreads();
    return open(a, memory);
  }

  static constexpr int kLookers = 64;
  /// The tasks of a source (task_stream.cuh), by all threads of a block, which call wait() before
  /// they touch what tasks of kernels before have written. Two warps, which have no work yet, call
  /// look(0) to look(kLookers - 1) behind that. `x_scale`: what x is multiplied by.
  template <class Source, class Wait, class Look>
  static __device__ __forceinline__ void run(const TaskArgs& a, float x_scale, Source& source,
                                             const Shared& shared, Wait wait, Look look) {
    const Course course(a, shared, source.repeats());
    if (threadIdx.x < kHelpers) {
      decrease_registers<kHelperRegisters>();
      if (threadIdx.x == 0) {
        copy_input(a, source, shared, [&] {
          if constexpr (!kConverts) wait();
        });
      } else if (threadIdx.x == 32) {
        wait();
        copy_filters(a, course, source, shared);
      } else if (threadIdx.x >= 64) {
        wait();
        look(threadIdx.x - (kHelpers - kLookers));
        if (kSharesChannels && shared.cluster.rank() != 0) return;
        store_outputs(a, static_cast<int>(threadIdx.x) / 32 - 2, source, shared);
      }
      return;
    }
    if constexpr (kConverts) {
      if (threadIdx.x < kHelpers + kConverters) {
        decrease_registers<kConverterRegisters>();
        convert_input(a, x_scale, source, shared);
        return;
      }
    }
    increase_registers<kConsumerRegisters>();
    wait();
    consume_width<kMostWidth>(a, course, x_scale, source, shared);
  }

 private:
  // By one thread, without loops: of all stages, used or not. (Several threads take longer, and so
  // does who asks how many are used.)
  static __device__ void make_barriers(Barriers& barriers) {
    constexpr std::uint32_t kWarps = kConsumers / 32;
    const auto blocks = static_cast<std::uint32_t>(own_cluster().size());
    barriers.tasks.init(kReaders);
    if constexpr (kConverts) barriers.pieces.init(1, kConverters / 32);
    barriers.input.init(kConverts ? kConverters / 32 : 1, kConverts ? blocks * kWarps : kWarps);
    barriers.filter.init(1, kWarps);
    barriers.lead.init(128 / 32, 1);
    for (auto& output : barriers.output) output.init(128 / 32, 1);
    if (kSharesChannels && blocks > 1) {
      ::cuda::ptx::mbarrier_init(&barriers.partial_sums, (blocks - 1) * kWarps);
    }
  }

  // Where the copier of x is: at a piece or at a stage.
  using InputCursor = std::conditional_t<kConverts, typename StageRing<kPieces>::Cursor,
                                         typename StageRing<kMostInputStages>::Cursor>;

  // The blocks of a cluster have tasks of the same places, and convert these piece by piece in
  // turns, each for all.
  struct Turns {
    int first, step;  // places of a stage from which this block's next piece is, and between two
    __device__ explicit Turns(const BlockCluster& cluster)
        : first(cluster.rank() * kPiecePlaces), step(cluster.size() * kPiecePlaces) {}
    /// Of a stage.
    __device__ int own_places(int places) const {
      if (first >= places) return 0;
      const int before_last = (places - first - 1) / step;
      return before_last * kPiecePlaces + min(places - first - before_last * step, kPiecePlaces);
    }
    /// Called with the first place of the next piece that lies behind the stage's.
    __device__ void go_on(int place, int places) {
      first = place - (places + kPiecePlaces - 1) / kPiecePlaces * kPiecePlaces;
    }
  };

  // Takes the tasks, and copies their x.
  template <class Source, class Wait>
  static __device__ void copy_input(const TaskArgs& a, Source& source, const Shared& shared,
                                    Wait wait) {
    InputCursor stage;
    Turns turns(shared.cluster);
    if (source.has_only()) {
      copy_input(a, Walk(a, source.only()), stage, turns, shared, wait);
      return;
    }
    wait();
    TaskStream& tasks = shared.barriers.tasks;
    TaskStream::Cursor at;
    for (TakenTask* task; task = tasks.room(at), source.next(*task);) {
      const Walk walk(a, task->task);
      tasks.hand_on(at);
      if constexpr (Source::kWaits) ::cuda::ptx::fence_proxy_async();
      copy_input(a, walk, stage, turns, shared, [] {});
    }
    tasks.end(at);
  }
  template <class Wait>
  static __device__ void copy_input(const TaskArgs& a, const Walk& walk, InputCursor& at,
                                    Turns& turns, const Shared& shared, Wait wait) {
    const Stripes& s = a.stripes;
    const Stripes::Position next_tile = s.position(a.tile_places);
    const Stripes::Position next_piece = s.position(kPiecePlaces);
    const Stripes::Position next_row{0, a.dilation_h, 0};
    const auto num_bytes = static_cast<std::uint32_t>(a.input_places * shared.row_bytes);
    Stripes::Position tile_start = s.position(walk.first_place);
    wait();
    for (int tile = 0; tile < walk.num_tiles; ++tile, tile_start = s.sum(tile_start, next_tile)) {
      const int first_row =
          kAbreast && s.images > 1 ? (walk.first_place + tile * a.tile_places) / s.row() : 0;
      for (int slab = shared.first_slab; slab < shared.end_slab; ++slab) {
        const int c = slab * a.slab_channels;
        Stripes::Position start = tile_start;
        for (int row = 0; row < a.r; row += a.rows_at_once, start = s.sum(start, next_row)) {
          if constexpr (kConverts) {
            copy_pieces(a, walk.stripe, c, start, next_piece, at, turns, shared);
          } else {
            auto& ring = shared.barriers.input;
            ring.wait_empty(at);
            std::byte* const x = shared.x + at.stage * shared.input_bytes;
            std::uint64_t* const barrier = ring.expect(at, num_bytes);
            if (kAbreast && s.images > 1) {
              copy_box(x, a.x_tensors[0],
                       {c, -a.pad_w, walk.stripe * s.images, first_row - a.pad_h}, barrier);
            } else {
              copy_pixels(x, a.x_tensors[0], c, start.col - a.pad_w, start.row - a.pad_h,
                          start.image, barrier);
            }
            at.advance(shared.input_stages);
          }
        }
      }
    }
  }
  // A stage of input as floats, from the place at `start` on.
  static __device__ void copy_pieces(const TaskArgs& a, int stripe, int c, Stripes::Position start,
                                     const Stripes::Position& next, StageRing<kPieces>::Cursor& at,
                                     Turns& turns, const Shared& shared) {
    auto& ring = shared.barriers.pieces;
    const int padding = stripe == 0 ? a.pad_w : 0;  // in front of the stripe's columns of x
    const int places = a.input_places;
    int own_place = turns.first;
    for (int place = 0; place < places; place += kPiecePlaces, start = a.stripes.sum(start, next)) {
      if (place != own_place) continue;
      own_place += turns.step;
      for (int part = 0; part < a.slab_channels; part += kPieceChannels) {
        ring.wait_empty(at);
        copy_pixels(shared.pieces + at.stage * kPieceBytes, a.x_tensors[stripe], c + part,
                    start.col - padding, start.row - a.pad_h, start.image,
                    ring.expect(at, kPieceBytes));
        at.advance(shared.num_pieces);
      }
    }
    turns.go_on(own_place, places);
  }

  // Converters: pieces of floats to stages of input, all warps a share of each. What they made goes
  // to the other blocks of a cluster by the copy engine.
  template <class Source>
  static __device__ void convert_input(const TaskArgs& a, float scale, const Source& source,
                                       const Shared& shared) {
    TaskReader<Source> tasks(shared.barriers.tasks, source);
    auto& pieces = shared.barriers.pieces;
    auto& ring = shared.barriers.input;
    const int warp = (static_cast<int>(threadIdx.x) - kHelpers) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool speaker = lane == 0;
    const BlockCluster& cluster = shared.cluster;
    Turns turns(cluster);
    Conversion conversion(a, warp, scale);
    const int places = a.input_places;
    const int stages_of_tile = num_chunks(a, a.slabs);
    StageRing<kPieces>::Cursor piece;
    typename StageRing<kMostInputStages>::Cursor at;
    for (Task task; tasks.next(task); tasks.advance()) {
      const Walk walk(a, task);
      __syncwarp();
      if (speaker) tasks.leave();
      conversion.begin();
      for (int stage = walk.num_tiles * stages_of_tile; stage > 0; --stage) {
        ring.wait_empty(at);
        std::byte* const x = shared.x + at.stage * shared.input_bytes;
        int place = turns.first;
        for (; place < places; place += turns.step) {
          for (int part = 0; part < a.slab_channels; part += kPieceChannels) {
            pieces.wait_full(piece);
            conversion.convert(shared.pieces + piece.stage * kPieceBytes, x, place, part);
            __syncwarp();
            // Behind the stores: before these, loads of other threads may still be on their way.
            if (speaker) pieces.arrive_empty(piece.stage);
            piece.advance(shared.num_pieces);
          }
        }
        ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
        __syncwarp();
        if (cluster.size() > 1) {
          // A lane for each piece.
          const int first = turns.first + lane * turns.step + conversion.first_place();
          const int rows = min(places - first, Conversion::kWarpPlaces);
          for (int peer = 0; peer < cluster.size() && rows > 0; ++peer) {
            if (peer == cluster.rank()) continue;
            cluster.copy(peer, x + first * shared.row_bytes,
                         static_cast<std::uint32_t>(rows * shared.row_bytes), &ring.full[at.stage]);
          }
        }
        if (speaker && warp == 0) {
          const int rows_of_others = places - turns.own_places(places);
          ring.expect(at, static_cast<std::uint32_t>(rows_of_others * shared.row_bytes));
        } else if (speaker) {
          ring.arrive_full(at.stage);
        }
        turns.go_on(place, places);
        at.advance(shared.input_stages);
      }
      const MagnitudeBits bits = __reduce_max_sync(0xffffffffu, conversion.largest());
      const auto noted = static_cast<unsigned>(cluster.rank() * kNotedOfBlock + warp);
      if (speaker) {
        const auto of_group = static_cast<unsigned>(cluster.size() * kNotedOfBlock);
        a.x_magnitudes[task.group * of_group + noted] = bits;
      }
    }
  }

  // How a thread converts its share of pieces: in turns, one octet of channels of one of eight
  // places. Floats lie in rows of 128 bytes, operands of 64 or 128, all with their vectors
  // permuted, so that eight neighbouring threads meet all banks once.
  class Conversion {
    static constexpr int kPlaces = 8, kTurns = kPiecePlaces / kPlaces / 4;

   public:
    static constexpr int kWarpPlaces = kTurns * kPlaces;
    __device__ Conversion(const TaskArgs& a, int warp, float scale)
        : scale_(scale),
          places_(a.input_places),
          row_vectors_(a.slab_channels / 8),
          octet_(static_cast<int>(threadIdx.x) % kOctets),
          first_(warp * kWarpPlaces),
          place_(static_cast<int>(threadIdx.x) % 32 / kOctets) {}
    /// Of this warp's share of a piece, kWarpPlaces.
    __device__ int first_place() const { return first_; }
    /// Forgets magnitudes.
    __device__ void begin() { greatest_ = __half(0.0f), exact_ = {}; }
    /// A piece, to a stage's places from `first_place` on, channels from `first_channel` on. Of the
    /// last eight places some may lie behind the stage's, but not behind its memory.
    __device__ __forceinline__ void convert(const std::byte* piece, std::byte* stage,
                                            int first_place, int first_channel) {
      const int first = first_place + first_, octet = first_channel / 8 + octet_;
      const auto* const row = reinterpret_cast<const float4*>(piece) + (first_ + place_) * kVectors;
      const int low_vector = (2 * octet_) ^ place_;
      float values[kTurns][8];
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        const float4 low = row[i * kPlaces * kVectors + low_vector];
        const float4 high = row[i * kPlaces * kVectors + (low_vector ^ 1)];
        values[i][0] = low.x, values[i][1] = low.y, values[i][2] = low.z, values[i][3] = low.w;
        values[i][4] = high.x, values[i][5] = high.y, values[i][6] = high.z, values[i][7] = high.w;
      }
      const int permuted = octet ^ (row_vectors_ == kVectors ? place_ : place_ / 2 % kOctets);
      auto* const to = reinterpret_cast<uint4*>(stage) + (first + place_) * row_vectors_ + permuted;
      alignas(16) __half2 numbers[kTurns][4];
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          numbers[i][n] =
              __floats2half2_rn(values[i][2 * n] * scale_, values[i][2 * n + 1] * scale_);
        }
        if (first + i * kPlaces < places_) {
          to[i * kPlaces * row_vectors_] = *reinterpret_cast<const uint4*>(numbers[i]);
        }
      }
      note(values, numbers);
    }
    /// Of all magnitudes that are finite.
    __device__ MagnitudeBits largest() const {
      return max(exact_.bits(), __float_as_uint(__half2float(greatest_) / scale_));
    }

   private:
    static constexpr int kVectors = 8, kOctets = kPieceChannels / 8;
    static_assert(!kConverts || kWarpPlaces * kConverters / 32 == kPiecePlaces);

    // The scaled numbers tell the largest magnitude where it is neither large nor small; only there
    // are the values themselves looked at.
    __device__ __forceinline__ void note(const float (&values)[kTurns][8],
                                         const __half2 (&numbers)[kTurns][4]) {
      constexpr float kSmall = 0x1p-2f, kLarge = 0x1p14f;
      __half2 most = __habs2(numbers[0][0]);
#pragma unroll
      for (int i = 1; i < 4 * kTurns; ++i) most = __hmax2(most, __habs2(numbers[i / 4][i % 4]));
      const __half greater = __hmax(__low2half(most), __high2half(most));
      if (greater >= __half(kSmall) && greater < __half(kLarge)) {
        greatest_ = __hmax(greatest_, greater);
      } else {
#pragma unroll
        for (int i = 0; i < 8 * kTurns; ++i) exact_.add(values[i / 8][i % 8]);
      }
    }

    const float scale_;
    const int places_, row_vectors_, octet_, first_, place_;
    __half greatest_;
    LargestFinite exact_;
  };

  template <class Source>
  static __device__ void copy_filters(const TaskArgs& a, const Course& course, const Source& source,
                                      const Shared& shared) {
    TaskReader<Source> tasks(shared.barriers.tasks, source);
    auto& ring = shared.barriers.filter;
    typename StageRing<kMostFilterStages>::Cursor at;
    bool has_all = false;
    for (Task task; tasks.next(task); tasks.advance()) {
      const Walk walk(a, task);
      tasks.leave();
      if constexpr (Source::kWaits) ::cuda::ptx::fence_proxy_async();
      const int times = has_all ? 0 : course.keeps_filters ? 1 : walk.num_tiles;
      has_all = course.keeps_them_all;
      for (int i = 0; i < times; ++i) {
        for (int slab = shared.first_slab; slab < shared.end_slab; ++slab) {
          const int c = slab * a.slab_channels;
          for (int tap = 0; tap < a.r * a.s; ++tap) {
            ring.wait_empty(at);
            copy_box(shared.u + at.stage * shared.tap_bytes, a.w_tensor, {c, walk.first_k, tap},
                     ring.expect(at, static_cast<std::uint32_t>(shared.tap_bytes)));
            at.advance(shared.filter_stages);
          }
        }
      }
    }
  }

  // With the width that the plan has. (Matrix instructions must not run across calls.)
  template <int kWidth, class Source>
  static __device__ __forceinline__ void consume_width(const TaskArgs& a, const Course& course,
                                                       float x_scale, const Source& source,
                                                       const Shared& shared) {
    constexpr int kNarrower = kWidth - tile_step_in_place(2 * kWidth) / 2;
    if (a.tile_places == 2 * kWidth) {
      consume<kWidth>(a, course, x_scale, source, shared);
    } else if constexpr (kNarrower > 0) {
      consume_width<kNarrower>(a, course, x_scale, source, shared);
    }
  }

  // One warpgroup's share of all tiles, kWidth places each.
  template <int kWidth, class Source>
  static __device__ __forceinline__ void consume(const TaskArgs& a, const Course& course,
                                                 float x_scale, const Source& source,
                                                 const Shared& shared) {
    const int warpgroup = warpgroup_index() - (kHelpers + kConverters) / 128;
    const bool speaker = threadIdx.x % 32 == 0;
    TaskReader<Source> tasks(shared.barriers.tasks, source);
    auto& ring = shared.barriers.output[warpgroup];
    typename StageRing<kMostInputStages>::Cursor input;
    typename StageRing<kMostFilterStages>::Cursor filter;
    StageRing<1>::Cursor output;
    Finish finish(a);
    ClusterBarriers input_everywhere;
    if constexpr (kConverts) input_everywhere = {shared.cluster, shared.barriers.input.empty};
    float sums[kWidth / 2] = {};
    std::uint64_t free_ns = source.now();
    for (Task task; tasks.next(task); tasks.advance(), free_ns = source.now()) {
      const Walk walk(a, task);
      finish.begin(a, x_scale, walk.first_k);
      const auto first_filter = filter;  // of the task
      for (int tile = 0; tile < walk.num_tiles; ++tile) {
        if (course.keeps_them_all) {
          filter = {};
        } else if (course.keeps_filters) {
          filter = first_filter;
        }
        const bool is_last = tile + 1 == walk.num_tiles;
        const bool keeps = course.keeps_them_all || (course.keeps_filters && !is_last);
        const auto multiply_share = [&](int chunks) {
          multiply<kWidth>(a, course, chunks, warpgroup * kWidth, keeps, input, filter, sums,
                           input_everywhere, shared);
        };
        if constexpr (kSharesChannels) {
          if (!multiply_shares<kWidth>(course, shared, sums, multiply_share)) continue;
        } else {
          multiply_share(course.chunks);
        }
        ring.wait_empty(output);
        put_outputs<kWidth>(finish, sums, shared.outputs + warpgroup * kWidth);
        ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
        __syncwarp();
        if (speaker) ring.arrive_full(output.stage);
        output.advance();
      }
      if (threadIdx.x == kThreads - 128) tasks.finish(free_ns);
      __syncwarp();
      if (speaker) tasks.leave();
    }
  }

  // Adds the products of a tile, share of channels by share. False in blocks of a cluster whose
  // sums have gone to the first one.
  template <int kWidth, class MultiplyShare>
  static __device__ __forceinline__ bool multiply_shares(const Course& course, const Shared& shared,
                                                         float (&sums)[kWidth / 2],
                                                         MultiplyShare multiply_share) {
    const BlockCluster& cluster = shared.cluster;
    const int thread = static_cast<int>(threadIdx.x) - (kHelpers + kConverters);
    float before[kWidth / 2] = {};
    for (int left = course.chunks;;) {
      const int chunks = min(left, course.share_chunks);
      multiply_share(chunks);
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) sums[i] += before[i];
      left -= chunks;
      if (left == 0) break;
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) before[i] = sums[i], sums[i] = 0.0f;
    }
    if (cluster.rank() != 0) {
      float* const own = shared.partial_sums + (cluster.rank() - 1) * kWidth / 2 * kConsumers;
      float* const to = cluster.at(0, own) + thread;
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) to[i * kConsumers] = sums[i];
      __syncwarp();
      if (thread % 32 == 0) cluster.arrive(0, &shared.barriers.partial_sums);
      return false;
    }
    if (cluster.size() > 1) cluster.wait(&shared.barriers.partial_sums);
    for (int other = 0; other < cluster.size() - 1; ++other) {
      const float* const from = shared.partial_sums + other * kWidth / 2 * kConsumers + thread;
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) sums[i] += from[i * kConsumers];
    }
    return true;
  }

  // Adds the products of some chunks of a tile.
  template <int kWidth>
  static __device__ __forceinline__ void multiply(
      const TaskArgs& a, const Course& course, int chunks, int first_place, bool keeps_filters,
      typename StageRing<kMostInputStages>::Cursor& input,
      typename StageRing<kMostFilterStages>::Cursor& filter, float (&sums)[kWidth / 2],
      const ClusterBarriers& input_everywhere, const Shared& shared) {
    Barriers& barriers = shared.barriers;
    // Taps that are being multiplied, at most kPending; those before are given back.
    int pending = 0, oldest_filter = filter.stage, oldest_input = input.stage, oldest_tap = 0;
    const auto release = [&] {
      const bool speaker = threadIdx.x % 32 == 0;
      if (speaker && !keeps_filters) barriers.filter.arrive_empty(oldest_filter);
      if (++oldest_filter == shared.filter_stages) oldest_filter = 0;
      if (++oldest_tap == course.taps) {
        if constexpr (kConverts) {
          input_everywhere.arrive(oldest_input);
        } else if (speaker) {
          barriers.input.arrive_empty(oldest_input);
        }
        if (++oldest_input == shared.input_stages) oldest_input = 0;
        oldest_tap = 0;
      }
    };
    constexpr int kRowBytes = slab_bytes_in_place(2 * kWidth, kOperands);
    TapOffsets offsets(a, kRowBytes);
    const bool leads = course.has_lead && first_place == 0;
    const bool follows = course.has_lead && first_place != 0;
    // Whether all stages of input could be held by taps that are pending.
    const bool drains = course.taps * (shared.input_stages - 1) < kPending;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      if (drains) {
        wgmma_wait<1>();
#pragma unroll 1
        for (; pending > 1; --pending) release();
      }
      if (follows) barriers.lead.wait_full(input);
      barriers.input.wait_full(input);
      const int stage = input.stage;
      const std::uint64_t places = wgmma_swizzled_operand<kRowBytes>(
          shared.x + stage * shared.input_bytes + first_place * kRowBytes);
      input.advance(shared.input_stages);
      offsets.restart();
      for (int tap = 0; tap < course.taps; ++tap) {
        barriers.filter.wait_full(filter);
        const std::uint64_t u =
            wgmma_swizzled_operand<kRowBytes>(shared.u + filter.stage * kFilters * kRowBytes);
        const std::uint64_t x = advance(places, offsets.next());
        filter.advance(shared.filter_stages);
        wgmma_fence();
#pragma unroll
        for (int channels = 0; channels < kRowBytes; channels += kWgmmaRowBytes) {
          wgmma<kWidth, Number>(sums, advance(u, channels), advance(x, channels));
        }
        wgmma_commit();
        if (leads && tap == kLead - 1 && threadIdx.x % 32 == 0) barriers.lead.arrive_full(stage);
        wgmma_wait<kPending>();
        if (++pending > kPending) --pending, release();
      }
    }
    wgmma_wait<0>();
#pragma unroll 1
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
    __device__ explicit Finish(const TaskArgs& a) : relu_(a.relu) {}
    /// Of a task's filters.
    __device__ void begin(const TaskArgs& a, float x_scale, int first_k) {
      if (first_k == first_k_) return;
      if constexpr (Numbers::kScaled) {
        const float of_input = 1.0f / x_scale, of_filter = 1.0f / footer_of_filters(a).scale;
        first_ = fminf(of_input, of_filter), second_ = fmaxf(of_input, of_filter);
      }
      const auto* const bias = reinterpret_cast<const Stored*>(a.bias);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int k = own_filter(first_k) + half * 8;
        bias_[half] = bias != nullptr && k < a.k ? static_cast<float>(bias[k]) : 0.0f;
      }
      first_k_ = first_k;
    }
    /// Of the thread's first or second filter.
    __device__ float operator()(int half, float sum) const {
      if constexpr (Numbers::kScaled) sum = sum * first_ * second_;
      sum += bias_[half];
      return relu_ ? fmaxf(sum, 0.0f) : sum;
    }

   private:
    float first_ = 1, second_ = 1, bias_[2] = {};
    int first_k_ = -1;
    const bool relu_;
  };

  // Four matrices of 8 x 8 numbers of 16 bits, or two, of which thread 4 i + j has row i, columns
  // 2 j and the next: their columns become rows of 16 bytes. Row r of matrix m goes to where thread
  // 8 m + r points.
  static __device__ void store_transposed(void* row, const std::uint32_t (&matrices)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(row))),
                 "r"(matrices[0]), "r"(matrices[1]), "r"(matrices[2]), "r"(matrices[3])
                 : "memory");
  }
  static __device__ void store_transposed(void* row, const std::uint32_t (&matrices)[2]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(
                     static_cast<std::uint32_t>(__cvta_generic_to_shared(row))),
                 "r"(matrices[0]), "r"(matrices[1])
                 : "memory");
  }

  // Puts a warpgroup's outputs where storers find them; its sums are zero then. This thread has, of
  // filters f and f + 8, places 8 i + 2 q and the next.
  template <int kWidth>
  static __device__ __forceinline__ void put_outputs(const Finish& finish,
                                                     float (&sums)[kWidth / 2],
                                                     OutputRow* outputs) {
    if constexpr (kFloats) {
      put_floats<kWidth>(finish, sums, outputs);
    } else {
      put_numbers<kWidth>(finish, sums, outputs);
    }
  }
  // Of a filter four places at a time, 2 apart, with seven neighbouring filters: in all banks.
  template <int kWidth>
  static __device__ __forceinline__ void put_floats(const Finish& finish, float (&sums)[kWidth / 2],
                                                    OutputRow* outputs) {
    const int filter = own_filter(0), pair = static_cast<int>(threadIdx.x) % 4 * 2;
    const int vector = filter % kRowFilters / kVectorFilters;
    OutputRow* const row = outputs + filter / kRowFilters * 2 * kWidth + pair;
    float* to[2][2];  // [the second filter][the second place]
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[i / 2][i % 2] =
          reinterpret_cast<float*>(&row[i % 2][permuted(pair + i % 2, vector + i / 2 * 2)]) +
          filter % kVectorFilters;
    }
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) {
      constexpr int kEight = 8 * sizeof(OutputRow) / sizeof(float);
      to[i / 2 % 2][i % 2][i / 4 * kEight] = finish(i / 2 % 2, sums[i]);
      sums[i] = 0.0f;
    }
  }
  template <int kWidth>
  static __device__ __forceinline__ void put_numbers(const Finish& finish,
                                                     float (&sums)[kWidth / 2],
                                                     OutputRow* outputs) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32;
    // Row r of matrix m, which lane 8 m + r points to: eight filters of a place.
    const int row = lane / 16 * 8 + lane % 8, vector = warp * 2 + lane / 8 % 2;
    uint4* const to = &outputs[row][permuted(row, vector)];
    // Of filters f and f + 8, of eight places, or of these and the next.
    const auto put = [&](int place, auto& pairs) {
#pragma unroll
      for (int i = 0; i < static_cast<int>(std::size(pairs)); ++i) {
        float* const two = &sums[place / 2 + i * 2];
        const Vec<2, Number> both{{static_cast<Number>(finish(i % 2, two[0])),
                                   static_cast<Number>(finish(i % 2, two[1]))}};
        two[0] = two[1] = 0.0f;
        pairs[i] = *reinterpret_cast<const std::uint32_t*>(&both);
      }
      store_transposed(to + place * kVectors, pairs);
    };
#pragma unroll
    for (int place = 0; place + 16 <= kWidth; place += 16) {
      std::uint32_t pairs[4];
      put(place, pairs);
    }
    if constexpr (kWidth % 16 != 0) {
      std::uint32_t pairs[2];
      put(kWidth - 8, pairs);
    }
  }

  // Outputs of a share of a tile that lie in one row of y.
  struct Run {
    int first, cols;  // in the share; what there is of it in y
    int image, row, col;
    /// The share's `line`-th, if it begins at `start` in a stripe.
    __device__ Run(const TaskArgs& a, int stripe, const Stripes::Position& start, int line)
        : first(line == 0 ? 0 : line * a.stripes.pitch - start.col),
          image(start.image),
          row(start.row),
          col(line == 0 ? start.col : 0) {
      const Stripes& s = a.stripes;
      if (kAbreast && s.images > 1) {
        for (image += line; image >= s.images; image -= s.images) ++row;
        image += stripe * s.images;
      } else {
        for (row += line; row >= s.period; row -= s.period) ++image;
        col += stripe * s.cols;
      }
      const bool exists = row < a.p && image < a.n;
      cols = exists ? max(min(a.q, (stripe + 1) * s.cols) - col, 0) : 0;
    }
    /// Columns that boxes hold, of a share of so many places: whole ones, or all to the row's end;
    /// none, if the copy engine cannot store y.
    __device__ int in_boxes(const TaskArgs& a, int places) const {
      if (a.output_cols == 0) return 0;
      if (first + cols <= places && col + cols == a.q) return cols;
      return min(cols, places - first) / a.output_cols * a.output_cols;
    }
  };

  // A warp: outputs of a warpgroup's share of each tile, while the next one is multiplied. The copy
  // engine takes them in boxes of some columns of a row, which it cuts where the row ends; what is
  // left where a share, or a stripe, begins or ends amid a row is stored by threads, a vector each.
  template <class Source>
  static __device__ void store_outputs(const TaskArgs& a, int warpgroup, const Source& source,
                                       const Shared& shared) {
    TaskReader<Source> tasks(shared.barriers.tasks, source);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    StageRing<1>::Cursor at;
    for (Task task; tasks.next(task); tasks.advance()) {
      const Walk walk(a, task);
      __syncwarp();
      if (lane == 0) tasks.leave();
      store_outputs(a, walk, warpgroup, at, shared);
    }
  }
  static __device__ void store_outputs(const TaskArgs& a, const Walk& walk, int warpgroup,
                                       StageRing<1>::Cursor& at, const Shared& shared) {
    auto& ring = shared.barriers.output[warpgroup];
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int width = a.tile_places / 2;
    const OutputRow* const outputs = shared.outputs + warpgroup * width;
    for (int tile = 0; tile < walk.num_tiles; ++tile, at.advance()) {
      const int first = walk.first_place + tile * a.tile_places + warpgroup * width;
      const int places = min(width, walk.end_place - first);
      const Stripes::Position start = a.stripes.position(first);
      const int last = (start.col + places - 1) / a.stripes.pitch;
      ring.wait_full(at);
      for (int line = lane; line <= last && places > 0; line += 32) {
        const Run run(a, walk.stripe, start, line);
        const int cols = run.in_boxes(a, places);
        for (int i = 0; i < cols; i += a.output_cols) {
#pragma unroll
          for (int row = 0; row < kRows; ++row) {
            const std::int32_t to[] = {walk.first_k + row * kRowFilters, run.col + i, run.row,
                                       run.image};
            ::cuda::ptx::cp_async_bulk_tensor(::cuda::ptx::space_global, ::cuda::ptx::space_shared,
                                              &a.y_tensor, to,
                                              outputs + row * a.tile_places + run.first + i);
          }
        }
      }
      ::cuda::ptx::cp_async_bulk_commit_group();
      if (places > 0) {
        const bool all_but_last = a.output_cols != 0 && a.stripes.cols >= a.q;  // are in boxes
        for (int line = all_but_last ? last : 0; line <= last; ++line) {
          store_rest(a, walk, Run(a, walk.stripe, start, line), places, outputs);
        }
      }
      ::cuda::ptx::cp_async_bulk_wait_group_read(::cuda::ptx::n32_t<0>());
      __syncwarp();
      if (lane == 0) ring.arrive_empty(at.stage);
    }
  }
  static __device__ void store_rest(const TaskArgs& a, const Walk& walk, const Run& run, int places,
                                    const OutputRow* outputs) {
    const int lane = static_cast<int>(threadIdx.x) % 32, vector = lane % kVectors;
    const int end = min(run.cols, places - run.first);
    const int pixel = (run.image * a.p + run.row) * a.q + run.col;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int k = walk.first_k + row * kRowFilters + vector * kVectorFilters;
      if (k >= a.k) continue;
      auto* const y = reinterpret_cast<Stored*>(a.y) + static_cast<std::int64_t>(pixel) * a.k + k;
      for (int i = run.in_boxes(a, places) + lane / kVectors; i < end; i += 32 / kVectors) {
        const int from = run.first + i;
        const uint4* const four = &outputs[row * a.tile_places + from][permuted(from, vector)];
        Stored* const to = y + static_cast<std::int64_t>(i) * a.k;
        if (a.output_cols != 0) {
          *reinterpret_cast<uint4*>(to) = *four;
        } else {
#pragma unroll
          for (int j = 0; j < kVectorFilters; ++j) {
            if (k + j < a.k) to[j] = reinterpret_cast<const Stored*>(four)[j];
          }
        }
      }
    }
  }
};

}  // namespace megaconv::cuda
