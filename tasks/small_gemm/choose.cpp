// SPDX-License-Identifier: Apache-2.0
// Which tile a convolution of a network is cut into: the one whose last task is through first.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>

#include "megaconv/error.hpp"
#include "tasks/even_shares.hpp"
#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// Clocks of an H100, of which a task takes some whatever it computes: to be told that its input is
// there, the first loads, and to publish its outputs.
constexpr double kTaskClocks = 3500;
constexpr double kBlockClocks = 250;      // of a K block: barriers
constexpr double kLateBlockClocks = 500;  // more where its loads begin behind another's products
constexpr double kL2BytesPerClock = 40, kSharedBytesPerClock = 128;
constexpr double kEarly = 0.3;              // part of the time of loads that begin before the wait
constexpr double kPieceClocks = 0.5;        // of an SM for a piece of a pixel
constexpr double kFindClocks = 1200;        // of a K block whose places are found behind the wait
constexpr double kConvertedClocks = 1.2;    // the same where it is converted
constexpr double kInstructionClocks = 1.7;  // of an SM for one mma.m16n8k16
constexpr double kStepClocks = 60, kTileClocks = 20;  // of a warp for a step, and a tile of it
constexpr double kOutputClocks = 0.25;                // of an SM for one output
// Of tasks that share sums: barriers of their cluster, and sums on their way through it.
constexpr double kExchangeClocks = 1000, kClusterBytesPerClock = 16;

// As many as there is code for.
double tiles_computed(const SmallGemmCut& cut) {
  const std::uint32_t pixels = cut.rows_per_group * cut.cols_per_group;
  const std::uint32_t tiles =
      ceil_div(ceil_div(pixels, SmallGemmCut::kWarpPixels), cut.pixel_warps);
  return tiles <= 2 ? tiles : 4;
}

double task_clocks(const SmallGemmCut& cut) {
  const SumSteps sum = steps_of(cut);
  const TaskMemory memory = memory_of(cut);
  const auto parts = static_cast<double>(parts_of(cut));
  const auto blocks = static_cast<double>(sum.k_blocks());
  const double products = parts == 2 ? 3 : 1, tiles = tiles_computed(cut);
  const double warp_steps =
      blocks * static_cast<double>(ceil_div(sum.per_block(), std::int64_t{cut.sum_warps}));
  const double warps_steps = warp_steps * SmallGemmCut::kWarps;
  const double x_bytes = blocks * static_cast<double>(memory.x_bytes);
  const double element = static_cast<double>(size_of(cut.problem.dtype));
  const double pieces = x_bytes / (loads_vectors(cut) ? 16 : 8);
  const double early = static_cast<double>(sum.stages) / blocks;
  const double bytes = x_bytes * element / 2 + blocks * static_cast<double>(memory.filter_bytes) *
                                                   (1 - early * (1 - kEarly));
  const bool late = pieces / blocks > 8 * 32 * SmallGemmCut::kWarps || sum.row_blocks > 4;
  const double of_piece = converts(cut) ? kConvertedClocks : kPieceClocks;
  const double copies = std::max(pieces * of_piece, bytes / kL2BytesPerClock);
  const double shared = warps_steps * parts * (1024 + tiles * 512) / kSharedBytesPerClock;
  const double instructions = warps_steps * tiles * 2 * products * kInstructionClocks;
  const double latency = warp_steps * products * (kStepClocks + tiles * kTileClocks);
  const double work = std::max({shared, instructions, latency});
  // Of several K blocks, copies and products overlap but for the first one's.
  const double overlap = std::min(work, copies) * (1 - early);
  const double outputs = cut.rows_per_group * cut.cols_per_group * cut.own_filters();
  const double exchange =
      cut.shares == 1
          ? 0
          : kExchangeClocks + static_cast<double>(memory.received_bytes) *
                                  (1.0 / kClusterBytesPerClock + 1.0 / kSharedBytesPerClock);
  const double sums = 2 * static_cast<double>(memory.sum_bytes) / kSharedBytesPerClock;
  return kTaskClocks + blocks * (kBlockClocks + (late ? kFindClocks : 0)) +
         blocks * (1 - early) * kLateBlockClocks + copies + work - overlap + sums + exchange +
         outputs * kOutputClocks;
}

// Calls visit(filter_warps, pixel_warps, sum_warps, shares) for all ways to share out a task.
// Clusters of a launch have one size.
template <class Visit>
void for_each_split(std::uint32_t cluster_blocks, Visit visit) {
  constexpr std::uint32_t kWarps = SmallGemmCut::kWarps;
  for (std::uint32_t filters = 1; filters <= kWarps; filters *= 2) {
    for (std::uint32_t pixels = 1; filters * pixels <= kWarps; pixels *= 2) {
      visit(filters, pixels, kWarps / filters / pixels, 1u);
      if (cluster_blocks > 1) {
        visit(filters, pixels, kWarps / filters / pixels, cluster_blocks);
      }
    }
  }
}

