// SPDX-License-Identifier: Apache-2.0
// A fused task takes the tiles of its group through all stages.
#include "tasks/conv_graph.hpp"
#include "tasks/tiling.hpp"
#include "tasks/winograd/winograd.hpp"

namespace megaconv {

AccessFunction fused_winograd_accesses(const Tiling& tiling, const NodeBuffers& buffers) {
  return [tiling, cut = std::get<FusedWinogradCut>(tiling.cut), buffers](
             Role role, std::uint32_t group, std::uint32_t block, std::vector<Access>& accesses) {
    if (role == Role::prepare) {
      return append_filter_task(tiling, buffers, block, accesses);
    }
    accesses.push_back({buffers.u, Mode::read, u_extent(tiling)});
    std::vector<Region> boxes;
    append_tile_boxes(tiling.problem, cut, tiles_of_group(cut, group), boxes);
    append_pixels(tiling, buffers, boxes, {0, u64(tiling.problem.k)}, accesses);
  };
}

}  // namespace megaconv
