// SPDX-License-Identifier: Apache-2.0
// What the algorithms that multiply in Winograd's domain have in common: tiles, and when they pay.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "tasks/conv_graph.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {

/// What keeps an algorithm of F(m x m, 3 x 3) from computing the problem; empty when nothing does.
std::string winograd_obstacle(Algorithm algorithm, const ConvProblem& problem);

/// What would have to be otherwise for tasks of stages to have an arithmetic; empty when they have.
std::string winograd_arithmetic_need(std::uint32_t m, DataType dtype, Arithmetic arithmetic);

/// Throws Error(invalid_argument) unless there is an F(m x m, 3 x 3).
void check_m(std::uint32_t m);
/// Counts the tiles of a problem; m is set.
void count_tiles(const ConvProblem& problem, WinogradTiles& tiles);
/// Checks m and the sizes that all of them have, and computes tile counts and NG. `tiles`: those of
/// the tiling.
void derive_tiles(Tiling& tiling, WinogradTiles& tiles);

/// Outputs of a CPU's last tile in a line of so many outputs: m, a tile's in that dimension, or
/// fewer where there are edge tiles.
std::uint32_t last_tile_outputs(const WinogradTiles& tiles, std::uint32_t m, std::int64_t outputs);
/// Positions that all tiles need together on a CPU.
double needed_positions(const ConvProblem& problem, const WinogradTiles& tiles);
/// Tiles of a task group.
Interval tiles_of_group(const WinogradTiles& tiles, std::uint32_t group);
/// Appends the boxes of y under a run of tiles.
void append_tile_boxes(const ConvProblem& problem, const WinogradTiles& tiles, const Interval& run,
                       std::vector<Region>& boxes);
/// "winograd F(4x4, 3x3)", with points and arithmetic where they are not what one expects.
std::string winograd_name(const Tiling& tiling);
/// " F(4x4, 3x3), ...", and a line of tiles.
void describe_tiles(const Tiling& tiling, std::ostream& text);
/// Operations of a filter task.
double filter_transform_operations(const Tiling& tiling);
/// Operations on one tile of a channel, or of a filter.
double input_transform_operations(const WinogradTiles& tiles);
double output_transform_operations(const WinogradTiles& tiles);

/// Whether it saves enough multiplications to pay for the transforms.
bool winograd_pays(const ConvProblem& problem, const TilingOptions& options, const Target& target);
/// Whether three products of split numbers would err by more than multiply-adds: of few channels.
bool loses_accuracy(const ConvProblem& problem, const TilingOptions& options, const Target& target);
/// Chooses m, points and arithmetic, and counts the tiles. `tiles`: those of the tiling.
void choose_tiles(Tiling& tiling, WinogradTiles& tiles, const TilingOptions& options,
                  const Target& target);
/// Whether fused tasks are expected to be faster on this CPU than those of stages, where nobody
/// asked for either.
bool fusing_pays(const ConvProblem& problem, const TilingOptions& options, const Target& target);
/// Filter blocks whose M a fused task holds at a time.
std::uint32_t fused_filter_blocks(const Tiling& tiling);
/// Tiles of a fused task.
std::uint64_t fused_group_tiles(const Tiling& tiling, const Target& target);
/// Sizes of the filter tasks of a CPU.
void choose_filter_tasks_for_cpu(Tiling& tiling, const Target& target);
/// Sizes of all tasks of stages on a CPU.
void choose_winograd_for_cpu(Tiling& tiling, const TilingOptions& options, const Target& target);
/// Sizes of the tasks on a GPU; m and the tile counts are set.
void choose_winograd_for_cuda(Tiling& tiling, const TilingOptions& options, const Target& target);

/// Whether a GPU has too few GEMM tasks of F(4x4) for all its multiprocessors. F(2x2) then takes
/// less time: it has more, and less than half of the transformed filters.
bool has_few_gemm_tasks(const ConvProblem& problem, Arithmetic arithmetic, const Target& target);
/// Microseconds of the GEMM tasks of a tiling for tensor cores, all in one kernel on an H200's
/// multiprocessors or as many like them.
double gemm_stage_us(const Tiling& tiling, std::uint32_t multiprocessors);

}  // namespace megaconv
