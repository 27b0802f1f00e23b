// SPDX-License-Identifier: Apache-2.0
// The room of small-tile implicit GEMM: convolutions of networks on a GPU.
//
//   ConvProblem --cut_small_gemm--> SmallGemmCut --add_small_gemm--> a node of a TaskGraph
//
// Every output is a sum over the taps of a filter and the channels. It is taken in steps: of 64
// bytes of channels of one tap. A matrix instruction takes the channels of a step in any order, as
// long as filters and pixels have the same, so that a thread loads 16 bytes of a pixel at once and
// no number passes through shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "megaconv/graph.hpp"
#include "megaconv/small_gemm.hpp"

namespace megaconv {

struct NodeBuffers;  // lowering.hpp, which bodies do without

/// Bytes of a pixel's channels in one step; a thread loads a quarter of them.
inline constexpr std::int64_t kStepBytes = 64;
/// Bytes that the filters of one matrix instruction have in a step.
inline constexpr std::int64_t kFilterStepBytes = SmallGemmCut::kWarpFilters * kStepBytes;
/// Rows and columns of a filter, at most.
inline constexpr std::int64_t kMostSmallTaps = 16;

/// What of a sum is taken in which step.
struct SumSteps {
  bool vectors = false;  ///< channels are loaded 16 bytes at a time, else number by number
  /// A tap is a whole row of the filter: neighbouring columns of x have neighbouring channels.
  bool whole_rows = false;
  std::int64_t taps_h = 1, taps_w = 1;
  std::int64_t numbers = 1;  ///< of a tap: the channels that a block of filters needs, or a row's
  std::int64_t chunks = 1;   ///< steps of a tap
  std::int64_t total() const { return taps_h * taps_w * chunks; }
};
SumSteps steps_of(const SmallGemmCut& cut);

/// Channels of x that the filters [begin, end) need; in whole vectors of 16 bytes from the first on
/// where they are loaded so.
struct ChannelRange {
  std::int64_t begin = 0, end = 0;
};
ChannelRange channels_of_block(const SmallGemmCut& cut, std::int64_t block);

/// What keeps these tasks from computing the problem; empty when nothing does.
std::string small_gemm_obstacle(const ConvProblem& problem, Precision precision);

/// Chooses a cut for so many multiprocessors. Throws Error(unsupported) with the obstacle.
SmallGemmCut cut_small_gemm(const ConvProblem& problem, Precision precision,
                            std::uint32_t multiprocessors);

/// Checks the fields of a cut that are chosen, and computes those that follow from them. Throws
/// Error(invalid_argument) for a field out of range, Error(unsupported) past 2^31 tasks.
void derive_counts(SmallGemmCut& cut);

/// Bytes of shared memory for the sums of a task.
std::int64_t sum_bytes(const SmallGemmCut& cut);

/// Packed filters, [block of filters][16 of them][step][8 of these][lane of a warp][16 bytes]. Lane
/// l has filter l / 4 of the eight, and the quarter l % 4 of the step's numbers.
std::size_t packed_bytes(const SmallGemmCut& cut);
/// `w`: filters in the problem's layout and storage type.
std::vector<std::byte> pack_filters(const SmallGemmCut& cut, const std::byte* w);

/// Appends a node that reads read.x, and read.residual if the problem has one: its name, its
/// buffers U and y, what its tasks read and write, and its one stage. Returns read with these.
/// Throws as derive_counts() and add_stage() do, and Error(invalid_argument) naming node and buffer
/// where a buffer does not fit.
NodeBuffers add_small_gemm(TaskGraph& graph, const std::string& name, const SmallGemmCut& cut,
                           const NodeBuffers& read);

}  // namespace megaconv
