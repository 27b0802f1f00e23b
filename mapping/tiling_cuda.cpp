// SPDX-License-Identifier: Apache-2.0
// Winograd tilings for GPUs: the shapes of tasks that the CUDA kernels are compiled for, and how
// much work makes a task worth its ticket.
#include <algorithm>

#include "mapping/tiling.hpp"

namespace megaconv {
namespace {

// Tiles and lane blocks of filters that GEMM tasks have room for, and the channels that one
// multiplies at least, in all its positions, so that filling its pipeline and taking its ticket
// stay small, unless that would leave workers without tasks. Narrow tasks are for few filters. One
// product of FP16 numbers takes half as long as three.
struct GemmShape {
  std::uint32_t tiles, filter_blocks, least_channels;
};
constexpr std::uint32_t kWide = 128 / Tiling::kLaneBlock, kNarrow = 64 / Tiling::kLaneBlock;
GemmShape gemm_shape(Arithmetic arithmetic, std::uint32_t filter_blocks) {
  const bool narrow = filter_blocks <= kNarrow;
  if (arithmetic == Arithmetic::fma) {
    return narrow ? GemmShape{128, kNarrow, 256} : GemmShape{64, kWide, 256};
  }
  const std::uint32_t least_channels = arithmetic == Arithmetic::split_f16 ? 1024 : 2048;
  return {128, narrow ? kNarrow : kWide, least_channels};
}

// A transform task takes one lane block of channels: 8 tiles a thread at m = 4, about as long as a
// GEMM task. Fewer tiles than its group's, but at least this many (128 bytes of V in a row), where
// there would be too few tasks for all workers.
constexpr std::uint32_t kLeastTransformTiles = 32;
// A filter task takes 16 filters of up to 64 channels: 8 a thread.
constexpr std::uint32_t kFilterTaskChannelBlocks = 4;

}  // namespace

void choose_winograd_for_cuda(Tiling& tiling, const TilingOptions& options, const Target& target) {
  const std::uint32_t channel_blocks = tiling.channel_blocks();
  const std::uint32_t filter_blocks = tiling.filter_blocks();
  const GemmShape shape = gemm_shape(tiling.arithmetic, filter_blocks);
  const std::uint64_t tiles = options.group_tiles != 0 ? options.group_tiles : shape.tiles;
  tiling.group_tiles = u32(std::min(tiles, tiling.num_tiles()));
  tiling.filter_blocks_per_gemm_task = std::min(filter_blocks, shape.filter_blocks);
  const std::uint64_t groups = ceil_div(tiling.num_tiles(), std::uint64_t{tiling.group_tiles});
  const std::uint64_t products = groups *
                                 ceil_div(filter_blocks, tiling.filter_blocks_per_gemm_task) *
                                 tiling.num_positions();  // positions of all groups and chunks
  const std::uint64_t worthwhile =
      ceil_div(shape.least_channels, channel_blocks * Tiling::kLaneBlock);
  const std::uint64_t shared = std::max<std::uint64_t>(1, products / (2 * target.workers));
  tiling.positions_per_gemm_task =
      u32(std::min<std::uint64_t>({worthwhile, shared, tiling.num_positions()}));
  tiling.channel_blocks_per_input_task = tiling.filter_blocks_per_output_task = 1;

  const std::uint64_t transforms = groups * std::min(channel_blocks, filter_blocks);
  std::uint32_t tiles_per_task = tiling.group_tiles;
  while (transforms * ceil_div(tiling.group_tiles, tiles_per_task) < target.workers &&
         tiles_per_task % 8 == 0 && tiles_per_task / 2 >= kLeastTransformTiles) {
    tiles_per_task /= 2;
  }
  tiling.tiles_per_transform_task = tiles_per_task;

  choose_filter_tasks_for_cuda(tiling, target.workers);
}

void choose_filter_tasks_for_cuda(Tiling& tiling, std::uint32_t wanted) {
  tiling.filter_blocks_per_filter_task = 1;
  std::uint32_t channels = std::min(tiling.channel_blocks(), kFilterTaskChannelBlocks);
  while (std::uint64_t{tiling.filter_blocks()} * ceil_div(tiling.channel_blocks(), channels) <
             wanted &&
         channels > 1) {
    channels /= 2;
  }
  tiling.channel_blocks_per_filter_task = channels;
}

}  // namespace megaconv
