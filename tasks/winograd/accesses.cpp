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
Interval tiles_of_part(const WinogradCut& cut, std::uint32_t group, std::uint64_t part) {
  const Interval all = tiles_of_group(cut, group);
  const std::uint64_t per_task = cut.tiles_per_transform_task;
  const std::uint64_t begin = std::min(all.begin + part * per_task, all.end);
  return {begin, std::min(begin + per_task, all.end)};
}

// [chunk * per_task, + per_task) of `total`.
Interval share(std::uint64_t chunk, std::uint64_t per_task, std::uint64_t total) {
  return {chunk * per_task, std::min((chunk + 1) * per_task, total)};
}

class WinogradAccesses {
 public:
  WinogradAccesses(const Tiling& tiling, const NodeBuffers& buffers)
      : tiling_(tiling),
        cut_(std::get<WinogradCut>(tiling.cut)),
        buffers_(buffers),
        positions_{0, cut_.num_positions()} {}

  void operator()(Role role, std::uint32_t group, std::uint32_t block,
                  std::vector<Access>& accesses) const {
    switch (role) {
      case Role::prepare:
        return append_filter_task(tiling_, buffers_, block, accesses);
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
    const Interval tiles = tiles_of_part(cut_, group, block % cut_.tile_chunks());
    const Interval channels = share(block / cut_.tile_chunks(), cut_.channel_blocks_per_input_task,
                                    tiling_.channel_blocks());
    std::vector<Region> boxes;
    append_tile_boxes(tiling_.problem, cut_, tiles_of_group(cut_, group), boxes);
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
    const Interval tiles = tiles_of_group(cut_, group);
    const std::uint64_t chunks =
        ceil_div(positions_.end, std::uint64_t{cut_.positions_per_gemm_task});
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
              share(block / chunks, cut_.filter_blocks_per_gemm_task, tiling_.filter_blocks()),
          .positions = share(block % chunks, cut_.positions_per_gemm_task, positions_.end)}});
  }

  void list_output(std::uint32_t group, std::uint32_t block, std::vector<Access>& accesses) const {
    const Interval tiles = tiles_of_part(cut_, group, block % cut_.tile_chunks());
    const Interval blocks = share(block / cut_.tile_chunks(), cut_.filter_blocks_per_output_task,
                                  tiling_.filter_blocks());
    const Interval filters = channels_of_filter_blocks(tiling_, blocks.begin, blocks.end);
    accesses.push_back({buffers_.m,
                        Mode::read,
                        {.rows = tiles_of_group(cut_, group),
                         .channels = {0, tiling_.filter_blocks()},
                         .positions = positions_}});
    std::vector<Region> boxes;
    append_tile_boxes(tiling_.problem, cut_, tiles, boxes);
    for (Region box : boxes) {
      box.channels = filters;
      accesses.push_back({buffers_.y, Mode::write, box});
    }
    if (buffers_.residual == kNoBuffer) return;
    boxes.clear();
    append_tile_boxes(tiling_.problem, cut_, tiles_of_group(cut_, group), boxes);
    for (Region box : boxes) {
      box.channels = {0, u64(tiling_.problem.k)};
      accesses.push_back({buffers_.residual, Mode::read, box});
    }
  }

  const Tiling tiling_;
  const WinogradCut cut_;
  const NodeBuffers buffers_;
  const Interval positions_;
};

}  // namespace

Interval tiles_of_group(const WinogradTiles& tiles, std::uint32_t group) {
  const std::uint64_t begin = std::uint64_t{group} * tiles.group_tiles;
  return {begin, std::min(begin + tiles.group_tiles, tiles.num_tiles)};
}

void append_tile_boxes(const ConvProblem& problem, const WinogradTiles& tiles, const Interval& run,
                       std::vector<Region>& boxes) {
  append_boxes({.points = tiles.tiles_w,
                .lines = tiles.tiles_h,
                .line_rows = tiles.rows(),
                .point_cols = tiles.cols(),
                .rows = u64(problem.p()),
                .cols = u64(problem.q()),
                .images = u64(problem.n)},
               run, boxes);
}

AccessFunction winograd_accesses(const Tiling& tiling, const NodeBuffers& buffers) {
  return WinogradAccesses(tiling, buffers);
}

}  // namespace megaconv
