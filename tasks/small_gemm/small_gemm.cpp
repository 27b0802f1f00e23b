// SPDX-License-Identifier: Apache-2.0
// The cut of a small-tile implicit GEMM: its limits, what follows from it, and its text.
#include "tasks/small_gemm/small_gemm.hpp"

#include <algorithm>
#include <limits>

#include "megaconv/error.hpp"
#include "tasks/checks.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

constexpr std::int64_t kVectorBytes = 16;
// Device code counts the numbers of an image in 32 bits.
constexpr std::int64_t kMostOfImage = std::numeric_limits<std::int32_t>::max();

std::int64_t vector_numbers(const ConvProblem& a) {
  return kVectorBytes / static_cast<std::int64_t>(size_of(a.dtype));
}

DataType stored_by(Precision precision) {
  if (precision == Precision::f16) return DataType::f16;
  return precision == Precision::bf16 ? DataType::bf16 : DataType::f32;
}

}  // namespace

std::string small_gemm_obstacle(const ConvProblem& a, Precision precision) {
  const auto must = [](const std::string& what, const std::string& allowed) {
    return "small-tile implicit GEMM: " + what + ", must be " + allowed;
  };
  if (a.layout != Layout::nhwc) return must(std::string("layout ") + to_string(a.layout), "nhwc");
  if (a.dtype == DataType::i8) return must("storage type i8", "f32, f16 or bf16");
  if (a.dtype != stored_by(precision)) {
    return must(
        std::string("precision ") + to_string(precision) + " of " + to_string(a.dtype) + " tensors",
        a.dtype == DataType::f32 ? "f32 or tf32" : to_string(a.dtype));
  }
  if (a.epilogue.scale) return must("epilogue scale", "left out");
  if (a.r > kMostSmallTaps || a.s > kMostSmallTaps) {
    return must("filter " + std::to_string(a.r) + "x" + std::to_string(a.s),
                "at most " + std::to_string(kMostSmallTaps) + "x" + std::to_string(kMostSmallTaps));
  }
  if (a.h * a.w * a.c > kMostOfImage || a.p() * a.q() * a.k > kMostOfImage) {
    return must("an image of more than 2^31 elements", "smaller");
  }
  return {};
}

ChannelRange channels_of_block(const SmallGemmCut& cut, std::int64_t block) {
  const ConvProblem& a = cut.problem;
  const std::int64_t channels = a.c / a.groups, filters = a.k / a.groups;
  const std::int64_t size = cut.filters_per_task(), first = block * size;
  const std::int64_t last = std::min(first + size, a.k) - 1;
  const std::int64_t align = a.c % vector_numbers(a) == 0 ? vector_numbers(a) : 1;
  return {first / filters * channels / align * align, (last / filters + 1) * channels};
}

SumSteps steps_of(const SmallGemmCut& cut) {
  const ConvProblem& a = cut.problem;
  const std::int64_t step = kStepBytes / static_cast<std::int64_t>(size_of(a.dtype));
  SumSteps steps;
  steps.vectors = a.c % vector_numbers(a) == 0;
  steps.whole_rows = !steps.vectors && a.groups == 1 && a.dilation_w == 1;
  steps.taps_h = a.r;
  steps.taps_w = steps.whole_rows ? 1 : a.s;
  if (steps.whole_rows) {
    steps.numbers = a.s * a.c;
  } else {
    for (std::int64_t block = 0; block < cut.tasks_per_group; ++block) {
      const ChannelRange range = channels_of_block(cut, block);
      steps.numbers = std::max(steps.numbers, range.end - range.begin);
    }
  }
  steps.chunks = ceil_div(steps.numbers, step);
  return steps;
}

void derive_counts(SmallGemmCut& cut) {
  const ConvProblem& a = cut.problem;
  validate(a);
  const std::string obstacle = small_gemm_obstacle(a, cut.precision);
  if (!obstacle.empty()) throw Error(Status::unsupported, obstacle);
  check_range("rows_per_group", cut.rows_per_group, 1, a.p());
  check_range("cols_per_group", cut.cols_per_group, 1, a.q());
  const std::uint32_t pixels = cut.rows_per_group * cut.cols_per_group;
  const std::uint32_t pixel_tiles = ceil_div(pixels, SmallGemmCut::kWarpPixels);
  const auto warps = std::uint64_t{cut.filter_warps} * cut.pixel_warps * cut.sum_warps;
  if (warps != SmallGemmCut::kWarps) {
    throw Error(Status::invalid_argument, "warps " + std::to_string(cut.filter_warps) + " x " +
                                              std::to_string(cut.pixel_warps) + " x " +
                                              std::to_string(cut.sum_warps) + ": must be " +
                                              std::to_string(SmallGemmCut::kWarps) + " in all");
  }
  check_range("pixels of a warp in eights", ceil_div(pixel_tiles, cut.pixel_warps), 1,
              SmallGemmCut::kWarpPixelTiles);
  const std::uint64_t groups = u64(a.n) * ceil_div(u64(a.p()), std::uint64_t{cut.rows_per_group}) *
                               ceil_div(u64(a.q()), std::uint64_t{cut.cols_per_group});
  const std::uint64_t per_group = ceil_div(u64(a.k), std::uint64_t{cut.filters_per_task()});
  if (groups * per_group > kMaxTasks) {
    throw Error(Status::unsupported, std::to_string(groups * per_group) +
                                         " tasks: must be at most 2^31; use larger groups");
  }
  cut.num_groups = u32(groups);
  cut.tasks_per_group = u32(per_group);
}

std::int64_t sum_bytes(const SmallGemmCut& cut) {
  const std::int64_t pixels =
      ceil_div(cut.rows_per_group * cut.cols_per_group, SmallGemmCut::kWarpPixels) *
      std::int64_t{SmallGemmCut::kWarpPixels};
  return pixels * (cut.filters_per_task() + 4) * cut.sum_warps * std::int64_t{sizeof(float)};
}

std::string to_string(const SmallGemmCut& cut) {
  return "problem: " + to_string(cut.problem) + "\nalgorithm: small-tile implicit GEMM, " +
         to_string(cut.precision) + "\npixels of a group: " + std::to_string(cut.rows_per_group) +
         " x " + std::to_string(cut.cols_per_group) +
         "\ntask: " + std::to_string(cut.filters_per_task()) + " filters; warps over filters " +
         std::to_string(cut.filter_warps) + ", pixels " + std::to_string(cut.pixel_warps) +
         ", sums " + std::to_string(cut.sum_warps) +
         "\ntask groups: " + std::to_string(cut.num_groups) +
         "\ntasks: " + std::to_string(std::uint64_t{cut.num_groups} * cut.tasks_per_group) +
         " (SG " + std::to_string(cut.tasks_per_group) + ")\n";
}

}  // namespace megaconv
