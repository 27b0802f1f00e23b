// SPDX-License-Identifier: Apache-2.0
// Runs of x on their way to a loading thread of implicit GEMM: kRun channels of a padded pixel
// each. Three ways: rows of x, pixels that stay the same through a tile, and pixels that lie
// anywhere.
#pragma once

#include <cuda_pipeline.h>

#include "tasks/implicit_gemm/cuda/loaded_shape.cuh"

namespace megaconv::cuda {

/// Shape: a LoadedShape. What each way has:
///
///   kStartsEarly         whether the run that comes next starts before this one is converted
///   of_stage(i)          which of a stage's padded pixels the i-th of this thread is
///   has(i, stage)        whether it is this thread's, in the stage of a number
///   start(i, run, slot)  starts to load it; behind the last one of a stage the next stage begins
///   finish(i, slot, to)  the run that was started kAhead starts ago, if it exists
template <class Shape>
struct LoadedRuns : Shape {
  using Shape::kAhead, Shape::kDepth, Shape::kHasSteps, Shape::kLandingPlaces, Shape::kLayout,
      Shape::kLoaders, Shape::kMostSteps, Shape::kOwnPlaces, Shape::kPlaceRuns, Shape::kPlaces,
      Shape::kRun, Shape::kRunPieces, Shape::kSlots, Shape::kStagesAhead, Shape::kTilePlaces,
      Shape::kToRegisters;
  using typename Shape::Landing, typename Shape::Numbers, typename Shape::Piece,
      typename Shape::Stored, typename Shape::Walk;

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

  // Numbers of x under a tap of a padded pixel, from channel c on.
  struct Source {
    bool exists;
    std::int32_t offset;  // of channel 0, in x
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
      if (kHasSteps) {
#pragma unroll
        for (int step = 1; step < kMostSteps; ++step) {
          if (of_stage(i) >= step * kTilePlaces) at.advance(a_);
        }
      }
      const int end = min(kTilePlaces, left_) + a_.stripes.reach;
      const bool is_loaded = left_ > 0 && place(i) < end && at.c < a_.c_padded && has(i, stage_) &&
                             of_stage(i) < (kHasSteps ? kMostSteps * kTilePlaces : kPlaces);
      const Stripes::Position& position = positions_[i];
      const int row = position.row * a_.stride_h - a_.pad_h + at.row * a_.dilation_h;
      const int col = (walk_.stripe * a_.stripes.cols + position.col) * a_.stride_w - a_.pad_w +
                      at.col * a_.dilation_w;
      const int pixel = row * a_.w_in + col;
      const int first = kLayout == Layout::nchw ? pixel : pixel * a_.c;
      const auto image_start = static_cast<std::uint32_t>(position.image) *
                               static_cast<std::uint32_t>(a_.c * a_.h * a_.w_in);
      return {is_loaded && position.image < a_.n &&
                  static_cast<unsigned>(row) < static_cast<unsigned>(a_.h) &&
                  static_cast<unsigned>(col) < static_cast<unsigned>(a_.w_in),
              static_cast<std::int32_t>(image_start + static_cast<std::uint32_t>(first)), at.c};
    }
    /// On to the next stage, of the next tile behind a tile's last.
    __device__ void advance(const Stripes::Position& next_tile) {
      ++stage_;
      if (kHasSteps) {
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
      return kHasSteps ? of_stage(i) % kTilePlaces : of_stage(i);
    }

    // Whether a stage has a few more padded pixels than there are loaders. The warps take these in
    // turns, since who loads them waits longer.
    __device__ bool takes_turns() const {
      constexpr int kMore = kMostSteps * kTilePlaces - kLoaders;
      return !kStagesAhead && kMore > 0 && kMore <= 32 && kHasSteps;
    }

    const TaskArgs& a_;
    const Walk& walk_;
    int stage_ = 0, left_;  // padded pixels of the task, from the tile on
    Step step_;
    Stripes::Position positions_[kOwnPlaces];
  };

