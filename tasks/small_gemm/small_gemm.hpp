// SPDX-License-Identifier: Apache-2.0
// The room of small-tile implicit GEMM: convolutions on a GPU, by themselves or of networks.
//
//   ConvProblem --cut_small_gemm--> SmallGemmCut --add_small_gemm--> a node of a TaskGraph
//
// A task takes its sums in K blocks: a range of channels, and rows of the filter. Of each it has
// the inputs under its tile in shared memory, halo included, once for all taps, and its filters. A
// K block's sums are taken in steps: 32 numbers of one tap.
//
// Where channels are few, a step has several taps: neighbouring columns of x follow each other in
// shared memory, as numbers of one tap that is as wide as the filter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megaconv/graph.hpp"
#include "megaconv/tiling.hpp"

namespace megaconv {

struct NodeBuffers;  // lowering.hpp, which bodies do without
struct TaskCost;     // cost.hpp

/// Numbers of a pixel or a filter in one step. They have 16 bits when they are multiplied.
inline constexpr std::int64_t kStepNumbers = 32;
inline constexpr std::int64_t kStepBytes = 2 * kStepNumbers;
/// Bytes that the filters of one matrix instruction have in a step.
inline constexpr std::int64_t kFilterStepBytes = SmallGemmCut::kWarpFilters * kStepBytes;
/// K blocks in shared memory at a time, at most. More of them are smaller: a K block that is not on
/// its way before the wait costs about 1 us whatever its size (H200, ResNet-50 in FP16, FP32: with
/// 2 stages 287 and 687 us, with 3 stages 302 and 746 us, with 4 stages 334 and 876 us).
inline constexpr std::int64_t kSmallGemmStages = 2;
/// Tasks that share a sum, at most: the vectors of 16 filters.
inline constexpr std::uint32_t kMostShares = 4;
/// Rows and columns of a filter, at most.
inline constexpr std::int64_t kMostSmallTaps = 16;

/// Rows or columns of one image: a tile's own outputs, those that its tasks compute, and those of
/// the pooling.
struct TileAxis {
  Interval own, computed, pooled;
};
struct TaskTile {
  std::uint64_t image = 0;
  TileAxis rows, cols;
};
TaskTile tile_of(const SmallGemmCut& cut, std::uint64_t group);
/// Of a tile that its tasks compute, at most.
std::int64_t computed_rows(const SmallGemmCut& cut);
std::int64_t computed_cols(const SmallGemmCut& cut);
std::int64_t computed_pixels(const SmallGemmCut& cut);
/// Whether tasks find the residuals of all outputs that they compute: those of their own.
bool has_all_residuals(const SmallGemmCut& cut);
/// Whether tasks of the convolution can compute that pooling of y, too.
bool can_pool(const ConvProblem& problem, const PoolProblem& pool);

/// What of a sum a task takes in which step.
struct SumSteps {
  bool whole_rows = false;    ///< a tap is a whole row of the filter
  std::int64_t channels = 1;  ///< that a block of filters needs
  std::int64_t pixel = 0;     ///< numbers of a pixel in shared memory where taps are whole rows
  std::int64_t taps_h = 1;    ///< in a K block
  std::int64_t taps_w = 1;    ///< in a K block
  std::int64_t chunks = 1;    ///< steps of a tap in a K block
  std::int64_t row_blocks = 1, channel_blocks = 1;  ///< of a share
  std::int64_t stages = 1;                          ///< K blocks in shared memory at a time
  std::int64_t per_block() const { return taps_h * taps_w * chunks; }
  std::int64_t k_blocks() const { return row_blocks * channel_blocks; }
  std::int64_t total() const { return per_block() * k_blocks(); }
};

/// The shared memory of a task: pipeline stages, the sums of its warps, those that it gets from the
/// tasks that it shares them with, then what the epilogue needs.
struct TaskMemory {
  std::int64_t in_rows = 0, in_cols = 0;  ///< pixels of a stage
  std::int64_t pitch = 0;                 ///< bytes of a pixel
  std::int64_t x_bytes = 0;               ///< of a stage; floats have two of these
  std::int64_t filter_bytes = 0;          ///< of a stage
  std::int64_t stage_bytes = 0;
  std::int64_t sum_pitch = 0;  ///< floats of a pixel, of a warp's sums
  std::int64_t sum_bytes = 0;
  std::int64_t sums_at = 0;     ///< in the stage of the K block before the last one, behind all, or
  bool sums_wait = false;       ///< in the place of what slow warps may still multiply
  std::int64_t work_bytes = 0;  ///< stages and sums
  std::int64_t received_bytes = 0;
  std::int64_t computed_input_at = 0;  ///< what computed_input.hpp says
  std::int64_t steps_at = 0;           ///< places of the steps of a K block in a stage of x
  std::int64_t bytes = 0;              ///< in all
};

/// Chunks are 0 where no K block fits into shared memory.
SumSteps steps_of(const SmallGemmCut& cut);
TaskMemory memory_of(const SmallGemmCut& cut);
/// Whether a task of these sizes fits; its counts need not be there.
bool fits(const SmallGemmCut& cut);

/// Whether x and filters are floats, which become scaled FP16 numbers, and whether two of them.
bool converts(const SmallGemmCut& cut);
std::int64_t parts_of(const SmallGemmCut& cut);
/// Tensors of 16 bits that a stage has room for, for its part of x.
std::int64_t x_tensors(const SmallGemmCut& cut);
/// Numbers of a pixel of x that a thread loads, or computes, at a time.
std::int64_t piece_numbers(const SmallGemmCut& cut);
/// Whether so many tasks may share a sum: all have channels, and whole vectors of outputs.
bool can_share(const SmallGemmCut& cut);
/// Whether eight channels of x are loaded at once.
bool loads_vectors(const SmallGemmCut& cut);

/// Of what channels of blocks begin at a multiple.
std::int64_t channel_step_of(const ConvProblem& problem);
/// Channels of x that the filters of a block need; from a multiple of eight on where vectors are
/// loaded.
struct ChannelRange {
  std::int64_t begin = 0, end = 0;
};
ChannelRange channels_of_block(const SmallGemmCut& cut, std::int64_t block);

/// Tensors of 16 bits are multiplied as they are, floats with this precision.
Precision small_gemm_precision(DataType dtype, Precision of_floats);

/// Whether x comes in pairs.
bool x_in_pairs(const SmallGemmCut& cut);
/// Whether x has vectors of channels, as pairs need it, and whether y can be in pairs.
bool comes_in_vectors(const ConvProblem& problem);
bool can_store_pairs(const ConvProblem& problem);

/// What keeps these tasks from computing the problem; empty when nothing does.
std::string small_gemm_obstacle(const ConvProblem& problem, Precision precision);

/// What a cut is chosen for.
struct SmallGemmMachine {
  std::uint32_t multiprocessors = 1;
  std::uint32_t shared_bytes = SmallGemmCut::kSharedBytes;  ///< of a task
  std::uint32_t cluster_blocks = 1;   ///< tasks that may share a sum; 1: none may
  bool clusters_of_any_size = false;  ///< up to that; else those of a launch have this one
};
SmallGemmMachine small_gemm_machine(const Target& target);

/// What of a cut is asked for; 0: it is chosen.
struct SmallGemmSizes {
  std::uint32_t rows_per_group = 0, cols_per_group = 0, filter_warps = 0;
};

/// Convolutions that make x, and that tasks compute: SmallGemmCut::depthwise, expand.
struct InputMakers {
  std::optional<ConvProblem> depthwise{}, expand{};
};

/// Chooses a cut: the one whose last task is through first. Throws Error(unsupported) with the
/// obstacle, and what derive_counts() throws where no cut has the sizes that are asked for.
SmallGemmCut cut_small_gemm(const ConvProblem& problem, Precision precision,
                            const SmallGemmMachine& machine, const SmallGemmSizes& asked = {},
                            const std::optional<PoolProblem>& pool = {},
                            const PairTensors& pairs = {}, const InputMakers& makers = {});
/// Blocks that are resident in clusters of so many, as a share of those without clusters. Of 132
/// multiprocessors, 62 clusters of four blocks are resident, not 66 (H100). Behind them, 256 tasks
/// of VGG-16's last convolutions took twice their time.
inline double resident_in_clusters(std::uint32_t blocks) { return blocks > 2 ? 0.94 : 1; }
/// How many tasks a resident block runs at most, one behind the other. Two fit on each.
double small_gemm_turns(const SmallGemmCut& cut, std::uint32_t multiprocessors);
/// Microseconds until a task has the filters of the first K blocks.
double small_gemm_first_filters_us(const SmallGemmCut& cut);
/// How long one of its tasks takes on an H100, by the costs that cuts are chosen by.
TaskTime small_gemm_time(const SmallGemmCut& cut);
/// Microseconds that its tasks take on so many, by the costs that cuts are chosen by.
double small_gemm_us(const SmallGemmCut& cut, std::uint32_t multiprocessors);

/// Checks the fields of a cut that are chosen, and computes those that follow from them. Throws
/// Error(invalid_argument) for a field out of range, Error(unsupported) past 2^31 tasks and for a
/// tile that does not fit into shared memory.
void derive_counts(SmallGemmCut& cut);

/// Packed filters, [block of filters][share][K block][16 of them][step][part][matrix instruction,
/// of 2][lane of a warp][8 numbers]. Lane l has filters l / 4 and l / 4 + 8 of the 16, and the
/// quarter l % 4 of the step's numbers: of an instruction two numbers of the one, two of the other,
/// twice, as it takes them. Floats are scaled, each filter by a power of two of its own; behind the
/// numbers are the inverses of these, [K].
std::size_t packed_bytes(const SmallGemmCut& cut);
std::int64_t scales_at(const SmallGemmCut& cut);  ///< their place
/// A power of two that brings the largest finite number of a filter just below 2^15.
float filter_scale(const float* w, std::int64_t count);
/// Bits of a scaled number as FP16, or of what this leaves, times 2^11.
std::uint16_t half_of(float value, bool rest);
/// `w`: filters in the problem's layout and storage type.
std::vector<std::byte> pack_filters(const SmallGemmCut& cut, const std::byte* w);

/// What a task reads and writes, in the regions of add_small_gemm()'s buffers.
AccessFunction small_gemm_accesses(const SmallGemmCut& cut, const NodeBuffers& buffers);
/// All of U, in filters.
Region small_gemm_u_extent(const SmallGemmCut& cut);
/// What an average task costs.
TaskCost small_gemm_cost(const SmallGemmCut& cut, const NodeBuffers& buffers);

/// Whether its tasks may also store what an elementwise operation of so many channels makes of y,
/// from this one of them on. They store no such part beside a pooling.
bool can_store_second(const SmallGemmCut& cut, std::int64_t channels, std::int64_t first_channel);

/// Appends a node that reads read.x, and read.residual if the problem has one: its name, its
/// buffers U and y, what its tasks read and write, which may be a part of read.second, or all of it
/// if that is y of the pooling, and its one stage. Returns read with these.
/// Throws as derive_counts() and add_stage() do, and Error(invalid_argument) naming node and buffer
/// where a buffer does not fit.
NodeBuffers add_small_gemm(TaskGraph& graph, const std::string& name, const SmallGemmCut& cut,
                           const NodeBuffers& read);

}  // namespace megaconv
