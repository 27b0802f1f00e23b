// SPDX-License-Identifier: Apache-2.0
// Winograd tilings for GPUs: the shapes of tasks that the CUDA kernels are compiled for, and how
// many channels or positions make a task worth its ticket.
#include <algorithm>

#include "mapping/tiling.hpp"

namespace megaconv {
namespace {

// A thread block of 128 threads holds 64 sums in each: 64 tiles x 128 filters, or 128 x 64 for few
// filters.
constexpr std::uint32_t kWideTiles = 64, kWideBlocks = 128 / Tiling::kLaneBlock;
constexpr std::uint32_t kNarrowTiles = 128, kNarrowBlocks = 64 / Tiling::kLaneBlock;
// A GEMM task multiplies at least this many channels in all, over its positions (16 steps of 16),
// so that filling its pipeline and taking its ticket stay small.
constexpr std::uint32_t kLeastGemmChannels = 256;
// A transform task takes 32 channels of all tiles of its group: 8 tiles a thread at m = 4.
constexpr std::uint32_t kTransformBlocks = 2;
// A filter task takes 16 filters of 64 channels: 8 a thread.
constexpr std::uint32_t kFilterTaskChannelBlocks = 4;

}  // namespace

void choose_winograd_for_cuda(Tiling& tiling, const TilingOptions& options) {
  const std::uint32_t filter_blocks = tiling.filter_blocks();
  const bool narrow = filter_blocks <= kNarrowBlocks;
  const std::uint64_t tiles = options.group_tiles != 0 ? options.group_tiles
                              : narrow                 ? kNarrowTiles
                                                       : kWideTiles;
  tiling.group_tiles = static_cast<std::uint32_t>(std::min(tiles, tiling.num_tiles()));
  tiling.filter_blocks_per_gemm_task =
      std::min(filter_blocks, narrow ? kNarrowBlocks : kWideBlocks);
  tiling.positions_per_gemm_task =
      std::min(ceil_div(kLeastGemmChannels, tiling.channel_blocks() * Tiling::kLaneBlock),
               tiling.num_positions());
  tiling.channel_blocks_per_input_task = std::min(tiling.channel_blocks(), kTransformBlocks);
  tiling.filter_blocks_per_output_task = std::min(filter_blocks, kTransformBlocks);
  tiling.filter_blocks_per_filter_task = 1;
  tiling.channel_blocks_per_filter_task =
      std::min(tiling.channel_blocks(), kFilterTaskChannelBlocks);
}

}  // namespace megaconv
