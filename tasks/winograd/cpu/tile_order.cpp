// SPDX-License-Identifier: Apache-2.0
#include "tasks/winograd/cpu/tile_order.hpp"

#include <algorithm>

#include "tasks/cpu/extents.hpp"
#include "tasks/tiling.hpp"
#include "tasks/winograd/winograd.hpp"
#include "tasks/winograd/winograd_matrices.hpp"

namespace megaconv::cpu {
namespace {

template <int kOutputs>
std::uint32_t bits(const EdgeMatrices<kOutputs>& edge) {
  std::uint32_t set = 0;
  for (const int position : edge.position) set |= 1u << position;
  return set;
}

template <int kM, int kOutputs = kM - 1>
std::uint32_t edge_bits(std::ptrdiff_t outputs) {
  if constexpr (kOutputs > 1) {
    if (outputs < kOutputs) return edge_bits<kM, kOutputs - 1>(outputs);
  }
  return bits(edge_matrices<kM, kOutputs>(Points::low_error));
}

// The positions that the last tile needs, in a dimension where whole ones have `m` outputs and
// `alpha` positions.
std::uint32_t last_positions(const WinogradTiles& tiles, std::uint32_t m, std::uint32_t alpha,
                             std::ptrdiff_t outputs) {
  if (outputs == m) return (1u << alpha) - 1;
  if (tiles.stride == 2) return bits(strided_edge_matrices());
  return m == 2 ? edge_bits<2>(outputs) : m == 4 ? edge_bits<4>(outputs) : edge_bits<6>(outputs);
}

}  // namespace

TileOrder::TileOrder(const Tiling& tiling, std::uint32_t group) {
  const WinogradTiles& tiles = *tiling.tiles();
  tile_h_ = tiles.rows();
  tile_w_ = tiles.cols();
  alpha_w_ = tiles.alpha_w();
  tiles_h_ = tiles.tiles_h;
  tiles_w_ = tiles.tiles_w;
  last_h_ = last_tile_outputs(tiles, tiles.rows(), tiling.problem.p());
  last_w_ = last_tile_outputs(tiles, tiles.cols(), tiling.problem.q());
  whole_h_ = tiles_h_ - (last_h_ < tile_h_ ? 1 : 0);
  whole_w_ = tiles_w_ - (last_w_ < tile_w_ ? 1 : 0);
  positions_h_ = last_positions(tiles, tiles.rows(), tiles.alpha_h(), last_h_);
  positions_w_ = last_positions(tiles, tiles.cols(), tiles.alpha_w(), last_w_);
  const TileRange range(tiles, group);
  first_tile_ = range.first;
  before_ = tiles_before(range.first);
  const Counts end = tiles_before(range.first + range.count);
  first_row_[0] = 0;
  for (int part = 0; part < kNumParts; ++part) {
    first_row_[part + 1] = first_row_[part] + end.of[part] - before_.of[part];
  }
}

TileOrder::Counts TileOrder::tiles_before(std::ptrdiff_t tile) const {
  const std::ptrdiff_t images = tile / (tiles_h_ * tiles_w_);
  const std::ptrdiff_t row = tile / tiles_w_ % tiles_h_, col = tile % tiles_w_;
  const std::ptrdiff_t whole_rows = images * whole_h_ + std::min(row, whole_h_);
  const std::ptrdiff_t last_rows = images * (tiles_h_ - whole_h_);
  const std::ptrdiff_t ends = tiles_w_ - whole_w_, of_row = std::min(col, whole_w_);
  const bool in_whole_row = row < whole_h_;
  return {{whole_rows * ends, whole_rows * whole_w_ + (in_whole_row ? of_row : 0),
           last_rows * whole_w_ + (in_whole_row ? 0 : of_row), last_rows * ends}};
}

TileOrder::Rows TileOrder::rows_of(std::ptrdiff_t position) const {
  const bool needed_h = (positions_h_ >> (position / alpha_w_) & 1) != 0;
  const bool needed_w = (positions_w_ >> (position % alpha_w_) & 1) != 0;
  const Part first = needed_w ? kRowEnds : kWhole;
  const int end = !needed_h ? kColumnEnds : needed_w ? kNumParts : kCorners;
  return {first_row_[first], first_row_[end]};
}

TileOrder::Run TileOrder::run(std::ptrdiff_t tile, std::ptrdiff_t max_tiles) const {
  const std::ptrdiff_t number = first_tile_ + tile;
  Run run;
  run.image = number / (tiles_h_ * tiles_w_);
  run.tile_row = number / tiles_w_ % tiles_h_;
  run.tile_col = number % tiles_w_;
  const bool whole_h = run.tile_row < whole_h_, whole_w = run.tile_col < whole_w_;
  run.count = std::min((whole_w ? whole_w_ : tiles_w_) - run.tile_col, max_tiles);
  run.outputs_h = whole_h ? tile_h_ : last_h_;
  run.outputs_w = whole_w ? tile_w_ : last_w_;
  const Part part = whole_h ? (whole_w ? kWhole : kRowEnds) : whole_w ? kColumnEnds : kCorners;
  run.row = first_row_[part] + tiles_before(number).of[part] - before_.of[part];
  return run;
}

}  // namespace megaconv::cpu
