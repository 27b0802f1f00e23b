// SPDX-License-Identifier: Apache-2.0
// Which tile a convolution of a network is cut into: the one whose last task is through first.
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>

#include "megaconv/error.hpp"
#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// Clocks of an H100, of which a task takes some whatever it computes: to be told that its input is
// there, the first loads, and to publish its outputs.
constexpr double kTaskClocks = 3500;
constexpr double kStepClocks = 350;  // of a warp, which has the next step's loads on their way
constexpr double kL2BytesPerClock = 40, kL1BytesPerClock = 64, kSharedBytesPerClock = 128;
constexpr double kInstructionClocks = 3.2;  // of an SM for one mma.m16n8 of 64 bytes of channels
// More shared memory for sums would leave less to the L1 cache.
constexpr std::int64_t kMostSumBytes = 36 << 10;

double products(Precision precision) { return precision == Precision::f32 ? 3 : 1; }

double task_clocks(const SmallGemmCut& cut) {
  const ConvProblem& a = cut.problem;
  const SumSteps sum = steps_of(cut);
  const auto steps = static_cast<double>(sum.total());
  const double warp_steps = static_cast<double>(ceil_div(sum.total(), std::int64_t{cut.sum_warps}));
  const std::uint32_t pixels = cut.rows_per_group * cut.cols_per_group;
  const double pixel_tiles = ceil_div(ceil_div(pixels, SmallGemmCut::kWarpPixels), cut.pixel_warps);
  const auto reach = [](double outputs, std::int64_t stride, std::int64_t extent) {
    return (outputs - 1) * static_cast<double>(stride) + static_cast<double>(extent);
  };
  const double inputs = reach(cut.rows_per_group, a.stride_h, a.filter_extent_h()) *
                        reach(cut.cols_per_group, a.stride_w, a.filter_extent_w()) *
                        static_cast<double>(sum.numbers) * static_cast<double>(size_of(a.dtype));
  const double filters = cut.filters_per_task() * steps * static_cast<double>(kStepBytes);
  const double loads =
      warp_steps * SmallGemmCut::kWarps * (1024 + pixel_tiles * 512) * (sum.vectors ? 1 : 8);
  const double instructions =
      2 * products(cut.precision) * warp_steps * SmallGemmCut::kWarps * pixel_tiles;
  const double sums = 2 * static_cast<double>(sum_bytes(cut)) / kSharedBytesPerClock;
  return kTaskClocks + sums +
         std::max({(inputs + filters) / kL2BytesPerClock, loads / kL1BytesPerClock,
                   instructions * kInstructionClocks, warp_steps * kStepClocks});
}

// Calls visit(filter_warps, pixel_warps, sum_warps) for all ways to share out a task.
template <class Visit>
void for_each_split(Visit visit) {
  constexpr std::uint32_t kWarps = SmallGemmCut::kWarps;
  for (std::uint32_t filters = 1; filters <= kWarps; filters *= 2) {
    for (std::uint32_t pixels = 1; filters * pixels <= kWarps; pixels *= 2) {
      visit(filters, pixels, kWarps / filters / pixels);
    }
  }
}

// As even as they can be where no tile has more.
std::uint32_t even_tile(std::int64_t extent, std::int64_t most) {
  return u32(u64(ceil_div(extent, ceil_div(extent, std::clamp<std::int64_t>(most, 1, extent)))));
}

}  // namespace

SmallGemmCut cut_small_gemm(const ConvProblem& problem, Precision precision,
                            std::uint32_t multiprocessors) {
  validate(problem);
  const std::string obstacle = small_gemm_obstacle(problem, precision);
  if (!obstacle.empty()) throw Error(Status::unsupported, obstacle);
  if (multiprocessors == 0) {
    throw Error(Status::invalid_argument, "multiprocessors = 0: must be at least 1");
  }
  SmallGemmCut best;
  double least = std::numeric_limits<double>::infinity();
  for (const std::int64_t most_pixels : {128, 64, 56, 48, 32, 16, 8}) {
    for_each_split([&](std::uint32_t over_filters, std::uint32_t over_pixels,
                       std::uint32_t over_sums) {
      SmallGemmCut cut{.problem = problem, .precision = precision};
      cut.cols_per_group = even_tile(problem.q(), most_pixels);
      cut.rows_per_group = even_tile(problem.p(), most_pixels / cut.cols_per_group);
      cut.filter_warps = over_filters;
      cut.pixel_warps = over_pixels;
      cut.sum_warps = over_sums;
      const std::uint32_t filters = cut.filters_per_task();
      const std::uint32_t pixel_tiles =
          ceil_div(cut.rows_per_group * cut.cols_per_group, SmallGemmCut::kWarpPixels);
      const bool fits = (over_filters == 1 || filters < 2 * problem.k) &&
                        over_pixels <= pixel_tiles &&
                        ceil_div(pixel_tiles, over_pixels) <= SmallGemmCut::kWarpPixelTiles &&
                        sum_bytes(cut) <= kMostSumBytes;
      if (!fits) return;
      derive_counts(cut);
      const std::uint64_t tasks = std::uint64_t{cut.num_groups} * cut.tasks_per_group;
      // Of the two blocks that a multiprocessor has, one is to prepare a task of the next operator.
      const double clocks =
          task_clocks(cut) * static_cast<double>(ceil_div(tasks, std::uint64_t{multiprocessors}));
      if (clocks < least) best = cut, least = clocks;
    });
  }
  return best;
}

}  // namespace megaconv
