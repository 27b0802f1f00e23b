// SPDX-License-Identifier: Apache-2.0
// Storers of implicit GEMM on operands in place: a warp for each consumer warpgroup, which stores
// its outputs to y while the next tile is multiplied. A residual they load before, to where the
// consumers will put their outputs. Where padded pixels are the pixels of y in order, as in 1x1
// layers, a share is one box for TMA, and so is its residual. Of a convolution that pools they
// store the largest outputs of each 2x2, which both warps' shares of a tile may have.
#pragma once

#include <cuda_pipeline.h>

#include "tasks/implicit_gemm/cuda/in_place_pool.cuh"
#include "tasks/implicit_gemm/cuda/in_place_shape.cuh"

namespace megaconv::cuda {

/// Shape: an InPlaceShape.
template <class Shape>
class InPlaceStorers : Shape {
  using Shape::first_filter_of, Shape::first_output_of, Shape::first_place_of;
  using Shape::kAbreast, Shape::kGroupsOfPlaces, Shape::kOperands, Shape::kRowFilters, Shape::kRows;
  using Shape::kStorers, Shape::kVectorFilters, Shape::kVectors, Shape::kWide;
  using Shape::permuted, Shape::sync_storers;
  using typename Shape::OutputCursor, typename Shape::OutputRow;
  using typename Shape::Shared, typename Shape::Stored, typename Shape::Walk;

 public:
  /// A warp: outputs of a warpgroup's share of each tile. TMA takes them in boxes of some columns
  /// of a row, which it cuts where the row ends. What is left where a share, or a stripe, begins or
  /// ends amid a row is stored by threads, a vector each.
  template <class Source, class Wait>
  static __device__ void store_outputs(const TaskArgs& a, int warpgroup, const Source& source,
                                       const Shared& shared, Wait wait) {
    OutputCursor output(a);
    Shape::store_tasks(source, shared, [&](const Task& task) {
      store_task(a, Walk(a, task), warpgroup, output, shared, wait);
    });
  }

