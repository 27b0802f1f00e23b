// SPDX-License-Identifier: Apache-2.0
// Loaders of implicit GEMM on operands in place: two threads that have TMA load x and w to shared
// memory. The one for x also takes the tasks and hands them on. In a cluster each block has its
// share of every stage of x multicast to all.
#pragma once

#include "tasks/implicit_gemm/cuda/in_place_shape.cuh"

namespace megaconv::cuda {

/// Shape: an InPlaceShape.
template <class Shape>
class InPlaceLoaders : Shape {
  using Shape::kAbreast, Shape::kConverts, Shape::kConvertsRows, Shape::kLoadsTogether;
  using Shape::kSplitsRows;
  using typename Shape::Course, typename Shape::FilterRing, typename Shape::InputRing;
  using typename Shape::Shared, typename Shape::Turns, typename Shape::Walk;

 public:
  /// One thread: takes the tasks, and loads their x. wait() comes before every load, as late as can
  /// be: the first time it waits for the kernel before, and what is computed until then is for
  /// free.
  template <class Source, class Wait>
  static __device__ void load_input(const TaskArgs& a, Source& source, const Shared& shared,
                                    Wait wait) {
    InputCursor stage;
    Turns turns(shared.cluster);
    if (source.has_only()) {
      load_input(a, Walk(a, source.first()), stage, turns, shared, wait);
      return;
    }
    TaskStream& tasks = shared.barriers.tasks;
    TaskStream::Cursor at;
    for (TakenTask* task; task = tasks.room(at), source.next(*task);) {
      const Walk walk(a, task->task);
      tasks.hand_on(at);
      source.before_tma();
      load_input(a, walk, stage, turns, shared, wait);
    }
    tasks.end(at);
  }

  /// One thread: loads the filters of all tasks. wait() comes before every load.
  template <class Source, class Wait>
  static __device__ void load_filters(const TaskArgs& a, const Course& course, const Source& source,
                                      const Shared& shared, Wait wait) {
    typename FilterRing::Cursor at;
    const auto load = [&](const Walk& walk) {
      load_taps(a, walk.first_k, course.keeps_filters ? 1 : walk.num_tiles, at, shared, wait);
    };
    if (source.has_only()) return load(Walk(a, source.first()));
    TaskReader<Source> tasks(shared.barriers.tasks, source);
    bool has_all = false;
    for (Task task; tasks.next(task); tasks.advance()) {
      const Walk walk(a, task);
      tasks.leave();
      source.before_tma();
      if (!has_all) load(walk);
      has_all = course.keeps_them_all;
    }
  }

 private:
  // Where the loader of x is: at a piece or at a stage.
  using InputCursor = std::conditional_t<kConverts, typename StageRing<kPieces>::Cursor,
                                         typename InputRing::Cursor>;

  // Of the first of the taps whose input is loaded at a time: columns and rows from the first
  // tap's.
  struct TapOffset {
    int cols = 0, rows = 0;
    const int cols_step, end_cols, rows_step, end_rows;
    __device__ explicit TapOffset(const TaskArgs& a)
        : cols_step(a.cols_at_once * a.dilation_w),
          end_cols(a.s * a.dilation_w),
          rows_step(a.rows_at_once * a.dilation_h),
          end_rows(a.r * a.dilation_h) {}
    /// To the next one. False behind the last, and it is the first again.
    __device__ bool advance() {
      cols += cols_step;
      if (cols < end_cols) return true;
      cols = 0, rows += rows_step;
      if (rows < end_rows) return true;
      rows = 0;
      return false;
    }
  };

  // How TMA loads a stage: by itself, a share of it for all blocks of a cluster, or as a box of
  // images abreast. Of each, a loop has as few instructions as can be: where tiles are small, the
  // products wait for this thread.
  enum class Way { alone, together, abreast };

  template <class Wait>
  static __device__ void load_input(const TaskArgs& a, const Walk& walk, InputCursor& at,
                                    Turns& turns, const Shared& shared, Wait wait) {
    if constexpr (kConverts) {
      load_floats(a, walk, at, turns, shared);
    } else if (kAbreast && a.stripes.images > 1) {
      load_stages<Way::abreast>(a, walk, at, shared, wait);
    } else if (kLoadsTogether && shared.cluster.size() > 1) {
      load_stages<Way::together>(a, walk, at, shared, wait);
    } else {
      load_stages<Way::alone>(a, walk, at, shared, wait);
    }
  }