// As even as they can be where no tile has more.
std::uint32_t even_tile(std::int64_t extent, std::int64_t most) {
  return u32(u64(ceil_div(extent, ceil_div(extent, std::clamp<std::int64_t>(most, 1, extent)))));
}

}  // namespace

SmallGemmMachine small_gemm_machine(const Target& target) {
  SmallGemmMachine machine;
  machine.multiprocessors =
      std::max(1u, target.multiprocessors != 0 ? target.multiprocessors : target.workers / 2);
  // Two blocks share a multiprocessor. The driver keeps 1 KB of each, and kernels have some more
  // (H200, ResNet-50 in one launch: FP16 280 us with 110 KB, 287 with 96; FP32 651 and 687).
  constexpr std::size_t kBlocks = 2, kKept = 4 << 10;
  machine.shared_bytes =
      std::max(machine.shared_bytes, u32(std::max(target.shared_bytes / kBlocks, kKept) - kKept));
  machine.cluster_blocks = std::min(target.cluster_blocks, kMostShares);
  return machine;
}

SmallGemmCut cut_small_gemm(const ConvProblem& problem, Precision precision,
                            const SmallGemmMachine& machine, const SmallGemmSizes& asked) {
  validate(problem);
  const std::string obstacle = small_gemm_obstacle(problem, precision);
  if (!obstacle.empty()) throw Error(Status::unsupported, obstacle);
  if (machine.multiprocessors == 0) {
    throw Error(Status::invalid_argument, "multiprocessors = 0: must be at least 1");
  }
  SmallGemmCut best{.problem = problem, .precision = precision};
  best.shared_bytes = machine.shared_bytes;
  set_if_asked(best.rows_per_group, asked.rows_per_group);
  set_if_asked(best.cols_per_group, asked.cols_per_group);
  set_if_asked(best.filter_warps, asked.filter_warps);
  best.sum_warps = SmallGemmCut::kWarps / best.filter_warps;
  double least = std::numeric_limits<double>::infinity();
  for (const std::int64_t most_pixels : {448, 224, 112, 56, 48, 28, 16, 8}) {
    for_each_split(machine.cluster_blocks, [&](std::uint32_t over_filters,
                                               std::uint32_t over_pixels, std::uint32_t over_sums,
                                               std::uint32_t shares) {
      SmallGemmCut cut{.problem = problem, .precision = precision};
      cut.shared_bytes = machine.shared_bytes;
      cut.shares = shares;
      cut.cols_per_group = even_tile(problem.q(), most_pixels);
      set_if_asked(cut.cols_per_group, asked.cols_per_group);
      cut.rows_per_group = even_tile(problem.p(), most_pixels / cut.cols_per_group);
      set_if_asked(cut.rows_per_group, asked.rows_per_group);
      cut.filter_warps = over_filters;
      cut.pixel_warps = over_pixels;
      cut.sum_warps = over_sums;
      const std::uint32_t pixel_tiles =
          ceil_div(cut.rows_per_group * cut.cols_per_group, SmallGemmCut::kWarpPixels);
      const bool wastes = over_filters > 1 && cut.filters_per_task() >= 2 * problem.k;
      const bool taken = asked.filter_warps == 0 ? !wastes : asked.filter_warps == over_filters;
      if (!taken || over_pixels > pixel_tiles ||
          ceil_div(pixel_tiles, over_pixels) > SmallGemmCut::kWarpPixelTiles || !can_share(cut) ||
          !fits(cut)) {
        return;
      }
      derive_counts(cut);
      const std::uint64_t tasks = std::uint64_t{cut.num_groups} * cut.tasks_per_group;
      // Of the two blocks that a multiprocessor has, one is to prepare a task of the next operator.
      const double clocks = task_clocks(cut) * static_cast<double>(ceil_div(
                                                   tasks, std::uint64_t{machine.multiprocessors}));
      if (clocks < least) best = cut, least = clocks;
    });
  }
  if (best.num_groups == 0) derive_counts(best);  // says what does not fit
  return best;
}

double small_gemm_us(const SmallGemmCut& cut, std::uint32_t multiprocessors) {
  constexpr double kClocksPerUs = 1755;  // of an H100
  const double tasks = static_cast<double>(cut.num_groups) * cut.tasks_per_group;
  return task_clocks(cut) * std::ceil(tasks / multiprocessors) / kClocksPerUs;
}

}  // namespace megaconv