  // kRun channels of a padded pixel.
  using Run = Stored[kRun];

  // Whether the runs that were started last exist.
  class StartedRuns {
   protected:
    __device__ void note(bool exists) { exist_ = exist_ << 1 | (exists ? 1 : 0); }
    // Of the one that was started kAhead starts ago.
    __device__ bool exists() const { return (exist_ >> (kAhead - 1) & 1) != 0; }

   private:
    unsigned exist_ = 0;
  };

  // Where the padded pixels of a stage lie in x, one after the other.
  class SoughtPlaces {
   public:
    __device__ SoughtPlaces(const TaskArgs& a, const Walk& walk)
        : next_tile_(a.stripes.position(kTilePlaces)), places_(a, walk) {}
    __device__ int of_stage(int i) const { return places_.of_stage(i); }
    __device__ bool has(int i, int stage) const { return places_.has(i, stage); }

   protected:
    // Of the i-th one's runs, the first of which finds it.
    __device__ const Source& source(int i, int run) {
      if (run == 0) source_ = places_.source(i);
      return source_;
    }
    // Behind a stage's last run.
    __device__ void pass(int i, int run) {
      if (i + 1 == kOwnPlaces && run + 1 == kPlaceRuns) places_.advance(next_tile_);
    }

   private:
    const Stripes::Position next_tile_;
    OwnPlaces places_;
    Source source_{};
  };

  // Where runs land that are on their way.
  class LandingRuns : public StartedRuns {
   public:
    __device__ explicit LandingRuns(Landing& landing) : landing_(landing) {}
    /// The run that was started kAhead starts ago, if it exists. By all threads of a warp.
    __device__ bool finish(int i, int slot, Run& run) {
      __pipeline_wait_prior(kAhead - 1);
      __syncwarp();  // others may have copied it
      if (!this->exists()) return false;
#pragma unroll
      for (int j = 0; j < kRunPieces; ++j) {
        const Piece piece = landed(slot, j, column(i));
        memcpy(&run[j * kPieceNumbers], &piece, sizeof piece);
      }
      return true;
    }

   protected:
    static constexpr int kPieceNumbers = kRun / kRunPieces;
    // Where the runs of this thread land.
    static __device__ int column(int i) {
      return static_cast<int>(threadIdx.x) + (kStagesAhead ? i * kLoaders : 0);
    }
    // Where a piece of a run lands. Eight threads that have a piece of eight runs each meet all
    // banks.
    static __device__ int index(int slot, int piece, int column) {
      if constexpr (kLayout == Layout::nchw) {
        return (slot * kRunPieces + piece) * kLandingPlaces + column;
      } else {
        const auto own = static_cast<unsigned>(column);
        return (slot * kLandingPlaces + column) * kRunPieces +
               (piece ^ static_cast<int>(own / (8 / kRunPieces) % kRunPieces));
      }
    }
    __device__ Piece& landed(int slot, int piece, int column) {
      return (&landing_[0][0][0])[index(slot, piece, column)];
    }

   private:
    Landing& landing_;
  };

  // Runs on their way of padded pixels that read the same pixels through all K blocks of a tile:
  // its taps share a halo, or there is one tap. A run's pieces are neighbours: as many threads copy
  // one run together, then the next thread's. Both pieces of a sector of x land side by side in one
  // instruction. Otherwise the L2 is asked for it twice, and copies take twice as long (H100, 51
  // MB: 48.7 us instead of 23.0; each thread its own run: 37.8).
  class CopiedTogether : public LandingRuns {
   public:
    /// Before the run that comes next is converted: 5 % slower here, up to 23 % faster where pixels
    /// lie anywhere.
    static constexpr bool kStartsEarly = false;
    /// In NHWC, with a halo or of one tap. Runs are whole.
    static __device__ bool suits(const TaskArgs& a) {
      return (!kHasSteps || a.r * a.s == 1) && a.groups == 1 && a.c % kRun == 0 &&
             reinterpret_cast<std::uintptr_t>(a.x) % sizeof(uint4) == 0;
    }
    static __device__ int of_stage(int i) { return LandingRuns::column(i); }
    static __device__ bool has(int, int) { return true; }

