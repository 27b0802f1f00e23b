// SPDX-License-Identifier: Apache-2.0
// What the rooms need of the tiling of a convolution beyond the public header.
#pragma once

#include <concepts>
#include <string>

#include "megaconv/lowering.hpp"
#include "tasks/implicit_gemm/stripes.hpp"

namespace megaconv {

template <std::integral Int>
constexpr Int ceil_div(Int dividend, Int divisor) {
  return dividend / divisor + (dividend % divisor != 0 ? 1 : 0);
}

constexpr std::uint32_t u32(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
constexpr std::uint64_t u64(std::int64_t value) { return static_cast<std::uint64_t>(value); }

/// Bytes of one lane block in U, V, M or a packed input.
inline constexpr std::uint64_t kBlockBytes = Tiling::kLaneBlock * sizeof(float);

/// Bytes of one number of U and V: 2 where one product of 16-bit numbers is taken. M is FP32.
constexpr std::uint64_t number_bytes(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::f16 || arithmetic == Arithmetic::bf16 ? 2 : sizeof(float);
}

/// Words of 32 bits that hold the channels of one conv group in U, V and packed inputs: one each;
/// direct tasks on i8 have four in one.
std::uint64_t channel_words(const Tiling& tiling);

/// What keeps `algorithm`, winograd or fused_winograd, from computing the problem ("winograd:
/// stride 2x2, must be 1x1"); empty when nothing does.
std::string winograd_obstacle(Algorithm algorithm, const ConvProblem& problem);

/// Winograd on the CPU's layouts, in tasks per stage or fused.
bool is_winograd(Algorithm algorithm);

/// What would have to be otherwise for `algorithm` to have tasks with this arithmetic ("f32
/// tensors"); empty when it has. Of the device and of direct convolution it knows nothing.
std::string arithmetic_need(Algorithm algorithm, std::uint32_t m, const ConvProblem& problem,
                            Arithmetic arithmetic);

/// Whether products may be of numbers that are rounded to FP16: tensors have 16 bits, or the
/// precision asked for permits it.
bool permits_f16(DataType dtype, Precision precision);

/// Throws Error(invalid_argument) unless there is an F(m x m, 3 x 3).
void check_m(std::uint32_t m);

/// Fills tiles_h and tiles_w from the problem and m.
void count_tiles(Tiling& tiling);

/// Checks the fields of a tiling that are chosen, and computes those that follow from them (tile
/// counts, NG, NF, SI, SG, SO). The window is clamped to NG slots; 0 slots mean NG.
/// Throws Error(invalid_argument) for a field out of range, Error(unsupported) for a layout or
/// arithmetic that has no tasks or too many groups.
void derive_counts(Tiling& tiling);

/// Throws Error(invalid_argument) unless the cuts of a lowering are such that derive_counts()
/// makes, and its stages and buffers those of these cuts. Its regions are then those of the rooms.
void check_cut(Lowering& lowering);

/// What keeps implicit GEMM's tasks from computing the problem; empty when nothing does.
std::string implicit_gemm_obstacle(const ConvProblem& problem);

/// What keeps them from having stripes of so many columns (": must be ..."), if they come by x in
/// this way; empty when nothing does.
std::string stripe_obstacle(const ConvProblem& problem, Operands operands, std::int64_t cols);

/// What keeps openCNN's kernel from computing the problem; empty when nothing does.
std::string opencnn_obstacle(const ConvProblem& problem);

/// Whether a GPU has too few GEMM tasks of F(4x4) for all its multiprocessors. F(2x2) then takes
/// less time: it has more, and less than half of the transformed filters.
bool has_few_gemm_tasks(const ConvProblem& problem, Arithmetic arithmetic, const Target& target);

/// On CUDA Winograd's input tasks write V in runs of so many tiles: a task has whole runs, or all
/// tiles of its group.
constexpr std::uint32_t tiles_of_v_run(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::fma ? 4 : 16;
}

/// Microseconds of the GEMM tasks of a Winograd tiling for tensor cores, all in one kernel on an
/// H200's multiprocessors or as many like them.
double gemm_stage_us(const Tiling& tiling, std::uint32_t multiprocessors);

/// Sizes of the tasks of a Winograd tiling on a GPU; m and the tile counts are set.
void choose_winograd_for_cuda(Tiling& tiling, const TilingOptions& options, const Target& target);

/// Sizes of the filter tasks of a tiling for CUDA kernels that transform filters: small enough for
/// `wanted` tasks, if they can be.
void choose_filter_tasks_for_cuda(Tiling& tiling, std::uint32_t wanted);

/// Sizes of the tasks of a direct tiling on a GPU.
void choose_direct_for_cuda(Tiling& tiling, const Target& target);

/// Whether implicit GEMM is expected to be faster than Winograd, if `winograd` is possible, or than
/// direct tasks.
bool implicit_gemm_pays(const ConvProblem& problem, const TilingOptions& options, bool winograd,
                        const Target& target);

/// How implicit GEMM computes products of the problem's numbers at the precision asked for.
Arithmetic implicit_gemm_arithmetic(const ConvProblem& problem, const TilingOptions& options);

/// Workers that run tasks of the algorithm at the same time: of implicit GEMM one a multiprocessor.
std::uint32_t resident_workers(Algorithm algorithm, const Target& target);

/// Whether implicit GEMM has tasks that copy x as operands, and filters the same way. Without them
/// its tasks read tensors that are operands already, or load and convert what they need of x.
inline bool has_input_tasks(const Tiling& tiling) {
  return tiling.algorithm == Algorithm::implicit_gemm && tiling.channel_blocks_per_input_task != 0;
}
/// Whether numbers rounded to TF32 or to FP16 is a choice: of f32 tensors that the copy engine can
/// bring, if either is permitted.
bool has_arithmetic_to_choose(const ConvProblem& problem, Arithmetic arithmetic);
/// Whether it could have them: then only with whole tensors does it.
bool has_copies_to_choose(const ConvProblem& problem, Arithmetic arithmetic);
/// How its tasks come by x. Its sizes say so: without input tasks, it is converted in tasks of at
/// most so many lane blocks of filters, if it can be in their stripes, and otherwise loaded.
Operands operands_of(const Tiling& tiling);
inline constexpr std::uint32_t kFilterBlocksInPlace = 64 / Tiling::kLaneBlock;
/// Blocks of a cluster in which direct tasks of a group run in stages: those that convert x do it
/// for each other, if their number is even.
std::uint32_t cluster_blocks(const Tiling& tiling);
/// Shares of its channels that a direct task adds up separately and then their sums: so many blocks
/// of a cluster have it together in stages. More than one where operands are tensors and tasks few.
std::uint32_t channel_shares(const Tiling& tiling);
/// Its workspace for the copy of x.
std::uint64_t input_copy_bytes(const Tiling& tiling);
/// Places of a group come in as many.
std::uint32_t place_step(bool in_place);

/// What a task of implicit GEMM computes at a time: of so many lane blocks of filters, in groups of
/// so many places, if x is not read in place. The last tile of a group may have fewer places, in
/// whole steps.
struct ImplicitGemmTile {
  std::uint32_t filters, places;
};
ImplicitGemmTile implicit_gemm_tile(std::uint32_t filter_blocks, std::uint64_t places,
                                    Arithmetic arithmetic);

/// Microseconds of the tasks of an implicit GEMM, in one kernel a stage or not, on an H200's
/// multiprocessors or as many like them as `target` has.
double implicit_gemm_us(const Tiling& tiling, const Target& target, bool staged);

/// Sizes of the tasks of an implicit GEMM.
void choose_implicit_gemm(Tiling& tiling, const TilingOptions& options, const Target& target);

/// Filter transform tasks of a run that has any: NF unless filters are prepared.
std::uint32_t count_filter_tasks(const Tiling& tiling);

/// NF + NG (SI + SG + SO).
std::uint64_t num_tasks(const Tiling& tiling);

const char* to_string(Algorithm algorithm) noexcept;  ///< "automatic", "direct", "winograd"
const char* to_string(Points points) noexcept;        ///< "low_error", "integer"
const char* to_string(FilterMode filters) noexcept;   ///< "every_run", "prepared"

}  // namespace megaconv
