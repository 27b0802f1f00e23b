// SPDX-License-Identifier: Apache-2.0
// How long tasks of implicit GEMM take, for those who choose their sizes.
#pragma once

#include <cstdint>

#include "megaconv/tiling.hpp"

namespace megaconv {

/// Lane blocks of filters of wide tiles. (Of narrow ones: kFilterBlocksInPlace.)
inline constexpr std::uint32_t kWideTileBlocks = 128 / Tiling::kLaneBlock;

/// Microseconds of a run of so many waves of tasks, in stages or not. Of the tiling's counts only
/// what a task is made of need be there.
double implicit_gemm_run_us(const Tiling& tiling, double waves, bool staged);
/// Whether all tasks of a run in stages are at work at once, on a tile each: what is estimated of
/// these has been measured of them.
bool run_at_once(const Tiling& tiling);
/// How long tensors take through memory by how long all products take at least; 0 where the L2 has
/// room for them.
double memory_by_products(const Tiling& tiling);
/// Of the stage that copies x.
double input_copy_us(const Tiling& tiling);
/// Most padded pixels of a tile of small tasks that load x, of so many lane blocks of filters.
std::uint32_t loaded_tile_places(std::uint32_t filter_blocks, Arithmetic arithmetic);

}  // namespace megaconv
