// SPDX-License-Identifier: Apache-2.0
// Tiles of a small-tile implicit GEMM. Where its tasks pool, windows reach beyond their tile: they
// compute these outputs, too.
#include <algorithm>

#include "tasks/pooling/pooling.hpp"
#include "tasks/regions.hpp"
#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// More of them would be computed too often, or take a thread too long.
constexpr std::int64_t kMostWindow = 9;

TileAxis axis_of(std::uint64_t index, std::uint64_t tile, std::int64_t extent,
                 const std::optional<WindowAxis>& pool) {
  TileAxis axis;
  axis.own = {index * tile, std::min((index + 1) * tile, u64(extent))};
  axis.computed = axis.own;
  if (!pool) return axis;
  const std::uint64_t stride = u64(pool->stride), outputs = u64(pool->outputs);
  axis.pooled = {std::min(axis.own.begin / stride, outputs),
                 std::min(ceil_div(axis.own.end, stride), outputs)};
  if (axis.pooled.size() == 0) return axis;
  const Interval reached = pool->inputs_of(axis.pooled);
  axis.computed = {std::min(axis.own.begin, reached.begin), std::max(axis.own.end, reached.end)};
  return axis;
}

// Of a tile's outputs, with those that windows reach before and behind it.
std::int64_t computed_of(std::uint32_t tile, std::int64_t extent,
                         const std::optional<WindowAxis>& pool) {
  if (!pool) return tile;
  const std::int64_t behind = pool->extent - pool->pad - pool->stride;
  return std::min(extent, tile + pool->pad + std::max<std::int64_t>(behind, 0));
}

std::optional<WindowAxis> pool_rows(const SmallGemmCut& cut) {
  return cut.pool ? std::optional(rows_of(*cut.pool)) : std::nullopt;
}
std::optional<WindowAxis> pool_cols(const SmallGemmCut& cut) {
  return cut.pool ? std::optional(cols_of(*cut.pool)) : std::nullopt;
}

}  // namespace

TaskTile tile_of(const SmallGemmCut& cut, std::uint64_t group) {
  const ConvProblem& a = cut.problem;
  const std::uint64_t rows = cut.rows_per_group, cols = cut.cols_per_group;
  const std::uint64_t row_tiles = ceil_div(u64(a.p()), rows),
                      col_tiles = ceil_div(u64(a.q()), cols);
  return {.image = group / col_tiles / row_tiles,
          .rows = axis_of(group / col_tiles % row_tiles, rows, a.p(), pool_rows(cut)),
          .cols = axis_of(group % col_tiles, cols, a.q(), pool_cols(cut))};
}

std::int64_t computed_rows(const SmallGemmCut& cut) {
  return computed_of(cut.rows_per_group, cut.problem.p(), pool_rows(cut));
}
std::int64_t computed_cols(const SmallGemmCut& cut) {
  return computed_of(cut.cols_per_group, cut.problem.q(), pool_cols(cut));
}
std::int64_t computed_pixels(const SmallGemmCut& cut) {
  return computed_rows(cut) * computed_cols(cut);
}

bool has_all_residuals(const SmallGemmCut& cut) {
  const std::int64_t own = std::int64_t{cut.rows_per_group} * cut.cols_per_group;
  return !cut.problem.epilogue.residual || computed_pixels(cut) == own;
}

// Every pooled output begins in a tile.
bool can_pool(const ConvProblem& a, const PoolProblem& pool) {
  constexpr std::int64_t kVector = 4;  // of an epilogue
  const auto begins_inside = [](const WindowAxis& axis) {
    return axis.outputs <= ceil_div(axis.inputs, axis.stride);
  };
  const bool is_whole = pool.p() * pool.q() == 1;
  return pool.layout == a.layout && pool.dtype == a.dtype && pool.n == a.n && pool.c == a.k &&
         pool.h == a.p() && pool.w == a.q() && a.k % kVector == 0 &&
         (is_whole || pool.r * pool.s <= kMostWindow) && begins_inside(rows_of(pool)) &&
         begins_inside(cols_of(pool));
}

}  // namespace megaconv
