// SPDX-License-Identifier: Apache-2.0
#include "tasks/direct/depthwise_box.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tasks/gpu_memory.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// H100, 26 layers in FP32 and FP16, up to 100 sizes of tasks each: the chosen ones take 4 % more
// than the best. Microseconds of a run; of a block's task, and of a turn in which its threads
// compute a tile each, where nothing disturbs them; of the same where blocks take a multiprocessor
// in turn: a turn of 3 x 3 taps, and of one tap of larger filters; of pixels that it loads, and
// bytes that it loads in one.
constexpr double kBoxRunUs = 1.3, kBoxTaskUs = 0.9, kBoxTurnUs = 0.63;
constexpr double kBoxTurnOf3x3Us = 0.22, kBoxTurnOfTapUs = 0.0095;
constexpr double kBoxPixelUs = 1e-3, kBoxBytesPerUs = 48e3;
// Pixels of shared memory that are no whole lines of 128 bytes: threads meet banks twice.
constexpr double kBoxBanksMore = 0.055;  // of every byte of a number
// Of tensors that pass through memory; so much of what is second longest is beside nothing.
constexpr double kBoxMemoryBytesPerUs = 3.3e6, kBoxAlone = 0.44;

double box_tasks_us(const ConvProblem& a, const DepthwiseBox& box, double tasks, double turns,
                    double multiprocessors) {
  constexpr int kLine = 128;
  constexpr double kSmallTaps = 9;
  const double taps = static_cast<double>(a.r * a.s), small = taps / kSmallTaps;
  const auto element = static_cast<int>(size_of(a.dtype));
  const int pixel_bytes = box.channels * element;
  const double banks = pixel_bytes % kLine == 0 ? 0 : kBoxBanksMore * element;
  const double at_once = multiprocessors * box.blocks_per_sm();
  const double alone_us =
      std::ceil(tasks / at_once) * (kBoxTaskUs + kBoxTurnUs * turns * small * (1 + banks));
  const double turn_us = a.r == 3 ? kBoxTurnOf3x3Us : kBoxTurnOfTapUs * taps;
  const double together_us = std::ceil(tasks / multiprocessors) * turns * (turn_us + banks * small);
  const double loads_us =
      tasks / multiprocessors * box.rows * box.cols * (kBoxPixelUs + pixel_bytes / kBoxBytesPerUs);
  const double bytes = static_cast<double>((a.x_size() + a.y_size()) * element);
  double us[] = {alone_us, together_us, loads_us,
                 pass_through_memory(a) ? bytes / kBoxMemoryBytesPerUs : 0};
  std::sort(std::begin(us), std::end(us), std::greater<>());
  return kBoxRunUs + us[0] + kBoxAlone * us[1];
}

}  // namespace

BoxTasks choose_boxes(const ConvProblem& a, const Target& target) {
  constexpr std::uint32_t kDown[] = {1, 2, 3, 4, 7}, kAcross[] = {2, 4, 7, 8, 14};
  constexpr std::uint32_t kMostBlocks = 8;
  const DirectShape tile = depthwise_shape(a.layout);
  const double multiprocessors = std::max(1u, target.multiprocessors);
  const std::uint32_t all_down = ceil_div(u32(u64(a.p())), tile.h_tile);
  const std::uint32_t all_across = ceil_div(u32(u64(a.q())), tile.w_tile);
  const std::uint32_t all_blocks = ceil_div(u32(u64(a.k)), Tiling::kLaneBlock);
  BoxTasks best{.cut = {}, .us = std::numeric_limits<double>::infinity()};
  for (std::uint32_t blocks = 1; blocks <= std::min(all_blocks, kMostBlocks); ++blocks) {
    const std::uint32_t parts = ceil_div(all_blocks, blocks);
    if (blocks != ceil_div(all_blocks, parts)) continue;  // the last part would be emptier
    const std::uint32_t tiles_at_once =
        tile.threads() / (blocks * Tiling::kLaneBlock / tile.i_tile);
    for (const std::uint32_t most_down : kDown) {
      for (const std::uint32_t most_across : kAcross) {
        const std::uint32_t down = std::min(most_down, all_down);
        const std::uint32_t across = std::min(most_across, all_across);
        const DirectCut cut{.rows_per_group = down * tile.h_tile,
                            .cols_per_group = across * tile.w_tile,
                            .filter_blocks_per_gemm_task = blocks};
        const DepthwiseBox box = depthwise_box(a, cut);
        if (box.stages == 0) break;
        const std::uint64_t tasks =
            u64(a.n) * ceil_div(all_down, down) * ceil_div(all_across, across) * parts;
        const double us = box_tasks_us(a, box, static_cast<double>(tasks),
                                       ceil_div(down * across, tiles_at_once), multiprocessors);
        if (us < best.us) best = {cut, us};
      }
    }
  }
  return best;
}

}  // namespace megaconv
