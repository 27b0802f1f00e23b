// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM on Hopper's tensor cores: a direct task multiplies a block of filters by the input
// as it lies under their taps. Neither the input's matrix nor any transform of it is ever stored in
// global memory.
//
//   sums[filter][f] = over K blocks, over taps:  U[tap] x[f + offset(tap)]
//
// f is a padded pixel (tasks/implicit_gemm/stripes.hpp; `place` in names). Those of a tile are
// neighbours, and under every tap they are neighbours again, `offset` further on. One copy of a
// tile's input in shared memory, kMostReach padded pixels longer than the tile, so serves all taps:
// the matrix instruction reads it from another start. Under strides every tap has a copy of its
// own, and so has a filter's only tap; the room for kMostReach padded pixels then holds the copies
// of further taps or K blocks
// ("steps"). What the numbers of x and w become on the way is in matrix_numbers.cuh.
//
//   loaders    x of the next K blocks: load, convert, store to shared memory
//   copier     one warp, hands the filters of the next taps to TMA
//   consumers  two warpgroups, each: products of 64 filters and kGroupPlaces padded pixels;
//   epilogue
//
// Tiles are compiled in several widths, so that tasks of some tiles, all equally wide, share out
// the padded pixels evenly among the multiprocessors.
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
  // filters, or the other padded pixels.
  static constexpr int kGroupFilters = 64;
  static constexpr bool kFewFilters = kFilters == kGroupFilters;
  static constexpr int kTilePlaces = kNumPlaces,
                       kGroupPlaces = kFewFilters ? kTilePlaces / 2 : kTilePlaces;
  static constexpr int kPlaces = kTilePlaces + kMostReach;
  static constexpr int kMostSteps = kPlaces / kTilePlaces;  // in a pipeline stage of input
  // A loading thread takes kRun channels of a padded pixel at a time. The next kAhead runs are on
  // their way to shared memory meanwhile: the stage after the next, too, if a padded pixel has one
  // run in each. They come to registers if numbers are too small for asynchronous copies. The
  // narrowest tiles wait for filters, and leave the room to these.
  static constexpr int kRun = 16, kPlaceRuns = kDepth / kRun;
  static constexpr int kOwnPlaces = (kPlaces + kLoaders - 1) / kLoaders;
  static constexpr int kOwnRuns = kOwnPlaces * kPlaceRuns;
  static constexpr bool kToRegisters = kLayout == Layout::nchw && sizeof(Stored) < 4;
  static constexpr bool kStagesAhead = kPlaceRuns == 1;
  static constexpr int kSlots = kStagesAhead && kTilePlaces <= 64 ? 1 : 2,
                       kAhead = kStagesAhead ? kSlots * kOwnRuns : kSlots;
  static_assert(kStagesAhead ? !kToRegisters : kOwnRuns % kSlots == 0);
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
  static_assert(kMostSteps <= kStageTaps);
  using Taps = Number[kStageTaps][kKBlockOctets][kFilters][8];
  using Input = uint4[kKBlockOctets][kPlaces];  // 8 channels each
  using Outputs = float[kConsumers / 32][Output::kSize];
  using Piece = std::conditional_t<kLayout == Layout::nchw, Stored, uint4>;  // of a copy
  static constexpr int kRunPieces = kRun * sizeof(Stored) / sizeof(Piece);
  using LandedRuns = Piece[kRunPieces][kStagesAhead ? kPlaces : kLoaders];
  using Landing = LandedRuns[kToRegisters ? 1 : kSlots];
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
    float scale[kFilters], bias[kFilters];
    MagnitudeBits most[kLoaders / 32];
  };

  /// What a task is, and how it walks through channels and taps.
  struct Walk {
    int stripe, first_place, end_place, num_tiles;  // of kTilePlaces padded pixels
    int filter_block, first_k, end_k;
    int first_c, num_c;       // of the filters' conv groups
    bool has_steps;           // each tap of a K block has its own input
    bool in_rows;             // padded pixels are the pixels of x, in order, and runs are whole
    bool folds;               // the taps of a filter's row are channels
    int pixel_channels;       // of x
    int taps, parts, chunks;  // whose input is loaded at a time; these, of a tile
    int all_taps;             // of all chunks; the last one may have fewer than the others
    int parts_apart;          // whose sums run together, before they are moved to the totals
    bool keeps_filters;       // of all chunks and taps, from the first tile to the last
    __device__ Walk(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
      const int runs = (a.places + a.places_per_group - 1) / a.places_per_group;
      stripe = static_cast<int>(group) / runs;
      first_place = static_cast<int>(group) % runs * a.places_per_group;
      end_place = min(first_place + a.places_per_group, a.places);
      num_tiles = (end_place - first_place + kTilePlaces - 1) / kTilePlaces;
      filter_block = static_cast<int>(block);
      first_k = filter_block * a.filters_per_gemm_task;
      end_k = min(a.k, first_k + a.filters_per_gemm_task);
      first_c = first_k / a.filters_at_once * a.channels_at_once;
      num_c = a.channels_at_once;
      has_steps = a.stripes.reach == 0;
      in_rows = kLayout == Layout::nhwc && kStagesAhead && a.in_order && a.r * a.s == 1 &&
                a.stride_h * a.stride_w == 1 && a.groups == 1 && a.c % kRun == 0 &&
                reinterpret_cast<std::uintptr_t>(a.x) % sizeof(uint4) == 0;
      folds = kLayout == Layout::nhwc && a.cols_at_once > 1;
      pixel_channels = folds ? a.c / a.cols_at_once : a.c;
      taps = has_steps ? kMostSteps : a.r * a.s;
      parts = (taps + kStageTaps - 1) / kStageTaps;
      all_taps = a.c_padded / kDepth * a.r * a.s;
      chunks = (all_taps + taps - 1) / taps;
      parts_apart = parts_of_running_sum(a.c / a.groups * a.r * a.s, min(taps, kStageTaps));
      keeps_filters = chunks * parts <= kFilterStages;
    }
  };

  // Tensor cores round sums towards zero. Those of split numbers are therefore moved every few
  // parts to the totals, by the FP32 units, which round to nearest. The relative error of a running
  // sum is 3.9e-8 for a tap of 16 channels; that of multiply-adds is 1.6e-8 sqrt(terms). So many
  // parts that it is no more than theirs, at most three. Rounded numbers have errors beside which
  // that does not matter.
  static __device__ int parts_of_running_sum(int num_terms, int taps_of_part) {
    if constexpr (!Numbers::kSplit) return 1 << 20;
    const auto allows = [&](int parts) {
      const int taps = parts * taps_of_part;
      return taps * taps * 7 <= num_terms;
    };
    return allows(3) ? 3 : allows(2) ? 2 : 1;
  }

  /// The largest finite |x| that the task saw goes to a.x_magnitudes[index], if numbers are scaled
  /// and no task of other filters does it.
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
      const auto of_filter = [&](const float* vector, float otherwise) {
        return vector != nullptr && k < walk.end_k
                   ? static_cast<float>(reinterpret_cast<const Stored*>(vector)[k])
                   : otherwise;
      };
      shared.scale[i] = of_filter(a.scale, 1.0f);
      shared.bias[i] = of_filter(a.bias, 0.0f);
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
        if (walk.first_k % a.filters_at_once == 0) a.x_magnitudes[index] = most;
      }
    }
  }

 private:
  // Hands the filters of all tiles, chunks and taps to TMA, a few taps at a time. If there is room
  // for all of a tile's, those of the first serve the others, too.
  static __device__ void copy_filters(const TaskArgs& a, const Walk& walk, Shared& shared) {
    typename StageRing<kFilterStages>::Cursor at;
    for (int tile = 0; tile < (walk.keeps_filters ? 1 : walk.num_tiles); ++tile) {
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
  }

  // A tap by its row and column, and the K block that it is multiplied with.
  struct Step {
    int row = 0, col = 0, c = 0;
    /// The next tap; behind the last, the first of the next K block.
    __device__ void advance(const TaskArgs& a) {
      if (++col < a.s) return;
      col = 0;
      if (++row < a.r) return;
      row = 0;
      c += kDepth;
    }
  };

  // Numbers of x under a tap of a padded pixel, from channel c on. If the taps of a filter's row
  // are channels, some of them may lie beside the row of x.
  struct Source {
    bool exists;
    std::int32_t offset, in_row;  // of channel 0: in x, in its row of x
    int c;
  };
  // Where the padded pixels that a thread loads find theirs, one stage after the other.
  class OwnPlaces {
   public:
    __device__ OwnPlaces(const TaskArgs& a, const Walk& walk)
        : a_(a), walk_(walk), left_(walk.end_place - walk.first_place) {
#pragma unroll
      for (int i = 0; i < kOwnPlaces; ++i) {
        positions_[i] = a.stripes.position(walk.first_place + place(i));
      }
    }
    /// The i-th of a stage's.
    __device__ int of_stage(int i) const {
      return i > 0 && takes_turns() ? kLoaders + static_cast<int>(threadIdx.x) % 32
                                    : static_cast<int>(threadIdx.x) + i * kLoaders;
    }
    /// Whether that is this thread's in the stage of a number.
    __device__ bool has(int i, int stage) const {
      return i == 0 || !takes_turns() ||
             static_cast<int>(threadIdx.x) / 32 ==
                 static_cast<int>(static_cast<unsigned>(stage) % (kLoaders / 32));
    }
    /// Of the i-th in this stage.
    __device__ Source source(int i) const {
      Step at = step_;
      if (walk_.has_steps) {
#pragma unroll
        for (int step = 1; step < kMostSteps; ++step) {
          if (of_stage(i) >= step * kTilePlaces) at.advance(a_);
        }
      }
      const int end = min(kTilePlaces, left_) + a_.stripes.reach;
      const bool is_loaded = left_ > 0 && place(i) < end && at.c < a_.c_padded && has(i, stage_) &&
                             of_stage(i) < (walk_.has_steps ? kMostSteps * kTilePlaces : kPlaces);
      const Stripes::Position& position = positions_[i];
      const int row = position.row * a_.stride_h - a_.pad_h + at.row * a_.dilation_h;
      const int col = (walk_.stripe * a_.stripes.cols + position.col) * a_.stride_w - a_.pad_w +
                      at.col * a_.dilation_w;
      const int channels = walk_.pixel_channels;
      const bool in_row =
          walk_.folds || static_cast<unsigned>(col) < static_cast<unsigned>(a_.w_in);
      const int pixel = row * a_.w_in + col;
      const int first = kLayout == Layout::nchw ? pixel : pixel * channels;
      const auto image_start = static_cast<std::uint32_t>(position.image) *
                               static_cast<std::uint32_t>(channels * a_.h * a_.w_in);
      return {is_loaded && position.image < a_.n && in_row &&
                  static_cast<unsigned>(row) < static_cast<unsigned>(a_.h),
              static_cast<std::int32_t>(image_start + static_cast<std::uint32_t>(first)),
              col * channels, at.c};
    }
    /// On to the next stage, of the next tile behind a tile's last.
    __device__ void advance(const Stripes::Position& next_tile) {
      ++stage_;
      if (walk_.has_steps) {
#pragma unroll
        for (int step = 0; step < kMostSteps; ++step) step_.advance(a_);
      } else {
        step_.c += kDepth;
      }
      if (step_.c < a_.c_padded) return;
      step_ = {};
      left_ -= kTilePlaces;
#pragma unroll
      for (int i = 0; i < kOwnPlaces; ++i) {
        positions_[i] = a_.stripes.sum(positions_[i], next_tile);
      }
    }

   private:
    // In the tile. Of several steps, each has all of the tile's.
    __device__ int place(int i) const {
      return walk_.has_steps ? of_stage(i) % kTilePlaces : of_stage(i);
    }

    // Whether a stage has a few more padded pixels than there are loaders. The warps take these in
    // turns, since who loads them waits longer.
    __device__ bool takes_turns() const {
      constexpr int kMore = kMostSteps * kTilePlaces - kLoaders;
      return !kStagesAhead && kMore > 0 && kMore <= 32 && walk_.has_steps;
    }

    const TaskArgs& a_;
    const Walk& walk_;
    int stage_ = 0, left_;  // padded pixels of the task, from the tile on
    Step step_;
    Stripes::Position positions_[kOwnPlaces];
  };

  // kRun channels of a padded pixel.
  using Run = Stored[kRun];

  // Where runs land that are on their way, and whether they exist.
  class LandingRuns {
   public:
    __device__ explicit LandingRuns(Landing& landing) : landing_(landing) {}
    /// The run that was started kAhead starts ago, if it exists. By all threads of a warp.
    __device__ bool finish(int i, int slot, Run& run) {
      const bool exists = (exist_ >> (kAhead - 1) & 1) != 0;
      __pipeline_wait_prior(kAhead - 1);
      __syncwarp();  // others may have copied it
      if (!exists) return false;
#pragma unroll
      for (int j = 0; j < kRunPieces; ++j) {
        const Piece piece = landed(slot, j, column(i));
        memcpy(&run[j * kPieceNumbers], &piece, sizeof piece);
      }
      return true;
    }

   protected:
    static constexpr int kPieceNumbers = kRun / kRunPieces;
    __device__ void note(bool exists) { exist_ = exist_ << 1 | (exists ? 1 : 0); }
    // Where the runs of this thread land.
    static __device__ int column(int i) {
      return static_cast<int>(threadIdx.x) + (kStagesAhead ? i * kLoaders : 0);
    }
    // A piece of a run. Eight threads meet all banks, whether they have a piece of eight runs each,
    // or all pieces of fewer runs.
    __device__ Piece& landed(int slot, int piece, int column) {
      return landing_[slot][piece][column ^ piece * (8 / kRunPieces)];
    }

    unsigned exist_ = 0;  // of the last starts

   private:
    Landing& landing_;
  };

  // Runs of rows of x on their way: padded pixels are its pixels, in order. A pixel's pieces are
  // neighbours: as many threads copy one together, then the next thread's.
  class RowsAhead : public LandingRuns {
    using LandingRuns::column, LandingRuns::kPieceNumbers, LandingRuns::landed;

   public:
    /// Before the run that comes next is converted: 5 % slower here, up to 23 % faster where pixels
    /// lie anywhere.
    static constexpr bool kStartsEarly = false;
    __device__ RowsAhead(const TaskArgs& a, const Walk& walk, Landing& landing)
        : LandingRuns(landing),
          x_(reinterpret_cast<const Stored*>(a.x) +
             static_cast<std::int64_t>(walk.first_place) * a.c + piece() * kPieceNumbers),
          channels_(a.c),
          left_(walk.end_place - walk.first_place),
          left_channels_(a.c) {}
    static __device__ int of_stage(int i) { return column(i); }
    static __device__ bool has(int, int) { return true; }
    /// By all threads of a warp.
    __device__ void start(int i, int, int slot) {
      this->note(exists(column(i)));
      int first = column(i) - lane() + lane() / kRunPieces;
      // To be found anew each time: what could be kept of all of them takes more registers than
      // there are.
      asm volatile("" : "+r"(first));
      __syncwarp();  // what landed there before has been read
#pragma unroll
      for (int j = 0; j < kRunPieces; ++j) {
        const int owner = first + j * (32 / kRunPieces);
        if (!exists(owner)) continue;
        const Stored* const from = x_ + place(owner) * channels_ + step(owner) * kDepth;
        __pipeline_memcpy_async(&landed(slot, piece(), owner), from, sizeof(Piece));
      }
      __pipeline_commit();
      if (i + 1 == kOwnPlaces) advance();
    }

   private:
    static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
    static __device__ int piece() { return lane() % kRunPieces; }
    // Of the index-th padded pixel of a stage, which has some K blocks of a tile.
    static __device__ int step(int index) {
      int step = 0;
#pragma unroll
      for (int i = 1; i < kMostSteps; ++i) step += index >= i * kTilePlaces ? 1 : 0;
      return step;
    }
    static __device__ int place(int index) { return index - step(index) * kTilePlaces; }
    __device__ bool exists(int index) const {
      return place(index) < min(kTilePlaces, left_) && step(index) * kDepth < left_channels_;
    }
    __device__ void advance() {
      x_ += kMostSteps * kDepth;
      left_channels_ -= kMostSteps * kDepth;
      if (left_channels_ > 0) return;
      x_ += (kTilePlaces - 1) * channels_ + left_channels_;
      left_channels_ = channels_;
      left_ -= kTilePlaces;
    }

    const Stored* x_;  // of the tile and its K blocks, of this thread's pieces
    const int channels_;
    int left_, left_channels_;
  };

  // The compiler sets the number before what follows. If it set those that are not loaded behind
  // the loads, every few of these would be waited for.
  static __device__ void keep_before(std::uint32_t& number) {
    asm volatile("" : "+r"(number)::"memory");
  }

  // Runs of numbers of 16 bits on their way to registers, where the taps of a filter's row are
  // channels: two numbers at a time, since pairs lie in one row of x or in none.
  class PairsAhead {
   public:
    static constexpr bool kStartsEarly = true;
    static __device__ bool suits(const TaskArgs& a, const Walk& walk) {
      return walk.folds && a.w_in * walk.pixel_channels % 2 == 0 &&
             reinterpret_cast<std::uintptr_t>(a.x) % sizeof(std::uint32_t) == 0;
    }
    __device__ PairsAhead(const TaskArgs& a, const Walk& walk, Landing&)
        : a_(a),
          walk_(walk),
          next_tile_(a.stripes.position(kTilePlaces)),
          places_(a, walk),
          row_pairs_(a.w_in * walk.pixel_channels / 2) {}
    __device__ int of_stage(int i) const { return places_.of_stage(i); }
    __device__ bool has(int i, int stage) const { return places_.has(i, stage); }

    __device__ void start(int i, int run, int slot) {
      if (run == 0) source_ = places_.source(i);
      exist_ = exist_ << 1 | (source_.exists ? 1 : 0);
      const int c = source_.c + run * kRun, in_row = source_.in_row + c;
      Words& words = words_[slot];
      words.count = walk_.num_c - c;
      words.second = in_row & 1;
      const int first_pair = (in_row - words.second) / 2;
      const auto* const x = reinterpret_cast<const std::uint32_t*>(
          reinterpret_cast<const Stored*>(a_.x) + source_.offset + c - words.second);
#pragma unroll
      for (std::uint32_t& word : words.word) {
        word = 0;
        keep_before(word);
      }
#pragma unroll
      for (int j = 0; j < kWords; ++j) {
        const auto pair = static_cast<unsigned>(first_pair + j);
        const bool exists = source_.exists && 2 * j < words.count + words.second &&
                            pair < static_cast<unsigned>(row_pairs_);
        if (exists) words.word[j] = x[j];
      }
      if (i + 1 == kOwnPlaces && run + 1 == kPlaceRuns) places_.advance(next_tile_);
    }
    __device__ bool finish(int, int slot, Run& run) {
      if ((exist_ >> (kAhead - 1) & 1) == 0) return false;
      const Words& words = words_[slot];
#pragma unroll
      for (int j = 0; j < kRun / 2; ++j) {
        const std::uint64_t two = std::uint64_t{words.word[j + 1]} << 32 | words.word[j];
        auto pair = static_cast<std::uint32_t>(two >> (16 * words.second));
        if (2 * j + 1 >= words.count) pair = 2 * j < words.count ? pair & 0xffffu : 0;
        memcpy(&run[2 * j], &pair, sizeof pair);
      }
      return true;
    }

   private:
    static constexpr int kWords = kRun / 2 + 1;
    // Of a run: it may begin with a word's second number.
    struct Words {
      std::uint32_t word[kWords];
      int count, second;
    };

    const TaskArgs& a_;
    const Walk& walk_;
    const Stripes::Position next_tile_;
    OwnPlaces places_;
    Source source_{};
    const int row_pairs_;  // of a row of x
    unsigned exist_ = 0;   // of the last starts
    Words words_[kSlots];
  };

  // Runs on their way, of padded pixels that lie anywhere.
  class Ahead : public LandingRuns {
    using LandingRuns::column, LandingRuns::kPieceNumbers, LandingRuns::landed;

   public:
    static constexpr bool kStartsEarly = true;
    __device__ Ahead(const TaskArgs& a, const Walk& walk, Landing& landing)
        : LandingRuns(landing),
          a_(a),
          walk_(walk),
          next_tile_(a.stripes.position(kTilePlaces)),
          places_(a, walk),
          in_vectors_(!walk.folds && a.c % kVector == 0 && walk.num_c % kVector == 0 &&
                      reinterpret_cast<std::uintptr_t>(a.x) % sizeof(uint4) == 0) {}
    __device__ int of_stage(int i) const { return places_.of_stage(i); }
    __device__ bool has(int i, int stage) const { return places_.has(i, stage); }

    /// Starts to load a run of the i-th of a thread's padded pixels in a stage, if it exists. The
    /// first one of a padded pixel says where that is.
    __device__ void start(int i, int run, int slot) {
      if (run == 0) source_ = places_.source(i);
      const Source& source = source_;
      this->note(source.exists);
      const int c = source.c + run * kRun, count = walk_.num_c - c;
      // The first summands are the same for all threads.
      const Stored* const x =
          reinterpret_cast<const Stored*>(a_.x) + (walk_.first_c + c) * stride() + source.offset;
      if constexpr (kLayout == Layout::nhwc) {
        if (source.exists && !in_vectors_) gather(x, count, source.in_row + c, i, slot);
      }
      if (source.exists && (kLayout == Layout::nchw || in_vectors_)) {
        count >= kRun ? copy<true>(x, count, i, slot) : copy<false>(x, count, i, slot);
      }
      if constexpr (!kToRegisters) __pipeline_commit();
      if (i + 1 == kOwnPlaces && run + 1 == kPlaceRuns) places_.advance(next_tile_);
    }
    __device__ bool finish(int i, int slot, Run& run) {
      if constexpr (!kToRegisters) {
        return LandingRuns::finish(i, slot, run);
      } else {
#pragma unroll
        for (int j = 0; j < kRun; ++j) run[j] = runs_[slot][j];
        return (this->exist_ >> (kAhead - 1) & 1) != 0;
      }
    }

   private:
    static constexpr int kVector = sizeof(uint4) / sizeof(Stored);

    // From a channel to the next, in numbers.
    __device__ std::ptrdiff_t stride() const {
      return kLayout == Layout::nchw ? static_cast<std::ptrdiff_t>(a_.h) * a_.w_in : 1;
    }
    // Where nothing is read, zeros are written.
    template <class Part>
    __device__ void copy_part(Part* to, const Stored* x, bool exists) {
      __pipeline_memcpy_async(to, exists ? x : reinterpret_cast<const Stored*>(a_.x), sizeof(Part),
                              exists ? 0 : sizeof(Part));
    }
    // kWhole: count is at least kRun. Half the instructions.
    template <bool kWhole>
    __device__ void copy(const Stored* x, int count, int i, int slot) {
      const std::ptrdiff_t step = stride() * kPieceNumbers;
#pragma unroll
      for (int j = 0; j < kRunPieces; ++j, x += step) {
        const bool exists = kWhole || j * kPieceNumbers < count;
        if constexpr (kToRegisters) {
          runs_[slot][j] = exists ? *x : static_cast<Stored>(0.0f);
        } else {
          copy_part(&landed(slot, j, column(i)), x, exists);
        }
      }
    }
    // Pixels whose channels lie anywhere (NHWC). `in_row`: the number in its row of x. Numbers that
    // are too small for asynchronous copies come to registers first, all of them at once.
    __device__ void gather(const Stored* x, int count, int in_row, int i, int slot) {
      // If the taps of a filter's row are channels, some may lie beside the row of x.
      const int first = walk_.folds ? max(-in_row, 0) : 0;
      const int end = walk_.folds ? min(count, a_.w_in * walk_.pixel_channels - in_row) : count;
      const auto exists = [&](int j) { return first <= j && j < end; };
      if constexpr (sizeof(Stored) == sizeof(float)) {
#pragma unroll
        for (int j = 0; j < kRun; ++j) {
          auto* const piece =
              reinterpret_cast<Stored*>(&landed(slot, j / kPieceNumbers, column(i)));
          copy_part(piece + j % kPieceNumbers, x + j, exists(j));
        }
      } else {
        std::uint32_t numbers[kRun] = {};
#pragma unroll
        for (std::uint32_t& number : numbers) keep_before(number);
#pragma unroll
        for (int j = 0; j < kRun; ++j) {
          if (exists(j)) numbers[j] = reinterpret_cast<const std::uint16_t*>(x)[j];
        }
#pragma unroll
        for (int j = 0; j < kRunPieces; ++j) {
          const std::uint32_t* const eight = &numbers[j * kPieceNumbers];
          const auto pair = [eight](int k) { return eight[2 * k] | eight[2 * k + 1] << 16; };
          landed(slot, j, column(i)) = {pair(0), pair(1), pair(2), pair(3)};
        }
      }
    }
    const TaskArgs& a_;
    const Walk& walk_;
    const Stripes::Position next_tile_;
    OwnPlaces places_;
    Source source_{};
    const bool in_vectors_;
    alignas(16) Run runs_[kToRegisters ? kSlots : 1];
  };

  static __device__ void load_input(const TaskArgs& a, const Walk& walk, Shared& shared) {
    if constexpr (kStagesAhead && kLayout == Layout::nhwc) {
      if (walk.in_rows) {
        load_input(a, walk, RowsAhead(a, walk, shared.landing), shared);
        return;
      }
    }
    if constexpr (sizeof(Stored) == 2 && kLayout == Layout::nhwc) {
      if (PairsAhead::suits(a, walk)) {
        load_input(a, walk, PairsAhead(a, walk, shared.landing), shared);
        return;
      }
    }
    load_input(a, walk, Ahead(a, walk, shared.landing), shared);
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
        if (Loads::kStartsEarly) start_next();
        if (stage >= 0) {
          if (i == 0) shared.input.wait_empty(at);
          Input& to = shared.x[at.stage];
          const int place = ahead.of_stage(i / kPlaceRuns), octet = i % kPlaceRuns * (kRun / 8);
          if (exists) {
            store_run(run, a.x_scale, to, octet, place, most);
          } else if (place < kPlaces && ahead.has(i / kPlaceRuns, stage)) {
#pragma unroll
            for (int j = 0; j < kKBlockOctets / kPlaceRuns; ++j) to[octet + j][place] = uint4{};
          }
        }
        if (!Loads::kStartsEarly) start_next();
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
