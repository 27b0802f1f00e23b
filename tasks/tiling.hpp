// SPDX-License-Identifier: Apache-2.0
// What the rooms need of the tiling of a convolution beyond the public header.
#pragma once

#include <string>

#include "megaconv/tiling.hpp"
#include "tasks/ceil_div.hpp"

namespace megaconv {

struct Lowering;  // megaconv/lowering.hpp

constexpr std::uint32_t u32(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
constexpr std::uint64_t u64(std::int64_t value) { return static_cast<std::uint64_t>(value); }

/// Bytes of one lane block in U, V, M or a packed input.
inline constexpr std::uint64_t kBlockBytes = Tiling::kLaneBlock * sizeof(float);

/// Bytes of one number of U, V and M: 2 where one product of 16-bit numbers is taken.
constexpr std::uint64_t number_bytes(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::f16 || arithmetic == Arithmetic::bf16 ? 2 : sizeof(float);
}
/// Tiles and filters whose sums have a factor in common, where M has numbers of 2 bytes.
inline constexpr int kScaledSums = 16;
/// Bytes of so many sums of M, of `sum_bytes` each, and of their factors, which are floats.
constexpr std::int64_t bytes_of_m(std::int64_t sums, std::int64_t sum_bytes) {
  constexpr std::int64_t kFactorBytes = sizeof(float);
  return sums * sum_bytes +
         (sum_bytes < kFactorBytes ? sums / (kScaledSums * kScaledSums) * kFactorBytes : 0);
}

/// Words of 32 bits that hold the channels of one conv group in U, V and packed inputs: one each;
/// direct tasks on i8 have four in one.
std::uint64_t channel_words(const Tiling& tiling);
/// Parts of the filters that are padded to whole lane blocks each: those of conv groups that are
/// multiplied as one; all, if depthwise.
std::int64_t padded_groups(const Tiling& tiling);
/// Channels that are added up under a tap: of conv groups that are multiplied as one, or where
/// strides are channels.
std::int64_t channels_at_once(const Tiling& tiling);

/// Whether products may be of numbers that are rounded to FP16: tensors have 16 bits, or the
/// precision asked for permits it.
bool permits_f16(DataType dtype, Precision precision);

/// Checks the fields of a tiling that are chosen, and computes those that follow from them (tile
/// counts, NG, NF, SI, SG, SO). The window is clamped to NG slots; 0 slots mean NG.
/// Throws Error(invalid_argument) for a field out of range, Error(unsupported) for a layout or
/// arithmetic that has no tasks or too many groups.
void derive_counts(Tiling& tiling);

/// Throws Error(invalid_argument) unless the cuts of a lowering are such that derive_counts()
/// makes, and its stages and buffers those of these cuts. Its regions are then those of the rooms.
void check_cut(Lowering& lowering);

/// On CUDA Winograd's input tasks write V in runs of so many tiles: a task has whole runs, or all
/// tiles of its group.
constexpr std::uint32_t tiles_of_v_run(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::fma ? 4 : 16;
}

/// Sizes of the filter tasks of a tiling for CUDA kernels that transform filters: small enough for
/// `wanted` tasks, if they can be.
void choose_filter_tasks_for_cuda(Tiling& tiling, std::uint32_t wanted);

/// What direct tasks multiply with: FFMA, if the problem is not for those on tensor cores.
Arithmetic direct_arithmetic(const ConvProblem& problem, const TilingOptions& options,
                             const Target& target);
/// Sizes of the tasks of a direct tiling on a GPU.
void choose_direct_for_cuda(Tiling& tiling, const Target& target);

/// NF + NG (SI + SG + SO).
std::uint64_t num_tasks(const Tiling& tiling);

/// "2x3".
std::string pair_text(std::int64_t vertical, std::int64_t horizontal);

const char* to_string(Algorithm algorithm) noexcept;  ///< "automatic", "direct", "winograd"
const char* to_string(Points points) noexcept;        ///< "low_error", "integer"
const char* to_string(FilterMode filters) noexcept;   ///< "every_run", "prepared"

}  // namespace megaconv
