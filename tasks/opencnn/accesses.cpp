// SPDX-License-Identifier: Apache-2.0
// A group of openCNN's tasks has 32 tiles: neighbours, or in chwn the same tile of 32 images.
#include <algorithm>

#include "tasks/conv_graph.hpp"
#include "tasks/opencnn/opencnn_blocking.hpp"
#include "tasks/tiling.hpp"
#include "tasks/winograd/winograd.hpp"

namespace megaconv {
namespace {

// All groups of one tile, which have 32 images each, then those of the next.
void append_boxes_of_images(const ConvProblem& problem, const OpencnnCut& cut, std::uint64_t group,
                            std::vector<Region>& boxes) {
  const std::uint64_t places = std::uint64_t{cut.tiles_h} * cut.tiles_w;
  const std::uint64_t images = u64(problem.n), per_group = opencnn::kTiles;
  const std::uint64_t groups_of_place = ceil_div(images, per_group);
  const std::uint64_t first = group % groups_of_place * per_group;
  for (std::uint64_t image = first; image < std::min(first + per_group, images); ++image) {
    const std::uint64_t tile = image * places + group / groups_of_place;
    append_tile_boxes(problem, cut, {tile, tile + 1}, boxes);
  }
}

}  // namespace

AccessFunction opencnn_accesses(const Tiling& tiling, const NodeBuffers& buffers) {
  return [tiling, cut = std::get<OpencnnCut>(tiling.cut), buffers](
             Role role, std::uint32_t group, std::uint32_t block, std::vector<Access>& accesses) {
    const Region all = u_extent(tiling);
    if (role == Role::prepare) {
      const std::uint64_t c = block % all.channels.end, k = block / all.channels.end;
      const Region part{.channels = {c, c + 1}, .positions = {k, k + 1}};
      accesses.push_back({buffers.w, Mode::read, part});
      accesses.push_back({buffers.u, Mode::write, part});
      return;
    }
    accesses.push_back({buffers.u, Mode::read, all});
    std::vector<Region> boxes;
    if (tiling.problem.layout == Layout::chwn) {
      append_boxes_of_images(tiling.problem, cut, group, boxes);
    } else {
      append_tile_boxes(tiling.problem, cut, tiles_of_group(cut, group), boxes);
    }
    const std::uint64_t first = std::uint64_t{block} * opencnn::kFilters;
    append_pixels(
        tiling, buffers, boxes,
        {first, std::min<std::uint64_t>(first + opencnn::kFilters, u64(tiling.problem.k))},
        accesses);
  };
}

}  // namespace megaconv
