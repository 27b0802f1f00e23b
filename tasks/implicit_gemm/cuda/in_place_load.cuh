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
  using Shape::kAbreast, Shape::kConverts, Shape::kFilterStages, Shape::kLoadsTogether;
  using Shape::kMostInputStages;
  using typename Shape::Course, typename Shape::Shared, typename Shape::Turns, typename Shape::Walk;

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
      load_input(a, Walk(a, source.only()), stage, turns, shared, wait);
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
    TaskReader<Source> tasks(shared.barriers.tasks, source);
    auto& ring = shared.barriers.filter;
    typename StageRing<kFilterStages>::Cursor at;
    bool has_all = false;
    for (Task task; tasks.next(task); tasks.advance()) {
      const Walk walk(a, task);
      tasks.leave();
      source.before_tma();
      const int times = has_all ? 0 : course.keeps_filters ? 1 : walk.num_tiles;
      has_all = course.keeps_them_all;
      for (int i = 0; i < times; ++i) {
        for (int k_block = shared.first_k_block; k_block < shared.end_k_block; ++k_block) {
          const int c = k_block * a.k_block_channels;
          for (int tap = 0; tap < a.r * a.s; ++tap) {
            ring.wait_empty(at);
            std::uint64_t* const barrier =
                ring.expect(at, static_cast<std::uint32_t>(shared.tap_bytes));
            wait();
            copy_box(shared.u + at.stage * shared.tap_bytes, a.w_tensor, {c, walk.first_k, tap},
                     barrier);
            at.advance(shared.filter_stages);
          }
        }
      }
    }
  }

 private:
  // Where the loader of x is: at a piece or at a stage.
  using InputCursor = std::conditional_t<kConverts, typename StageRing<kPieces>::Cursor,
                                         typename StageRing<kMostInputStages>::Cursor>;

  // The first of the taps whose input is loaded at a time.
  struct TapOffset {
    int row = 0, col = 0;
    __device__ void advance(const TaskArgs& a) {
      col += a.cols_at_once;
      if (col == a.s) col = 0, row += a.rows_at_once;
    }
  };

  template <class Wait>
  static __device__ void load_input(const TaskArgs& a, const Walk& walk, InputCursor& at,
                                    Turns& turns, const Shared& shared, Wait wait) {
    const Stripes& s = a.stripes;
    Stripes::Position next_tile{};
    if (walk.num_tiles > 1) next_tile = s.position(a.tile_places);
    const Stripes::Position next_piece = s.position(kPiecePlaces);
    const auto num_bytes = static_cast<std::uint32_t>(a.input_places * shared.row_bytes);
    // Where this block's share of a stage begins, which it loads for the whole cluster.
    const BlockCluster& cluster = shared.cluster;
    const int own_place =
        kLoadsTogether && cluster.size() > 1 ? a.input_places / cluster.size() * cluster.rank() : 0;
    Stripes::Position tile_start = s.position(walk.first_place + own_place);
    const int first_c = a.groups == 1 ? 0 : walk.first_k / a.filters_at_once * a.channels_at_once;
    for (int tile = 0; tile < walk.num_tiles; ++tile, tile_start = s.sum(tile_start, next_tile)) {
      const int first_row =
          kAbreast && s.images > 1 ? (walk.first_place + tile * a.tile_places) / s.row() : 0;
      for (int k_block = shared.first_k_block; k_block < shared.end_k_block; ++k_block) {
        const int c = first_c + k_block * a.k_block_channels;
        for (TapOffset tap; tap.row < a.r; tap.advance(a)) {
          if constexpr (kConverts) {
            load_pieces(a, walk.stripe, c, tile_start, next_piece, tap, at, turns, shared);
          } else {
            auto& ring = shared.barriers.input;
            ring.wait_empty(at);
            std::byte* const x =
                shared.x + at.stage * shared.input_bytes + own_place * shared.row_bytes;
            std::uint64_t* const barrier = ring.expect(at, num_bytes);
            if (kAbreast && s.images > 1) {
              wait();
              copy_box(x, a.x_tensors[0],
                       {c, -a.pad_w, walk.stripe * s.images, first_row - a.pad_h}, barrier);
            } else {
              const PixelWalk pixels{c,
                                     tile_start.col * a.stride_w - a.pad_w,
                                     tile_start.row * a.stride_h - a.pad_h,
                                     tile_start.image,
                                     tap.col * a.dilation_w,
                                     tap.row * a.dilation_h};
              wait();
              if (kLoadsTogether && cluster.size() > 1) {
                multicast_pixels(x, a.x_tensors[0], pixels, barrier, cluster.size());
              } else {
                copy_pixels(x, a.x_tensors[0], pixels, barrier);
              }
            }
            at.advance(shared.input_stages);
          }
        }
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
                     start.image, tap.col * a.dilation_w, tap.row * a.dilation_h},
                    ring.expect(at, kPieceBytes));
        at.advance(shared.num_pieces);
      }
    }
    turns.go_on(own_place, places);
  }
};

}  // namespace megaconv::cuda
