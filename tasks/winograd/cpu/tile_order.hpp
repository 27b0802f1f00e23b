// SPDX-License-Identifier: Apache-2.0
// Where the tiles of a task group are among the rows of V and M.
//
// The last tiles of lines may be edge tiles (winograd_matrices.hpp), which need fewer positions.
// They have rows of their own, so that the rows that need a position are neighbours:
//
//   ends of rows | whole tiles | ends of columns | corners
//
// Each part has its tiles in the order of the group. Computed out of line, as extents.hpp says.
#pragma once

#include <cstddef>
#include <cstdint>

#include "megaconv/tiling.hpp"

namespace megaconv::cpu {

class TileOrder {
 public:
  TileOrder(const Tiling& tiling, std::uint32_t group);

  struct Rows {
    std::ptrdiff_t first, last;
  };
  /// The rows that need a position.
  Rows rows_of(std::ptrdiff_t position) const;

  /// Tiles of a row of them, neighbours in x, y, V and M, with equally many outputs.
  struct Run {
    std::ptrdiff_t image, tile_row, tile_col, count;
    std::ptrdiff_t row;                   ///< of V and M
    std::ptrdiff_t outputs_h, outputs_w;  ///< of each of the tiles
  };
  /// From the group's `tile` on, at most so many.
  Run run(std::ptrdiff_t tile, std::ptrdiff_t max_tiles) const;

 private:
  enum Part { kRowEnds, kWhole, kColumnEnds, kCorners, kNumParts };
  struct Counts {
    std::ptrdiff_t of[kNumParts];
  };
  Counts tiles_before(std::ptrdiff_t tile) const;  ///< of all images

  std::ptrdiff_t tile_h_, tile_w_;  ///< outputs
  std::ptrdiff_t alpha_w_, tiles_h_, tiles_w_;
  std::ptrdiff_t last_h_, last_w_;           ///< outputs of the last tiles
  std::ptrdiff_t whole_h_, whole_w_;         ///< tiles that are no edge tiles
  std::uint32_t positions_h_, positions_w_;  ///< bits: those that edge tiles need
  std::ptrdiff_t first_tile_;
  Counts before_;                            ///< tiles of the groups before
  std::ptrdiff_t first_row_[kNumParts + 1];  ///< of each part
};

}  // namespace megaconv::cpu