 private:
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
        row += line;
        image += row / s.period;
        row = row % s.period;
        col += stripe * s.cols;
      }
      const bool exists = row < a.p && image < a.n;
      cols = exists ? max(min(a.q, (stripe + 1) * s.cols) - col, 0) : 0;
    }
    /// Columns that boxes hold, of a share of so many padded pixels: whole boxes, or all to the
    /// row's end; none, if TMA cannot store y.
    __device__ int in_boxes(const TaskArgs& a, int places) const {
      if (a.output_cols == 0) return 0;
      if (first + cols <= places && col + cols == a.q) return cols;
      return min(cols, places - first) / a.output_cols * a.output_cols;
    }
    __device__ int pixel(const TaskArgs& a) const { return (image * a.p + row) * a.q + col; }
  };

  static constexpr bool kPools = are_tensors(kOperands) && !kWide;

  template <class Wait>
  static __device__ void store_task(const TaskArgs& a, const Walk& walk, int warpgroup,
                                    OutputCursor& output, const Shared& shared, Wait wait) {
    if (kPools && a.pools) {  // a task is a tile
      for (auto& share : shared.barriers.output) share.wait_full(output.at);
      store_pooled(a, walk, shared.outputs);
      sync_storers();
      give_back(output, warpgroup, shared);
    } else if (kWide || a.in_order) {  // wide tiles are for nothing else
      store_in_order(a, walk, warpgroup, output, shared, wait);
    } else {
      store_lines(a, walk, warpgroup, output, shared, wait);
    }
  }
  // What lay in a stage has been read.
  static __device__ void give_back(OutputCursor& output, int warpgroup, const Shared& shared) {
    if (threadIdx.x % 32 == 0) shared.barriers.output[warpgroup].arrive_empty(output.at.stage);
    output.advance();
  }

  // Padded pixels are the pixels of y in order: a share of a tile is a box, which TMA cuts where y
  // ends. So is a part of it.
  template <class Wait>
  static __device__ void store_in_order(const TaskArgs& a, const Walk& walk, int warpgroup,
                                        OutputCursor& output, const Shared& shared, Wait wait) {
    auto& ring = shared.barriers.output[warpgroup];
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int first_k = walk.first_k + first_filter_of(warpgroup);
    const bool in_parts = output.in_parts();
    const int width = in_parts ? kColumnsOfPart : a.tile_places / kGroupsOfPlaces;
    const int step = in_parts ? kColumnsOfPart : a.tile_places;
    const int pitch = kWide ? width : a.tile_places;  // from kRowFilters to the next
    OutputRow* const stages = shared.outputs + output.stages * first_output_of(warpgroup, width);
    const int end = walk.first_place + walk.num_tiles * a.tile_places;
    for (int own = walk.first_place; own < end; own += step) {
      const int first = own + first_place_of(warpgroup, width);
      const int places = first_k < a.k ? min(width, walk.end_place - first) : 0;
      const bool is_box = places == width || first + places == a.places;
      OutputRow* const outputs = stages + output.at.stage * (kRows * width);
      if (a.residual != nullptr) {
        wait();
        auto& residual = shared.barriers.residual[warpgroup];
        if (!is_box) {
          load_residual(a, first_k, first, 0, places, outputs);
          finish_loads();
          if (lane == 0) residual.arrive_full(0);
        } else if (is_elected()) {
          const bool goes_on = own + a.tile_places < walk.end_place;
          std::uint64_t* const barrier =
              residual.expect(output.residual(), kRows * width * sizeof(OutputRow));
          load_residual_box(a, first_k, first, goes_on, outputs, barrier);
        }
      }
      ring.wait_full(output.at);
      if (is_box && a.output_cols != 0) {
        if (is_elected() && places > 0) {
          const std::int32_t to[] = {first_k, first, 0, 0};
          store_box(a, to, outputs, pitch);
        }
      } else {
        store_by_threads(a, first_k, first, outputs, 0, 0, places, pitch);
      }
      finish_boxes();
      give_back(output, warpgroup, shared);
    }
  }

  // Rows of y, which stripes may cut, and gaps between them.
  template <class Wait>
  static __device__ void store_lines(const TaskArgs& a, const Walk& walk, int warpgroup,
                                     OutputCursor& output, const Shared& shared, Wait wait) {
    auto& ring = shared.barriers.output[warpgroup];
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int width = a.tile_places / kGroupsOfPlaces;
    OutputRow* const outputs = shared.outputs + first_output_of(warpgroup, width);
    for (int tile = 0; tile < walk.num_tiles; ++tile) {
      const int first = walk.first_place + tile * a.tile_places + first_place_of(warpgroup, width);
      const int places = walk.first_k < a.k ? min(width, walk.end_place - first) : 0;
      const Stripes::Position start = a.stripes.position(first);
      const int last = (start.col + places - 1) / a.stripes.pitch;
      const auto run_of = [&](int line) { return Run(a, walk.stripe, start, line); };
      if (a.residual != nullptr) {
        wait();
        for (int line = 0; line <= last && places > 0; ++line) {
          const Run run = run_of(line);
          load_residual(a, walk.first_k, run.pixel(a), run.first, min(run.cols, places - run.first),
                        outputs);
        }
        finish_loads();
        if (lane == 0) shared.barriers.residual[warpgroup].arrive_full(0);
      }
      Run run = run_of(lane);  // there before it is asked for
      int cols = run.in_boxes(a, places);
      ring.wait_full(output.at);
      for (int line = lane; line <= last && places > 0; line += 32) {
        if (line != lane) {
          run = run_of(line);
          cols = run.in_boxes(a, places);
        }
        for (int i = 0; i < cols; i += a.output_cols) {
          const std::int32_t to[] = {walk.first_k, run.col + i, run.row, run.image};
          store_box(a, to, outputs + run.first + i, a.tile_places);
        }
      }
      if (places > 0) {
        const bool all_but_last = a.output_cols != 0 && a.stripes.cols >= a.q;  // are in boxes
        for (int line = all_but_last ? last : 0; line <= last; ++line) {
          const Run run = run_of(line);
          store_by_threads(a, walk.first_k, run.pixel(a), outputs, run.first,
                           run.in_boxes(a, places), min(run.cols, places - run.first),
                           a.tile_places);
        }
      }
      finish_boxes();
      give_back(output, warpgroup, shared);
    }
  }

  // By one thread: to where the first filter's box begins.
  static __device__ void store_box(const TaskArgs& a, const std::int32_t (&first)[4],
                                   const OutputRow* outputs, int pitch) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const std::int32_t to[] = {first[0] + row * kRowFilters, first[1], first[2], first[3]};
      ::cuda::ptx::cp_async_bulk_tensor(::cuda::ptx::space_global, ::cuda::ptx::space_shared,
                                        &a.y_tensor, to, outputs + row * pitch);
    }
  }
  // By all threads of a warp: until TMA has read the boxes that they have stored.
  static __device__ void finish_boxes() {
    ::cuda::ptx::cp_async_bulk_commit_group();
    ::cuda::ptx::cp_async_bulk_wait_group_read(::cuda::ptx::n32_t<0>());
    __syncwarp();
  }
  static __device__ void finish_loads() {
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncwarp();
  }
  // By both warps: of a tile, which is whole windows. A thread has a vector of some of them.
  static __device__ void store_pooled(const TaskArgs& a, const Walk& walk,
                                      const OutputRow* outputs) {
    const int thread = static_cast<int>(threadIdx.x) % kStorers, vector = thread % kVectors;
    const int pitch = a.stripes.pitch, first_row = walk.first_place / a.stripes.pitch;
    const int end_row = min(walk.end_place / a.stripes.pitch, a.p);
    const int cols = a.q / 2, pooled = (end_row - first_row) / 2 * cols;  // negative below y
#pragma unroll
    for (int row = 0; row < kRows; ++row, outputs += a.tile_places) {
      const int k = walk.first_k + row * kRowFilters + vector * kVectorFilters;
      if (k >= a.k) continue;
      auto* const y = reinterpret_cast<Stored*>(a.y) + k +
                      static_cast<std::int64_t>(first_row / 2) * cols * a.k;
      int window = thread / kVectors, col = window, place = 2 * col;
#pragma unroll 2
      for (; window < pooled; window += kStorers / kVectors) {
        for (; col >= cols; col -= cols) place += 2 * (pitch - cols);
        const auto number = [&](int at) { return outputs[at][permuted(at, vector)]; };
        *reinterpret_cast<uint4*>(y + static_cast<std::int64_t>(window) * a.k) = largest<Stored>(
            number(place), number(place + 1), number(place + pitch), number(place + pitch + 1));
        col += kStorers / kVectors;
        place += 2 * (kStorers / kVectors);
      }
    }
  }
  // By one thread: of a share that is a box. That of the next tile comes to the L2 cache meanwhile.
  static __device__ void load_residual_box(const TaskArgs& a, int first_k, int first_place,
                                           bool has_next, OutputRow* outputs,
                                           std::uint64_t* barrier) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const std::int32_t from[] = {first_k + row * kRowFilters, first_place, 0, 0};
      copy_box(outputs + row * a.tile_places, a.residual_tensor, from, barrier);
      if (has_next) {
        const std::int32_t next[] = {from[0], first_place + a.tile_places, 0, 0};
        prefetch_box(a.residual_tensor, next);
      }
    }
  }
  // By all threads of a warp: of `end` pixels from `pixel` on, to rows from `first` on. Filters
  // come in whole vectors.
  static __device__ void load_residual(const TaskArgs& a, int first_k, int pixel, int first,
                                       int end, OutputRow* outputs) {
    const int lane = static_cast<int>(threadIdx.x) % 32, vector = lane % kVectors;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int k = first_k + row * kRowFilters + vector * kVectorFilters;
      if (k >= a.k) continue;
      const auto* const residual =
          reinterpret_cast<const Stored*>(a.residual) + static_cast<std::int64_t>(pixel) * a.k + k;
      for (int i = lane / kVectors; i < end; i += 32 / kVectors) {
        const int to = first + i;
        __pipeline_memcpy_async(&outputs[row * a.tile_places + to][permuted(to, vector)],
                                residual + static_cast<std::int64_t>(i) * a.k, sizeof(uint4));
      }
    }
  }
  // As many of a vector's filters as there are, so many at a time as a Part has.
  template <class Part>
  static __device__ void store_parts(Stored* to, const uint4* vector, int num_filters) {
    constexpr int kFilters = sizeof(Part) / sizeof(Stored);
#pragma unroll
    for (int i = 0; i < kVectorFilters / kFilters; ++i) {
      if (i * kFilters < num_filters) {
        reinterpret_cast<Part*>(to)[i] = reinterpret_cast<const Part*>(vector)[i];
      }
    }
  }
  // By all threads of a warp: of the pixels that begin with `pixel` those from `begin` to `end`;
  // the first one's outputs are in row `first`.
  static __device__ void store_by_threads(const TaskArgs& a, int first_k, int pixel,
                                          const OutputRow* outputs, int first, int begin, int end,
                                          int pitch) {
    const int lane = static_cast<int>(threadIdx.x) % 32, vector = lane % kVectors;
    const bool pairs = sizeof(Stored) < sizeof(std::uint32_t) && a.k % 2 == 0 &&
                       reinterpret_cast<std::uintptr_t>(a.y) % sizeof(std::uint32_t) == 0;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int k = first_k + row * kRowFilters + vector * kVectorFilters;
      if (k >= a.k) continue;
      auto* const y = reinterpret_cast<Stored*>(a.y) + static_cast<std::int64_t>(pixel) * a.k + k;
      for (int i = begin + lane / kVectors; i < end; i += 32 / kVectors) {
        const int from = first + i;
        const uint4* const four = &outputs[row * pitch + from][permuted(from, vector)];
        Stored* const to = y + static_cast<std::int64_t>(i) * a.k;
        if (a.output_cols != 0) {
          *reinterpret_cast<uint4*>(to) = *four;
        } else if (pairs) {
          store_parts<std::uint32_t>(to, four, a.k - k);
        } else {
          store_parts<Stored>(to, four, a.k - k);
        }
      }
    }
  }
};

}  // namespace megaconv::cuda