   protected:
    using LandingRuns::column, LandingRuns::kPieceNumbers, LandingRuns::LandingRuns;
    static constexpr int kRunsAtOnce = 32 / kRunPieces;
    static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
    static __device__ int piece() { return lane() % kRunPieces; }
    // The first padded pixel of which this thread copies a piece; the others are kRunsAtOnce apart.
    static __device__ int first_copied(int i) { return column(i) - lane() + lane() / kRunPieces; }
    // Starts those of the runs at once that offset(j, column) finds: where the thread's piece lies
    // behind `x`, or a negative number.
    template <class Offset>
    __device__ void copy(int i, int slot, const Stored* x, Offset offset) {
      // To be found anew each time, and once: what could be kept of all columns takes more
      // registers than there are.
      int first = first_copied(i);
      asm volatile("" : "+r"(first));
      int at = this->index(slot, piece(), first);
      asm volatile("" : "+r"(at));
      Piece* const to = &this->landed(0, 0, 0) + at;
      __syncwarp();  // what landed there before has been read
#pragma unroll
      for (int j = 0; j < kRunPieces; ++j) {
        const int from = offset(j, first + j * kRunsAtOnce);
        if (from < 0) continue;
        __pipeline_memcpy_async(to + j * kRunsAtOnce * kRunPieces, x + static_cast<unsigned>(from),
                                sizeof(Piece));
      }
      __pipeline_commit();
    }
    // Of the index-th padded pixel of a stage, if that has several K blocks of a tile.
    static __device__ int step(int index) {
      int step = 0;
#pragma unroll
      for (int i = 1; i < kMostSteps; ++i) step += index >= i * kTilePlaces ? 1 : 0;
      return step;
    }
    static __device__ int place(int index) { return index - step(index) * kTilePlaces; }
  };

  // Padded pixels are the pixels of x, in order.
  class RowsAhead : public CopiedTogether {
    using CopiedTogether::column, CopiedTogether::first_copied, CopiedTogether::kPieceNumbers,
        CopiedTogether::kRunsAtOnce, CopiedTogether::piece, CopiedTogether::place,
        CopiedTogether::step;

   public:
    static __device__ bool suits(const TaskArgs& a) {
      return CopiedTogether::suits(a) && a.in_order && kHasSteps && a.stride_h * a.stride_w == 1;
    }
    __device__ RowsAhead(const TaskArgs& a, const Walk& walk, Landing& landing)
        : CopiedTogether(landing),
          x_(reinterpret_cast<const Stored*>(a.x) +
             static_cast<std::int64_t>(walk.first_place) * a.c + piece() * kPieceNumbers),
          channels_(a.c),
          left_(walk.end_place - walk.first_place),
          left_channels_(a.c) {
#pragma unroll
      for (int i = 0; i < kOwnPlaces; ++i) {
#pragma unroll
        for (int j = 0; j < kRunPieces; ++j) {
          const int index = first_copied(i) + j * kRunsAtOnce;
          offsets_[i][j] = place(index) < kTilePlaces ? offset(index) : -1;
        }
      }
    }
    /// By all threads of a warp.
    __device__ void start(int i, int, int slot) {
      this->note(is_there(column(i)));
      // Mostly there is a whole stage.
      if (left_ >= kTilePlaces && left_channels_ >= kMostSteps * kDepth) {
        this->copy(i, slot, x_, [this, i](int j, int) { return offsets_[i][j]; });
      } else {
        this->copy(i, slot, x_,
                   [this](int, int index) { return is_there(index) ? offset(index) : -1; });
      }
      if (i + 1 == kOwnPlaces) advance();
    }

   private:
    __device__ bool is_there(int index) const {
      return place(index) < min(kTilePlaces, left_) && step(index) * kDepth < left_channels_;
    }
    __device__ int offset(int index) const {
      return place(index) * channels_ + step(index) * kDepth;
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
    int offsets_[kOwnPlaces][kRunPieces];  // of the runs that this thread copies pieces of
  };

