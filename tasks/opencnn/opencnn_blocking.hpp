// SPDX-License-Identifier: Apache-2.0
// How openCNN's fused F(2x2,3x3) kernel cuts a problem into tasks, for host and device code.
//
// A task computes kFilters filters of kTiles tiles at all 16 positions, over all channels,
// kChannels at a time: bk = 64, bn = 32, bc = 8 of the paper (Castro et al., Mathematics 2021, 9,
// 2033, section 3). U, the transformed filters, is stored in the order in which a task reads it:
//
//   U   [K/64][C/4][16 positions][4 channels][64 filters]     K and C rounded up, zeros past them
//
// so that the filters of four channels, half a block, are 16 KB in a row.
#pragma once

#include <cstdint>

#include "megaconv/problem.hpp"
#include "tasks/ceil_div.hpp"

namespace megaconv::opencnn {

inline constexpr int kFilters = 64;
inline constexpr int kTiles = 32;
inline constexpr int kChannels = 8;
inline constexpr int kHalfChannels = kChannels / 2;
inline constexpr int kOutputTile = 2;  // m
inline constexpr int kAlpha = 4;
inline constexpr int kPositions = kAlpha * kAlpha;

/// Blocks of filters: tasks of a group.
inline std::int64_t num_blocks(const ConvProblem& problem) {
  return ceil_div<std::int64_t>(problem.k, kFilters);
}

/// Groups of kTiles tiles. chwn: the same tile of kTiles images, tiles first. nchw, nhwc:
/// neighbours in the order of images, tile rows, tile columns.
inline std::int64_t num_groups(const ConvProblem& problem) {
  const std::int64_t tiles_per_image = ceil_div<std::int64_t>(problem.p(), kOutputTile) *
                                       ceil_div<std::int64_t>(problem.q(), kOutputTile);
  return problem.layout == Layout::chwn
             ? tiles_per_image * ceil_div<std::int64_t>(problem.n, kTiles)
             : ceil_div<std::int64_t>(problem.n * tiles_per_image, kTiles);
}

/// Filter transform tasks: kFilters filters of kChannels channels each.
inline std::int64_t num_filter_tasks(const ConvProblem& problem) {
  return num_blocks(problem) * ceil_div<std::int64_t>(problem.c, kChannels);
}

/// Floats of U.
inline std::int64_t u_size(const ConvProblem& problem) {
  return num_filter_tasks(problem) * kPositions * kChannels * kFilters;
}

}  // namespace megaconv::opencnn
