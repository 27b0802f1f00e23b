// SPDX-License-Identifier: Apache-2.0
// Which number of a filter is where in the packed filters (small_gemm.hpp), for the host and for
// the kernel that packs filters which are on a device.
#pragma once

#include <cstdint>

#include "tasks/small_gemm/small_gemm.hpp"

namespace megaconv {

struct FilterPlaces {
  explicit FilterPlaces(const SmallGemmCut& cut);

  // Of a step of 16 filters, [part][matrix instruction][lane][8 numbers].
  static constexpr std::int64_t kLanes = 32, kLaneNumbers = 8, kInstructions = 2;
  static constexpr std::int64_t kInstructionNumbers = kLanes * kLaneNumbers;
  static constexpr std::int64_t kPartNumbers = kInstructions * kInstructionNumbers;
  static constexpr std::int64_t kQuarters = 4, kHalfFilters = SmallGemmCut::kWarpFilters / 2;

  std::int64_t filters, rows, cols, channels;  ///< K, R, S, C / groups
  std::int64_t group_filters, channel_step;    ///< K / groups; what blocks' channels begin at
  std::int64_t filters_per_task, num_blocks;   ///< of a block; blocks
  std::int64_t k_blocks;                       ///< of all that share a sum
  std::int64_t steps, parts, scales_at;        ///< of a K block, of a number; 0: no scales
  SumSteps sum;

  /// Place in w of what a step of a block has as a number of a filter; -1: zero.
  constexpr std::int64_t at(std::int64_t block, std::int64_t filter, std::int64_t k_block,
                            std::int64_t step, std::int64_t number) const {
    const std::int64_t chunk = step % sum.chunks, tap = step / sum.chunks;
    const std::int64_t row = k_block % sum.row_blocks * sum.taps_h + tap / sum.taps_w;
    std::int64_t col = tap % sum.taps_w;
    std::int64_t channel = (k_block / sum.row_blocks * sum.chunks + chunk) * kStepNumbers + number;
    if (sum.whole_rows) {
      col = channel / sum.pixel;
      channel %= sum.pixel;
    }
    if (filter >= filters || row >= rows || col >= cols || channel >= sum.channels) return -1;
    const std::int64_t first = block * filters_per_task / group_filters * channels;
    channel += first / channel_step * channel_step - filter / group_filters * channels;
    if (channel < 0 || channel >= channels) return -1;  // of another conv group
    return ((filter * rows + row) * cols + col) * channels + channel;
  }
};

}  // namespace megaconv