  // They lie anywhere: threads find their own, once for a tile, and tell those that copy them.
  class PixelsAhead : public CopiedTogether {
    using CopiedTogether::column, CopiedTogether::kPieceNumbers, CopiedTogether::kRunsAtOnce,
        CopiedTogether::lane, CopiedTogether::piece;

   public:
    __device__ PixelsAhead(const TaskArgs& a, const Walk& walk, Landing& landing)
        : CopiedTogether(landing),
          a_(a),
          walk_(walk),
          x_(reinterpret_cast<const Stored*>(a.x) + piece() * kPieceNumbers),
          next_tile_(a.stripes.position(kTilePlaces)),
          left_(walk.end_place - walk.first_place),
          left_channels_(a.c) {
#pragma unroll
      for (int i = 0; i < kOwnPlaces; ++i) {
        positions_[i] = a.stripes.position(walk.first_place + place(column(i)));
      }
      find();
    }
    /// By all threads of a warp.
    __device__ void start(int i, int, int slot) {
      this->note((own_exist_ >> i & 1) != 0 && has_channels(column(i)));
      this->copy(i, slot, x_,
                 [this, i](int j, int index) { return has_channels(index) ? offsets_[i][j] : -1; });
      if (i + 1 == kOwnPlaces) advance();
    }

   private:
    // Of one tap a stage has some K blocks of a tile, one padded pixel after the other of each.
    __device__ int step(int index) const { return kHasSteps ? CopiedTogether::step(index) : 0; }
    __device__ int place(int index) const { return index - step(index) * kTilePlaces; }
    __device__ bool has_channels(int index) const { return step(index) * kDepth < left_channels_; }
    // Where the runs of the tile's padded pixels begin; a negative number if they do not exist.
    __device__ void find() {
      own_exist_ = 0;
#pragma unroll
      for (int i = 0; i < kOwnPlaces; ++i) {
        const Stripes::Position& position = positions_[i];
        const int index = column(i);
        const int row = position.row * a_.stride_h - a_.pad_h;
        const int col = (walk_.stripe * a_.stripes.cols + position.col) * a_.stride_w - a_.pad_w;
        const bool exists = left_ > 0 && index < kPlaces &&
                            place(index) < min(kTilePlaces, left_) + a_.stripes.reach &&
                            position.image < a_.n &&
                            static_cast<unsigned>(row) < static_cast<unsigned>(a_.h) &&
                            static_cast<unsigned>(col) < static_cast<unsigned>(a_.w_in);
        const int pixel = (position.image * a_.h + row) * a_.w_in + col;
        const int offset = exists ? pixel * a_.c + step(index) * kDepth : -1;
        own_exist_ |= exists ? 1u << i : 0u;
#pragma unroll
        for (int j = 0; j < kRunPieces; ++j) {
          offsets_[i][j] = __shfl_sync(0xffffffffu, offset, lane() / kRunPieces + j * kRunsAtOnce);
        }
      }
    }
    __device__ void advance() {
      const int channels = kHasSteps ? kMostSteps * kDepth : kDepth;
      x_ += channels;
      left_channels_ -= channels;
      if (left_channels_ > 0) return;
      x_ += left_channels_ - a_.c;
      left_channels_ = a_.c;
      left_ -= kTilePlaces;
#pragma unroll
      for (int i = 0; i < kOwnPlaces; ++i) {
        positions_[i] = a_.stripes.sum(positions_[i], next_tile_);
      }
      find();
    }

    const TaskArgs& a_;
    const Walk& walk_;
    const Stored* x_;  // of this thread's pieces, from the K block on
    const Stripes::Position next_tile_;
    int left_, left_channels_;  // padded pixels of the task, from the tile on; from the K block on
    Stripes::Position positions_[kOwnPlaces];
    unsigned own_exist_;
    int offsets_[kOwnPlaces][kRunPieces];  // of the runs that this thread copies pieces of
  };

