// SPDX-License-Identifier: Apache-2.0
// Convolutions of a network whose tasks store a pooling of y in its place. A group is a tile of
// whole windows, in whole rows.
#include <limits>

#include "tasks/implicit_gemm/implicit_gemm.hpp"
#include "tasks/pooling/pooling.hpp"

namespace megaconv {
namespace {

Stripes stripes_of(const ConvProblem& problem, const ImplicitGemmCut& cut) {
  return make_stripes(multiplied_problem(problem, cut.operands),
                      static_cast<std::int32_t>(cut.cols_per_group));
}

bool is_tile(const ConvProblem& problem, const ImplicitGemmCut& cut, const Stripes& stripes) {
  const ConvProblem multiplied = multiplied_problem(problem, cut.operands);
  const std::int32_t tile =
      tile_places_in_place(cut.places_per_group, stripes, cut.operands, multiplied.c);
  return tile >= static_cast<std::int32_t>(cut.places_per_group);
}

// Windows without overlaps that cover y, and nothing beside it.
bool halves_y(const ConvProblem& a, const PoolProblem& pool) {
  const auto is_pair = [](const WindowAxis& axis) {
    return axis.extent == kPooledPixels && axis.stride == kPooledPixels && axis.pad == 0 &&
           axis.inputs % kPooledPixels == 0;
  };
  return pool.mode == PoolMode::max && pool.n == a.n && pool.c == a.k && pool.h == a.p() &&
         pool.w == a.q() && pool.dtype == a.dtype && pool.layout == a.layout &&
         is_pair(rows_of(pool)) && is_pair(cols_of(pool));
}

}  // namespace

std::string pool_obstacle(const ConvProblem& a, const ImplicitGemmCut& cut) {
  constexpr std::int64_t kVector = 8;  // of filters
  if (!are_tensors(cut.operands) || !have_narrow_tiles(cut.operands)) {
    return std::string("operands = ") + to_string(cut.operands) +
           ": must be in_tensor or in_float_tensor";
  }
  // Below an image is a row of gaps: rows of the next one are in other pairs.
  if (a.n != 1 || a.epilogue.residual || a.k % kVector != 0 ||
      (a.p() | a.q()) % kPooledPixels != 0) {
    return to_string(a) +
           ": must be one image, without residual, of whole eights of filters and even outputs";
  }
  const Stripes stripes = stripes_of(a, cut);
  if (stripes.cols != a.q() ||
      cut.places_per_group % (kPooledPixels * static_cast<std::uint32_t>(stripes.row())) != 0 ||
      !is_tile(a, cut, stripes)) {
    return "places_per_group = " + std::to_string(cut.places_per_group) +
           ": must be a tile of pairs of rows of " + std::to_string(stripes.row());
  }
  return {};
}

std::optional<Tiling> pooled_tiling(const Tiling& tiling, const PoolProblem& pool,
                                    const Target& target) {
  const auto* const plain = std::get_if<ImplicitGemmCut>(&tiling.cut);
  if (plain == nullptr || !halves_y(tiling.problem, pool)) return {};
  std::optional<Tiling> best;
  double least_us = std::numeric_limits<double>::infinity();
  Tiling tried = tiling;
  auto& cut = std::get<ImplicitGemmCut>(tried.cut);
  cut.pools = true;
  cut.cols_per_group = u32(u64(tiling.problem.q()));
  const Stripes stripes = stripes_of(tiling.problem, cut);
  const auto pair = kPooledPixels * static_cast<std::uint32_t>(stripes.row());
  const auto most = static_cast<std::uint32_t>(
      places_of_stripe(multiplied_problem(tiling.problem, cut.operands), stripes));
  for (cut.places_per_group = pair;
       cut.places_per_group <= most && pool_obstacle(tiling.problem, cut).empty();
       cut.places_per_group += pair) {
    derive_counts(tried);
    const double us = implicit_gemm_us(tried, target, true);
    if (us < least_us) best = tried, least_us = us;
  }
  return best;
}

}  // namespace megaconv
