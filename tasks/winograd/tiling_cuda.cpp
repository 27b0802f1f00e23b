// SPDX-License-Identifier: Apache-2.0
// Winograd tilings for GPUs: the shapes of tasks that the CUDA kernels are compiled for, and how
// much work makes a task worth its ticket.
#include <algorithm>
#include <limits>

#include "megaconv/error.hpp"
#include "tasks/winograd/winograd.hpp"

namespace megaconv {
namespace {

// Tiles and lane blocks of filters that GEMM tasks have room for, and the channels that one
// multiplies at least, in all its positions, so that filling its pipeline and taking its ticket
// stay small, unless that would leave workers without tasks. Narrow tasks are for few filters. One
// product of FP16 numbers takes half as long as three.
struct GemmShape {
  std::uint32_t tiles, filter_blocks, least_channels;
};
constexpr std::uint32_t kWideBlocks = 128 / Tiling::kLaneBlock,
                        kNarrowBlocks = 64 / Tiling::kLaneBlock;
GemmShape gemm_shape(Arithmetic arithmetic, std::uint32_t filter_blocks) {
  const bool narrow = filter_blocks <= kNarrowBlocks;
  if (arithmetic == Arithmetic::fma) {
    return narrow ? GemmShape{128, kNarrowBlocks, 256} : GemmShape{64, kWideBlocks, 256};
  }
  const std::uint32_t least_channels = arithmetic == Arithmetic::split_f16 ? 1024 : 2048;
  return {128, narrow ? kNarrowBlocks : kWideBlocks, least_channels};
}

// A transform task takes one lane block of channels: 8 tiles a thread at m = 4, about as long as a
// GEMM task. Fewer tiles than its group's, but at least this many (128 bytes of V in a row), where
// there would be too few tasks for all workers.
constexpr std::uint32_t kLeastTransformTiles = 32;
// In stages, where tasks cost no tickets, they should be short, so that all end at about the same
// time. Tensor cores' input tasks have threads for 64 tiles; one of 32 takes 0.53 of the time.
// H200, microseconds of a run of three products by the tiles of a transform task (in brackets:
// input tasks of 64 tiles for each worker):
//
//           vgg_3 (11.9)  vgg_4 (6.1)  yolo_3 (5.2)  yolo_4 (3.0)  conv5_n128 (1.0)  conv5 (0.5)
//   128         700           522           456           365           112
//    64         687           514           433           347           110              84
//    32         706           516           423           341           112              76
// Of one product in NHWC, a task has 64 channels, which a warp takes at a time.
constexpr std::uint32_t kStageTiles = 64, kBlocksOfRow = 64 / Tiling::kLaneBlock;
constexpr double kHalfTiles = 0.53;
// There a task takes as long as these tiles besides its own.
constexpr std::uint32_t kLeastRowTiles = 16;
constexpr double kRowTaskTiles = 4;

// A filter task takes 16 filters of up to 64 channels: 8 a thread.
constexpr std::uint32_t kFilterTaskChannelBlocks = 4;

// Tasks of all positions for each multiprocessor below which there are few. H200, microseconds of
// F(4x4) and F(2x2), one kernel a stage, filters transformed in every run; a problem's tasks:
//
//                          multiply-adds             three products
//   n1c128h28k128    36    28.6, 18.7          36    23.1, 15.8
//   n64c192h7k48     72    29.5, 24.4          72    20.9, 19.9
//   n1c512h7k512    144    77.5, 44.4         144    49.7, 26.4
//   n32c512h7k512   288     112, 127          144    58.6, 55.2
//   n64c512h7k512   576     169, 237          288    82.2, 88.3
constexpr std::uint64_t kFewTasks = 2;
constexpr std::uint32_t kWorkersOfMultiprocessor = 4;  // with multiply-adds

// H200, microseconds of a GEMM task of three products with another one on its multiprocessor: its
// start and end, and for each position 512 channels of 128 filters; with one product these alone. A
// task is faster alone, but not twice as fast. Where tasks end in waves, the
// multiprocessors that are done first take two of the next tasks, and others none
// (docs/performance.md).
constexpr double kStartEndUs = 5, kPositionUs = 18.6, kOneProductUs = 6.8, kAlone = 0.6;
constexpr std::uint32_t kTensorWorkers = 2;  // of a multiprocessor

std::uint64_t num_tile_groups(const WinogradTiles& cut) {
  return ceil_div(cut.num_tiles, std::uint64_t{cut.group_tiles});
}

// Positions that a GEMM task should have, so that tasks fill the multiprocessors' time.
std::uint32_t fastest_positions(Tiling tiling, std::uint32_t multiprocessors) {
  auto& cut = std::get<WinogradCut>(tiling.cut);
  std::uint32_t fastest = 1;
  double least_us = std::numeric_limits<double>::infinity();
  for (std::uint32_t positions = 1; positions <= cut.num_positions(); ++positions) {
    cut.positions_per_gemm_task = positions;
    const double us = gemm_stage_us(tiling, multiprocessors);
    if (us < least_us) fastest = positions, least_us = us;
  }
  return fastest;
}

// The same where a warp has a tile at a time: as few waves of as short tasks as can be.
std::uint32_t tiles_of_row_task(std::uint32_t group_tiles, std::uint64_t tasks,
                                std::uint32_t workers) {
  std::uint32_t fastest = group_tiles;
  double least = std::numeric_limits<double>::infinity();
  for (std::uint32_t tiles = kStageTiles; tiles >= kLeastRowTiles; tiles /= 2) {
    const std::uint64_t all = tasks * ceil_div(group_tiles, tiles);
    const auto waves = static_cast<double>(ceil_div(all, std::uint64_t{std::max(1u, workers)}));
    const double time = waves * (tiles + kRowTaskTiles);
    if (time < least) fastest = std::min(group_tiles, tiles), least = time;
  }
  return fastest;
}

// Tiles of the transform tasks of a stage; so many tasks have all tiles of a group.
std::uint32_t tiles_of_stage_task(std::uint32_t group_tiles, std::uint64_t tasks,
                                  std::uint32_t workers) {
  const auto waves = [&](std::uint32_t tiles) {
    return static_cast<double>(
        ceil_div(tasks * ceil_div(group_tiles, tiles), std::uint64_t{std::max(1u, workers)}));
  };
  const std::uint32_t half = kStageTiles / 2;
  const bool halves = kHalfTiles * waves(half) < waves(kStageTiles);
  return std::min(group_tiles, halves ? half : kStageTiles);
}

// Of those that cost a ticket each: as many as there must be for all workers, in runs of V.
std::uint32_t tiles_of_task(std::uint32_t group_tiles, std::uint64_t tasks, std::uint32_t workers,
                            std::uint32_t run) {
  std::uint32_t tiles = group_tiles;
  while (tasks * ceil_div(group_tiles, tiles) < workers && tiles % (2 * run) == 0 &&
         tiles / 2 >= kLeastTransformTiles) {
    tiles /= 2;
  }
  return tiles;
}

}  // namespace

double gemm_stage_us(const Tiling& tiling, std::uint32_t multiprocessors) {
  const auto& cut = std::get<WinogradCut>(tiling.cut);
  const std::uint32_t filters = cut.filter_blocks_per_gemm_task;
  const std::uint64_t tasks = num_tile_groups(cut) * ceil_div(tiling.filter_blocks(), filters) *
                              ceil_div(cut.num_positions(), cut.positions_per_gemm_task);
  const std::uint64_t waves = ceil_div(tasks, std::uint64_t{kTensorWorkers} * multiprocessors);
  const bool split = tiling.arithmetic == Arithmetic::split_f16;
  const double position_us = (split ? kPositionUs : kOneProductUs) *
                             static_cast<double>(tiling.problem.c) / 512 *
                             (filters <= kNarrowBlocks ? 0.5 : 1.0);
  const double share = tasks <= multiprocessors ? kAlone : 1.0;
  return static_cast<double>(waves) *
         ((split ? kStartEndUs : 0) + share * cut.positions_per_gemm_task * position_us);
}

bool has_few_gemm_tasks(const ConvProblem& problem, Arithmetic arithmetic, const Target& target) {
  const std::uint32_t filter_blocks = Tiling{.problem = problem}.filter_blocks();
  const GemmShape shape = gemm_shape(arithmetic, filter_blocks);
  WinogradTiles f4{.m = 4};
  count_tiles(problem, f4);
  const std::uint64_t tasks = ceil_div(f4.num_tiles, std::uint64_t{shape.tiles}) *
                              ceil_div(filter_blocks, shape.filter_blocks) * f4.num_positions();
  const std::uint32_t multiprocessors = target.multiprocessors != 0
                                            ? target.multiprocessors
                                            : target.workers / kWorkersOfMultiprocessor;
  return tasks < kFewTasks * multiprocessors;
}

void choose_winograd_for_cuda(Tiling& tiling, const TilingOptions& options, const Target& target) {
  auto& cut = std::get<WinogradCut>(tiling.cut);
  if (cut.m != 2 && cut.m != 4) {  // m = 6, of four times the error of 4, was never the fastest
    throw Error(Status::unsupported,
                "winograd, m = " + std::to_string(cut.m) + " on backend cuda: must be 2 or 4");
  }
  const std::uint32_t channel_blocks = tiling.channel_blocks();
  const std::uint32_t filter_blocks = tiling.filter_blocks();
  const GemmShape shape = gemm_shape(tiling.arithmetic, filter_blocks);
  const std::uint64_t tiles = options.group_tiles != 0 ? options.group_tiles : shape.tiles;
  cut.group_tiles = u32(std::min(tiles, cut.num_tiles));
  cut.filter_blocks_per_gemm_task = std::min(filter_blocks, shape.filter_blocks);
  const std::uint64_t groups = num_tile_groups(cut);
  const std::uint64_t products = groups * ceil_div(filter_blocks, cut.filter_blocks_per_gemm_task) *
                                 cut.num_positions();  // positions of all groups and chunks
  const std::uint64_t worthwhile =
      ceil_div(shape.least_channels, channel_blocks * Tiling::kLaneBlock);
  const std::uint64_t shared = std::max<std::uint64_t>(1, products / (2 * target.workers));
  const bool in_stages = options.whole_tensors && target.multiprocessors != 0;
  cut.positions_per_gemm_task =
      in_stages && tiling.arithmetic == Arithmetic::split_f16
          ? fastest_positions(tiling, target.multiprocessors)
          : u32(std::min<std::uint64_t>({worthwhile, shared, cut.num_positions()}));
  const bool in_rows =
      in_stages && tiling.arithmetic == Arithmetic::f16 && tiling.problem.layout == Layout::nhwc;
  const std::uint32_t blocks = in_rows ? kBlocksOfRow : 1;  // of a transform task
  cut.channel_blocks_per_input_task = std::min(blocks, channel_blocks);
  cut.filter_blocks_per_output_task = std::min(blocks, filter_blocks);

  const bool on_tensor_cores = tiling.arithmetic != Arithmetic::fma;
  const std::uint64_t transforms =
      groups * ceil_div(std::min(channel_blocks, filter_blocks), blocks);
  cut.tiles_per_transform_task =
      in_rows ? tiles_of_row_task(cut.group_tiles, transforms, target.workers)
      : in_stages && on_tensor_cores
          ? tiles_of_stage_task(cut.group_tiles, transforms, target.workers)
          : tiles_of_task(cut.group_tiles, transforms, target.workers,
                          tiles_of_v_run(tiling.arithmetic));

  // One for each multiprocessor is enough on tensor cores: two at a time there take as long each.
  choose_filter_tasks_for_cuda(tiling,
                               on_tensor_cores ? target.workers / kTensorWorkers : target.workers);
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