  // The compiler sets the number before what follows. If it set those that are not loaded behind
  // the loads, every few of these would be waited for.
  static __device__ void keep_before(std::uint32_t& number) {
    asm volatile("" : "+r"(number)::"memory");
  }

  // Runs on their way, of padded pixels that lie anywhere.
  class Ahead : public LandingRuns, public SoughtPlaces {
    using LandingRuns::column, LandingRuns::kPieceNumbers, LandingRuns::landed;

   public:
    /// Whether a run has been read when it is finished: its magnitude has been asked for.
    static constexpr bool kStartsEarly = Numbers::kScaled;
    __device__ Ahead(const TaskArgs& a, const Walk& walk, Landing& landing)
        : LandingRuns(landing),
          SoughtPlaces(a, walk),
          a_(a),
          walk_(walk),
          in_vectors_(a.c % kVector == 0 && walk.num_c % kVector == 0 &&
                      reinterpret_cast<std::uintptr_t>(a.x) % sizeof(uint4) == 0) {}

    /// Starts to load a run of the i-th of a thread's padded pixels in a stage, if it exists.
    __device__ void start(int i, int run, int slot) {
      const Source& source = this->source(i, run);
      const int c = source.c + run * kRun, count = walk_.num_c - c;
      const bool exists = source.exists && count > 0;
      this->note(exists);
      // The first summands are the same for all threads.
      const Stored* const x = tensor() + (walk_.first_c + c) * stride() + source.offset;
      if constexpr (kLayout == Layout::nhwc) {
        if (exists && !in_vectors_) gather(x, count, i, slot);
      }
      if (exists && (kLayout == Layout::nchw || in_vectors_)) {
        count >= kRun ? copy<true>(x, count, i, slot) : copy<false>(x, count, i, slot);
      }
      if constexpr (!kToRegisters) __pipeline_commit();
      this->pass(i, run);
    }
    __device__ bool finish(int i, int slot, Run& run) {
      if constexpr (!kToRegisters) {
        return LandingRuns::finish(i, slot, run);
      } else {
#pragma unroll
        for (int j = 0; j < kRun; ++j) run[j] = runs_[slot][j];
        return this->exists();
      }
    }

   private:
    static constexpr int kVector = sizeof(uint4) / sizeof(Stored);

    __device__ const Stored* tensor() const { return reinterpret_cast<const Stored*>(a_.x); }
    // From a channel to the next, in numbers.
    __device__ std::ptrdiff_t stride() const {
      return kLayout == Layout::nchw ? static_cast<std::ptrdiff_t>(a_.h) * a_.w_in : 1;
    }
    // Where nothing is read, zeros are written.
    template <class Part>
    __device__ void copy_part(Part* to, const Stored* x, bool exists) {
      __pipeline_memcpy_async(to, exists ? x : tensor(), sizeof(Part), exists ? 0 : sizeof(Part));
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
    // Pixels whose channels lie anywhere (NHWC). Numbers that are too small for asynchronous copies
    // come to registers first, all of them at once.
    __device__ void gather(const Stored* x, int count, int i, int slot) {
      if constexpr (sizeof(Stored) == sizeof(float)) {
#pragma unroll
        for (int j = 0; j < kRun; ++j) {
          auto* const to = reinterpret_cast<Stored*>(&landed(slot, j / kPieceNumbers, column(i)));
          copy_part(to + j % kPieceNumbers, x + j, j < count);
        }
      } else {
        std::uint32_t numbers[kRun] = {};
#pragma unroll
        for (std::uint32_t& number : numbers) keep_before(number);
#pragma unroll
        for (int j = 0; j < kRun; ++j) {
          if (j < count) numbers[j] = reinterpret_cast<const std::uint16_t*>(x)[j];
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
    const bool in_vectors_;
    alignas(16) Run runs_[kToRegisters ? kSlots : 1];
  };
};

}  // namespace megaconv::cuda
