// SPDX-License-Identifier: Apache-2.0
// Implicit GEMM: direct convolution on tensor cores, of pixels in stripes (stripes.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tasks/implicit_gemm/space_to_depth.hpp"
#include "tasks/implicit_gemm/stripes.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {

/// Whether neighbouring outputs read inputs that are no neighbours.
inline bool has_strides(const ConvProblem& problem) {
  return problem.stride_h != 1 || problem.stride_w != 1;
}
/// Whether every tap's input is loaded by itself: then, and where a filter reaches too far for what
/// a task keeps.
bool loads_by_taps(const ConvProblem& problem);
/// Conv groups that its tasks multiply as one: as few as have filters in whole tiles of 64, or all.
std::int64_t groups_at_once(const ConvProblem& problem);
/// Their channels, which such a task adds up; of a copy, if it has space to depth.
std::int64_t channels_at_once(const ConvProblem& problem);
/// Their filters.
inline std::int64_t filters_at_once(const ConvProblem& problem) {
  return problem.k / problem.groups * groups_at_once(problem);
}
/// Whether tensor cores are expected to be faster, zeros included, than multiply-adds without.
bool grouping_pays(const ConvProblem& problem, Arithmetic arithmetic);
/// What keeps its tasks from computing the problem; empty when nothing does.
std::string implicit_gemm_obstacle(const ConvProblem& problem);
/// What would have to be otherwise for them to have an arithmetic; empty when they have.
std::string implicit_gemm_arithmetic_need(const ConvProblem& problem, Arithmetic arithmetic);

/// What keeps them from having the load path of the cut ("arithmetic must be tf32"); empty when
/// nothing does.
std::string operands_obstacle(const ConvProblem& problem, Arithmetic arithmetic,
                              const ImplicitGemmCut& cut);
/// What keeps them from having stripes of so many columns (": must be ..."), with this load path;
/// empty when nothing does.
std::string stripe_obstacle(const ConvProblem& problem, Operands operands, std::int64_t cols);

/// The same convolution in tasks that store the pooling of y, if they can, in the fastest groups of
/// whole windows.
std::optional<Tiling> pooled_tiling(const Tiling& tiling, const PoolProblem& pool,
                                    const Target& target);
/// What keeps tasks of the cut from pooling y; empty when nothing does.
std::string pool_obstacle(const ConvProblem& problem, const ImplicitGemmCut& cut);
/// Rows and columns of a pooling's window, which are its strides, too.
inline constexpr std::int32_t kPooledPixels = 2;

/// Whether it is expected to be faster than Winograd, if `winograd` is possible, or than direct
/// tasks.
bool implicit_gemm_pays(const ConvProblem& problem, const TilingOptions& options, bool winograd,
                        const Target& target);

/// How it computes products of the problem's numbers at the precision asked for.
Arithmetic implicit_gemm_arithmetic(const ConvProblem& problem, const TilingOptions& options);

/// Whether TMA loads w as it is, and not a copy of it: from space to depth, or of conv groups that
/// are multiplied as one.
bool filters_are_operands(const ConvProblem& problem, Operands operands);
/// Whether tasks of implicit GEMM copy x, and filters the same way: as operands, or from space to
/// depth.
bool has_input_tasks(const Tiling& tiling);
/// Whether numbers rounded to TF32 or to FP16 is a choice: of f32 tensors that TMA can load, if
/// either is permitted.
bool has_arithmetic_to_choose(const ConvProblem& problem, Arithmetic arithmetic);
/// Whether it could have input tasks: then only with whole tensors does it.
bool has_copies_to_choose(const ConvProblem& problem, Arithmetic arithmetic);
/// Lane blocks of filters of a task that TMA loads x for, at most.
inline constexpr std::uint32_t kFilterBlocksInPlace = 64 / Tiling::kLaneBlock;
/// Most lane blocks of filters of a task.
constexpr std::uint32_t filter_blocks_of_tile(Operands operands) {
  return (operands == Operands::loaded
              ? 128u
              : static_cast<std::uint32_t>(most_filters_in_place(operands))) /
         Tiling::kLaneBlock;
}
/// The load path of tensors as they are in tasks of so many lane blocks of filters: where tiles may
/// be wide or tall (operands_in_wide_tiles()), 64 filters are narrow tiles, 128 are wide ones, and
/// other numbers tall ones.
constexpr Operands operands_of_tensors(bool floats, bool may_be_wide, std::uint32_t filter_blocks) {
  constexpr std::uint32_t kWideBlocks = 128 / Tiling::kLaneBlock;
  if (!may_be_wide || filter_blocks == kFilterBlocksInPlace) {
    return floats ? Operands::in_float_tensor : Operands::in_tensor;
  }
  if (filter_blocks == kWideBlocks) {
    return floats ? Operands::in_float_tensor_wide : Operands::in_tensor_wide;
  }
  return floats ? Operands::in_float_tensor_tall : Operands::in_tensor_tall;
}
/// Whether pixels of x begin amid sectors of 32 bytes: rows that TMA loads of them come from the L2
/// in pieces.
bool rows_come_in_pieces(const ConvProblem& problem);
/// Whether pixels of y are whole vectors of 16 bytes; else tiles store their numbers one by one.
bool stores_vectors(const ConvProblem& problem);
/// Groups of so many padded pixels that a problem has.
std::uint64_t count_place_groups(const ConvProblem& problem, const ImplicitGemmCut& cut);
/// Tasks of all groups, by the cut alone: the tiling's counts need not be there yet.
std::uint64_t count_tasks(const Tiling& tiling);
/// Blocks of a cluster in which direct tasks of a group run in stages, if their number is even:
/// those that convert x do it for each other.
std::uint32_t cluster_blocks(const Tiling& tiling);
/// Shares of its channels that a direct task adds up separately and then their sums: so many blocks
/// of a cluster have it together in stages. More than one where operands are tensors and tasks few.
std::uint32_t channel_shares(const Tiling& tiling);
/// The copy of x, as input tasks share it out: so many pixels, and lane blocks of their channels.
struct InputCopy {
  std::uint64_t pixels, blocks, pixels_of_task, blocks_of_task;
  std::uint64_t num_tasks() const {
    return ceil_div(pixels, pixels_of_task) * ceil_div(blocks, blocks_of_task);
  }
  Region extent() const { return {.rows = {0, pixels}, .channels = {0, blocks}}; }
};
InputCopy input_copy(const Tiling& tiling);
/// Its workspace.
std::uint64_t input_copy_bytes(const Tiling& tiling);
/// Padded pixels of a group come in as many.
std::uint32_t place_step(bool in_place);

/// What a task computes at a time: of so many lane blocks of filters, in groups of so many padded
/// pixels, if x is not read in place. The last tile of a group may have fewer padded pixels, in
/// whole steps.
struct ImplicitGemmTile {
  std::uint32_t filters, places;
};
ImplicitGemmTile implicit_gemm_tile(std::uint32_t filter_blocks, std::uint64_t places,
                                    Arithmetic arithmetic);

/// Microseconds of the tasks, in one kernel a stage or not, on an H200's multiprocessors or as many
/// like them as `target` has.
double implicit_gemm_us(const Tiling& tiling, const Target& target, bool staged);

/// Sizes of the tasks.
void choose_implicit_gemm(Tiling& tiling, const TilingOptions& options, const Target& target);

}  // namespace megaconv