  template <Way kWay, class Wait>
  static __device__ void load_stages(const TaskArgs& a, const Walk& walk, InputCursor& at,
                                     const Shared& shared, Wait wait) {
    auto& ring = shared.barriers.input;
    const Stripes& s = a.stripes;
    Stripes::Position next_tile{};
    if (walk.num_tiles > 1) next_tile = s.position_below(a.tile_places);
    const auto num_bytes = static_cast<std::uint32_t>(
        input_bytes_in_place(a.input_places, shared.row_bytes, Shape::kOperands));
    const int blocks = shared.cluster.size();
    const int own_place =
        kWay == Way::together ? a.input_places / blocks * shared.cluster.rank() : 0;
    Stripes::Position start = s.position_below(walk.first_place + own_place);
    const int first_c = a.groups == 1 ? 0 : walk.first_k / a.filters_at_once * a.channels_at_once;
    TapOffset tap(a);
    for (int tile = 0; tile < walk.num_tiles; ++tile, start = s.sum(start, next_tile)) {
      const int first_row = (walk.first_place + tile * a.tile_places) / s.row();
      PixelWalk pixels{.channel = first_c + shared.first_k_block * a.k_block_channels,
                       .col = start.col * a.stride_w - a.pad_w,
                       .row = start.row * a.stride_h - a.pad_h,
                       .image = start.image};
      for (int left = shared.end_k_block - shared.first_k_block; left > 0; --left) {
        do {
          ring.wait_empty(at);
          std::byte* const x =
              shared.x + at.stage * shared.input_bytes + own_place * shared.row_bytes;
          std::uint64_t* const barrier = ring.expect(at, num_bytes);
          pixels.cols_on = tap.cols, pixels.rows_on = tap.rows;
          wait();
          if constexpr (kWay == Way::abreast) {
            copy_box(x, a.x_tensors[0],
                     {pixels.channel, -a.pad_w, walk.stripe * s.images, first_row - a.pad_h},
                     barrier);
          } else {
            const auto copy = [&](std::byte* to, const PixelWalk& from) {
              kWay == Way::together ? multicast_pixels(to, a.x_tensors[0], from, barrier, blocks)
                                    : copy_pixels(to, a.x_tensors[0], from, barrier);
            };
            copy(x, pixels);
            if constexpr (kConvertsRows && !kSplitsRows) {  // a K block of floats is two rows
              PixelWalk second = pixels;
              second.channel += a.k_block_channels / 2;
              copy(x + a.input_places * shared.row_bytes, second);
            }
          }
          at.advance(shared.input_stages);
        } while (tap.advance());
        pixels.channel += a.k_block_channels;
      }
    }
  }

  // All taps of the filters from `first_k` on, so many times.
  template <class Wait>
  static __device__ void load_taps(const TaskArgs& a, int first_k, int times,
                                   typename FilterRing::Cursor& at, const Shared& shared,
                                   Wait wait) {
    auto& ring = shared.barriers.filter;
    for (; times > 0; --times) {
      for (int k_block = shared.first_k_block; k_block < shared.end_k_block; ++k_block) {
        const int c = k_block * a.k_block_channels * (kSplitsRows ? 2 : 1);  // in numbers
        for (int tap = 0; tap < a.r * a.s; ++tap) {
          ring.wait_empty(at);
          std::uint64_t* const barrier =
              ring.expect(at, static_cast<std::uint32_t>(shared.tap_bytes));
          wait();
          copy_box(shared.u + at.stage * shared.tap_bytes, a.w_tensor, {c, first_k, tap}, barrier);
          at.advance(shared.filter_stages);
        }
      }
    }
  }

  static __device__ void load_floats(const TaskArgs& a, const Walk& walk, InputCursor& at,
                                     Turns& turns, const Shared& shared) {
    const Stripes::Position next_tile = a.stripes.position(a.tile_places);
    const Stripes::Position next_piece = a.stripes.position(kPiecePlaces);
    Stripes::Position start = a.stripes.position(walk.first_place);
    TapOffset tap(a);
    for (int tile = 0; tile < walk.num_tiles; ++tile, start = a.stripes.sum(start, next_tile)) {
      for (int k_block = 0; k_block < a.k_blocks; ++k_block) {
        do {
          load_pieces(a, walk.stripe, k_block * a.k_block_channels, start, next_piece, tap, at,
                      turns, shared);
        } while (tap.advance());
      }
    }
  }
  // A stage of input as floats, from the padded pixel at `start` on.
  static __device__ void load_pieces(const TaskArgs& a, int stripe, int c, Stripes::Position start,
                                     const Stripes::Position& next, const TapOffset& tap,
                                     StageRing<kPieces>::Cursor& at, Turns& turns,
                                     const Shared& shared) {
    auto& ring = shared.barriers.pieces;
    const int padding = stripe == 0 ? a.pad_w : 0;  // in front of the stripe's columns of x
    const int places = a.input_places;
    int own_place = turns.first;
    for (int place = 0; place < places; place += kPiecePlaces, start = a.stripes.sum(start, next)) {
      if (place != own_place) continue;
      own_place += turns.step;
      for (int part = 0; part < a.k_block_channels; part += kPieceChannels) {
        ring.wait_empty(at);
        copy_pixels(shared.pieces + at.stage * kPieceBytes, a.x_tensors[stripe],
                    {c + part, start.col * a.stride_w - padding, start.row * a.stride_h - a.pad_h,
                     start.image, tap.cols, tap.rows},
                    ring.expect(at, kPieceBytes));
        at.advance(shared.num_pieces);
      }
    }
    turns.go_on(own_place, places);
  }
};

}  // namespace megaconv::cuda
