// SPDX-License-Identifier: Apache-2.0
// What the tasks of Winograd's stages read and write. V and M are runs of tiles.
#include <algorithm>

#include "tasks/conv_graph.hpp"
#include "tasks/regions.hpp"
#include "tasks/tiling.hpp"
#include "tasks/winograd/winograd.hpp"

namespace megaconv {
namespace {

// The `part`-th of a group's tiles that a transform task has.
Interval tiles_of_part(const Tiling& tiling, std::uint32_t group, std::uint64_t part) {
  const Interval all = tiles_of_group(tiling, group);
  const std::uint64_t per_task = tiling.tiles_per_transform_task;
  const std::uint64_t begin = std::min(all.begin + part * per_task, all.end);
  return {begin, std::min(begin + per_task, all.end)};
}

// [chunk * per_task, + per_task) of `total`.
Interval share(std::uint64_t chunk, std::uint64_t per_task, std::uint64_t total) {
  return {chunk * per_task, std::min((chunk + 1) * per_task, total)};
}

class Accesses {
 public:
  Accesses(const Tiling& tiling, const NodeBuffers& buffers)
      : tiling_(tiling), buffers_(buffers), positions_{0, tiling.num_positions()} {}

  void operator()(Role role, std::uint32_t group, std::uint32_t block,
                  std::vector<Access>& accesses) const {
    switch (role) {
      case Role::prepare:
        accesses.push_back({buffers_.w, Mode::read, filter_task_region(tiling_, block)});
        accesses.push_back({buffers_.u, Mode::write, filter_task_region(tiling_, block)});
        return;
      case Role::input:
        return list_input(group, block, accesses);
      case Role::product:
        return list_product(group, block, accesses);
      case Role::output:
        return list_output(group, block, accesses);
    }
  }

 private:
  void list_input(std::uint32_t group, std::uint32_t block, std::vector<Access>& accesses) const {
    const Interval tiles = tiles_of_part(tiling_, group, block % tiling_.tile_chunks());
    const Interval channels =
        share(block / tiling_.tile_chunks(), tiling_.channel_blocks_per_input_task,
              tiling_.channel_blocks());
    std::vector<Region> boxes;
    append_tile_boxes(tiling_, tiles_of_group(tiling_, group), boxes);
    for (const Region& box : boxes) {
      const ConvProblem& a = tiling_.problem;
      accesses.push_back({buffers_.x,
                          Mode::read,
                          {.rows = rows_of(a).inputs_of_images(box.rows),
                           .cols = cols_of(a).inputs_of(box.cols),
                           .channels = {0, u64(a.c)}}});
    }
    accesses.push_back(
        {buffers_.v, Mode::write, {.rows = tiles, .channels = channels, .positions = positions_}});
  }

  void list_product(std::uint32_t group, std::uint32_t block, std::vector<Access>& accesses) const {
    const Interval tiles = tiles_of_group(tiling_, group);
    const std::uint64_t chunks =
        ceil_div(positions_.end, std::uint64_t{tiling_.positions_per_gemm_task});
    accesses.push_back({buffers_.u, Mode::read, u_extent(tiling_)});
    accesses.push_back(
        {buffers_.v,
         Mode::read,
         {.rows = tiles, .channels = {0, tiling_.channel_blocks()}, .positions = positions_}});
    accesses.push_back(
        {buffers_.m,
         Mode::write,
         {.rows = tiles,
          .channels =
              share(block / chunks, tiling_.filter_blocks_per_gemm_task, tiling_.filter_blocks()),
          .positions = share(block % chunks, tiling_.positions_per_gemm_task, positions_.end)}});
  }

  void list_output(std::uint32_t group, std::uint32_t block, std::vector<Access>& accesses) const {
    const Interval tiles = tiles_of_part(tiling_, group, block % tiling_.tile_chunks());
    const Interval blocks = share(block / tiling_.tile_chunks(),
                                  tiling_.filter_blocks_per_output_task, tiling_.filter_blocks());
    const Interval filters = channels_of_filter_blocks(tiling_, blocks.begin, blocks.end);
    accesses.push_back({buffers_.m,
                        Mode::read,
                        {.rows = tiles_of_group(tiling_, group),
                         .channels = {0, tiling_.filter_blocks()},
                         .positions = positions_}});
    std::vector<Region> boxes;
    append_tile_boxes(tiling_, tiles, boxes);
    for (Region box : boxes) {
      box.channels = filters;
      accesses.push_back({buffers_.y, Mode::write, box});
    }
    if (buffers_.residual == kNoBuffer) return;
    boxes.clear();
    append_tile_boxes(tiling_, tiles_of_group(tiling_, group), boxes);
    for (Region box : boxes) {
      box.channels = {0, u64(tiling_.problem.k)};
      accesses.push_back({buffers_.residual, Mode::read, box});
    }
  }

  const Tiling tiling_;
  const NodeBuffers buffers_;
  const Interval positions_;
};

}  // namespace

Interval tiles_of_group(const Tiling& tiling, std::uint32_t group) {
  const std::uint64_t begin = std::uint64_t{group} * tiling.group_tiles;
  return {begin, std::min(begin + tiling.group_tiles, tiling.num_tiles())};
}

void append_tile_boxes(const Tiling& tiling, const Interval& tiles, std::vector<Region>& boxes) {
  const ConvProblem& a = tiling.problem;
  append_boxes({.points = tiling.tiles_w,
                .lines = tiling.tiles_h,
                .line_rows = tiling.m,
                .point_cols = tiling.m,
                .rows = u64(a.p()),
                .cols = u64(a.q()),
                .images = u64(a.n)},
               tiles, boxes);
}

AccessFunction winograd_accesses(const Tiling& tiling, const NodeBuffers& buffers) {
  return Accesses(tiling, buffers);
}

}  // namespace megaconv
