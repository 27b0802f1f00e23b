// SPDX-License-Identifier: Apache-2.0
// Which tile a convolution of a network is cut into: the one whose last task is through first.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "megaconv/error.hpp"
#include "tasks/even_shares.hpp"
#include "tasks/gpu_memory.hpp"
#include "tasks/small_gemm/computed_input.hpp"
#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// Microseconds of the phases of a task on an H100, fitted to traces of one launch: 641 cuts of
// ResNet-50 and DenseNet-161 with one image. Where a task has no late K block, its phases are
// within 0.1 to 0.2 us. What late ones take is of 389 older cuts, of VGG-16 and MobileNetV2, too.
// Since then outputs became faster, by means of all tasks.
struct PhaseCosts {
  double load, load_of_kb;              // first K blocks of x: any, and for each KB
  double products, step, step_of_tile;  // any; for each step of a warp, and each tile of it
  double late_block, late_kb;           // K blocks that take the place of others
  double outputs, outputs_of_thousand, signal;
};
constexpr PhaseCosts kHalves{0.49, 0.016, 0.22, 0.037, 0.024, 0.9, 0, 0.92, 0, 0.61};
constexpr PhaseCosts kRounded{0.67, 0.062, 0.29, 0.051, 0.024, 1.5, 0.015, 0.78, 0.155, 0.61};
constexpr PhaseCosts kPairs{0.62, 0.070, 0.25, 0.094, 0.052, 1.7, 0.020, 1.25, 0.042, 0.57};

constexpr double kWaitUs = 0.8;      // from the last signal of a task's producers on
constexpr double kFindUs = 0.7;      // of a task that finds its places of x behind the wait
constexpr double kExchangeUs = 0.2;  // of a task that shares its sum, for each that does
// Of a task that pools: ResNet-50's maximum of 3x3 takes 1.6 us, its average of 7x7 2.6.
constexpr double kPoolUs = 1.3, kPoolOfNumberUs = 0.027;
// A task of several parts of rows takes longer: it makes more signals (H100, MobileNetV2 in FP16:
// a launch 2 % slower where such tiles were estimated to be as fast).
constexpr double kPartsOfRows = 1.05;
// So do narrow ones of pixels that come from memory, each row from somewhere else (H100, FP32:
// n1c152h297k16r1p0 43.5 us by 33 x 7 pixels, 35.8 by 7 x 32 or 4 x 56).
constexpr double kNarrowThroughMemory = 1.2;
constexpr std::uint32_t kNarrowCols = 8;
// What two tasks on a multiprocessor take longer, and their late K blocks. Then no task of the next
// operator has begun before the wait.
constexpr double kTwoTogether = 1.08, kTwoTogetherLate = 1.5, kNothingAheadUs = 1;
// From the end of a task to the beginning of the next one that waits for nothing.
constexpr double kNextTaskUs = 2;
// Floats take longer to begin, fitted to whole networks in one launch (networks_gpu.md).
constexpr double kNextOfFloatsUs = 1;
constexpr double kL2BytesPerUs = 5.5e6, kFilterBytesPerUs = 3e6;
// Where filters are what takes long: no more of them are under way from a turn's last to the next
// one's first (H100, stages: a layer of 4,096 filters of 4,096 channels, 20 us in two turns).
constexpr double kNextFiltersUs = 5;
// The first filters of a task that does not have them yet (H100: stages of one image).
constexpr double kFirstFilterBytesPerUs = 8e4;

const PhaseCosts& costs_of(const SmallGemmCut& cut) {
  return !converts(cut) || x_in_pairs(cut) ? kHalves : parts_of(cut) == 2 ? kPairs : kRounded;
}
const PhaseCosts& output_costs_of(const SmallGemmCut& cut) {
  const bool as_halves = cut.pairs.y && !cut.pairs.rests && !cut.problem.epilogue.residual;
  return !converts(cut) || as_halves ? kHalves : parts_of(cut) == 2 ? kPairs : kRounded;
}

// As many as there is code for.
double tiles_computed(const SmallGemmCut& cut) {
  const std::int64_t tiles =
      ceil_div(ceil_div(computed_pixels(cut), std::int64_t{SmallGemmCut::kWarpPixels}),
               std::int64_t{cut.pixel_warps});
  return tiles <= 2 ? static_cast<double>(tiles) : 4;
}

double num_tasks(const SmallGemmCut& cut) {
  return static_cast<double>(cut.num_groups) * cut.tasks_per_group;
}

double pool_us(const SmallGemmCut& cut) {
  if (!cut.pool) return 0;
  return kPoolUs + kPoolOfNumberUs * static_cast<double>(cut.pool->r * cut.pool->s);
}

// Of a task that computes its x, fitted to what blocks of MobileNetV2 take on an H100, with 1, 8
// and 64 images (docs/notebook/networks_gpu.md): each K block; nine taps of the pieces that all
// threads have at a time, whose e comes from memory or is computed; then, a step of 32 pixels by
// eight channels of e for every warp.
struct ComputedInputCosts {
  double any, block, window;
};
constexpr ComputedInputCosts kStoredSource{0.35, 0.46, 0.94}, kExpandedSource{2.06, 0.46, 0.74};
constexpr double kFloatWindow = 0.62;  // pieces have half as many numbers
constexpr double kExpandStepUs = 0.2, kExpandPairs = 2.5;
double computed_input_us(const SmallGemmCut& cut, const SumSteps& sum) {
  if (!cut.depthwise) return 0;
  const ComputedInputCosts& costs = cut.expand ? kExpandedSource : kStoredSource;
  constexpr std::int64_t kWarps = SmallGemmCut::kWarps;
  const std::int64_t channels = sum.chunks * kStepNumbers;
  const std::int64_t pixels_at_once = 32 * kWarps / (channels / piece_numbers(cut));
  const auto turns = static_cast<double>(ceil_div(computed_pixels(cut), pixels_at_once));
  const auto taps = static_cast<double>(cut.depthwise->r * cut.depthwise->s);
  double block_us =
      costs.block + turns * costs.window * (converts(cut) ? kFloatWindow : 1) * taps / 9;
  if (cut.expand) {
    const std::int64_t units =
        ceil_div(computed_input_memory(cut, sum).pixels(), std::int64_t{32}) *
        (channels / kExpandTile);
    block_us += kExpandStepUs * (parts_of(cut) == 2 ? kExpandPairs : 1) *
                static_cast<double>(ceil_div(units, kWarps) * expand_steps(*cut.expand));
  }
  return costs.any + static_cast<double>(sum.channel_blocks) * block_us;
}

double first_filters_us(const SumSteps& sum, const TaskMemory& memory) {
  return static_cast<double>(memory.filter_bytes * sum.stages) / kFirstFilterBytesPerUs;
}

// Calls visit(filter_warps, pixel_warps, sum_warps, shares) for all ways to share out a task.
template <class Visit>
void for_each_split(const SmallGemmMachine& machine, Visit visit) {
  constexpr std::uint32_t kWarps = SmallGemmCut::kWarps;
  for (std::uint32_t shares = 1; shares <= machine.cluster_blocks; shares *= 2) {
    const bool has_size = machine.clusters_of_any_size || shares == machine.cluster_blocks;
    if (shares > 1 && !has_size) continue;
    for (std::uint32_t filters = 1; filters <= kWarps; filters *= 2) {
      for (std::uint32_t pixels = 1; filters * pixels <= kWarps; pixels *= 2) {
        visit(filters, pixels, kWarps / filters / pixels, shares);
      }
    }
  }
}

// As even as they can be where no tile has more, in multiples of a step.
std::uint32_t even_tile(std::int64_t extent, std::int64_t most, std::int64_t step) {
  const std::int64_t tiles = ceil_div(extent, std::clamp<std::int64_t>(most, 1, extent));
  return u32(u64(std::min(extent, ceil_div(ceil_div(extent, tiles), step) * step)));
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
                            const SmallGemmMachine& machine, const SmallGemmSizes& asked,
                            const std::optional<PoolProblem>& pool, const PairTensors& pairs,
                            const InputMakers& makers) {
  validate(problem);
  const std::string obstacle = small_gemm_obstacle(problem, precision);
  if (!obstacle.empty()) throw Error(Status::unsupported, obstacle);
  if (machine.multiprocessors == 0) {
    throw Error(Status::invalid_argument, "multiprocessors = 0: must be at least 1");
  }
  SmallGemmCut plain{.problem = problem, .precision = precision};
  plain.shared_bytes = machine.shared_bytes;
  plain.pool = pool;
  plain.pairs = pairs;
  plain.depthwise = makers.depthwise;
  plain.expand = makers.expand;
  SmallGemmCut best = plain;
  set_if_asked(best.rows_per_group, asked.rows_per_group);
  set_if_asked(best.cols_per_group, asked.cols_per_group);
  set_if_asked(best.filter_warps, asked.filter_warps);
  best.sum_warps = SmallGemmCut::kWarps / best.filter_warps;
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::pair<std::uint32_t, std::uint32_t>> tried;
  const auto try_tiles = [&](std::int64_t most_pixels, std::int64_t most_cols) {
    std::uint32_t cols = even_tile(problem.q(), most_cols, pool ? pool->stride_w : 1);
    set_if_asked(cols, asked.cols_per_group);
    std::uint32_t rows = even_tile(problem.p(), most_pixels / cols, pool ? pool->stride_h : 1);
    set_if_asked(rows, asked.rows_per_group);
    const std::pair tile(rows, cols);
    if (std::find(tried.begin(), tried.end(), tile) != tried.end()) return;
    tried.push_back(tile);
    for_each_split(machine, [&](std::uint32_t over_filters, std::uint32_t over_pixels,
                                std::uint32_t over_sums, std::uint32_t shares) {
      SmallGemmCut cut = plain;
      cut.shares = shares;
      cut.rows_per_group = rows;
      cut.cols_per_group = cols;
      cut.filter_warps = over_filters;
      cut.pixel_warps = over_pixels;
      cut.sum_warps = over_sums;
      const std::uint32_t pixel_tiles =
          u32(u64(ceil_div(computed_pixels(cut), std::int64_t{SmallGemmCut::kWarpPixels})));
      const bool wastes = over_filters > 1 && cut.filters_per_task() >= 2 * problem.k;
      const bool taken = asked.filter_warps == 0 ? !wastes : asked.filter_warps == over_filters;
      if (!taken || over_pixels > pixel_tiles ||
          ceil_div(pixel_tiles, over_pixels) > SmallGemmCut::kWarpPixelTiles || !can_share(cut) ||
          !has_all_residuals(cut) || !fits(cut)) {
        return;
      }
      derive_counts(cut);
      const double us = small_gemm_us(cut, machine.multiprocessors);
      if (us < least) best = cut, least = us;
    });
  };
  for (const std::int64_t most_pixels : {448, 256, 224, 112, 56, 48, 28, 16, 8}) {
    try_tiles(most_pixels, most_pixels);
    // A tile that is not so wide has less beyond it, and more of its pixels exist. Whole rows of
    // 1x1 filters have nothing beyond them; but a few long ones are not as many as pixels that fit.
    constexpr std::int64_t kLongRow = 57, kLeastOfLong = 14;
    const bool whole_rows = !pool && problem.r == 1 && problem.q() <= most_pixels;
    if (whole_rows && problem.q() < kLongRow) continue;
    for (const std::int64_t most_cols : {56, 32, 28, 14, 7}) {
      if (whole_rows && most_cols < kLeastOfLong) continue;
      if (most_cols < most_pixels) try_tiles(most_pixels, most_cols);
    }
  }
  if (best.num_groups == 0) derive_counts(best);  // says what does not fit
  return best;
}

double small_gemm_turns(const SmallGemmCut& cut, std::uint32_t multiprocessors) {
  const double resident = 2.0 * multiprocessors * resident_in_clusters(cut.shares);
  return std::max(1.0, std::ceil(num_tasks(cut) / resident));
}

double small_gemm_first_filters_us(const SmallGemmCut& cut) {
  return first_filters_us(steps_of(cut), memory_of(cut));
}

namespace {

TaskTime time_of(const SmallGemmCut& cut, const SumSteps& sum, const TaskMemory& memory) {
  const PhaseCosts& costs = costs_of(cut);
  constexpr double kKb = 1000;
  const auto x_bytes = static_cast<double>(memory.x_bytes);
  const auto filter_bytes = static_cast<double>(memory.filter_bytes);
  const auto blocks = static_cast<double>(sum.k_blocks()), stages = static_cast<double>(sum.stages);
  const double steps =
      blocks * static_cast<double>(ceil_div(sum.per_block(), std::int64_t{cut.sum_warps}));
  const auto outputs = static_cast<double>(computed_pixels(cut) * cut.own_filters());
  const double pieces = x_bytes / (loads_vectors(cut) ? 16 : 8);
  const bool finds_late = pieces > 8 * 32 * SmallGemmCut::kWarps || sum.row_blocks > 4;

  const double load = costs.load + costs.load_of_kb * stages * x_bytes / kKb +
                      (finds_late ? kFindUs : 0) + computed_input_us(cut, sum);
  const double products =
      costs.products + steps * (costs.step + costs.step_of_tile * tiles_computed(cut));
  const double late =
      (blocks - stages) * (costs.late_block + costs.late_kb * (x_bytes + filter_bytes / 2) / kKb);
  const PhaseCosts& of_outputs = output_costs_of(cut);
  const double store = (cut.shares > 1 ? kExchangeUs * cut.shares : 0) + of_outputs.outputs +
                       of_outputs.outputs_of_thousand * outputs / 1000 + pool_us(cut) +
                       of_outputs.signal;
  const bool has_parts = cut.rows_per_group > 1 && cut.cols_per_group < cut.problem.q();
  const double longer = has_parts ? kPartsOfRows : 1;
  return {
      .prepare_us =
          kNextTaskUs + (x_tensors(cut) > 1 ? kNextOfFloatsUs : 0) + first_filters_us(sum, memory),
      .alone_us = longer * (load + products + late + store),
      .together_us = longer * (kTwoTogether * (load + products + store) + kTwoTogetherLate * late)};
}

}  // namespace

// All tasks in pairs take so much longer than by FP16's costs, in the mean: cuts are chosen without
// it (H100, ResNet-50 and VGG-16 in one launch).
constexpr double kInPairsUs = 0.2;

TaskTime small_gemm_time(const SmallGemmCut& cut) {
  TaskTime time = time_of(cut, steps_of(cut), memory_of(cut));
  if (cut.pairs.inputs) time.alone_us += kInPairsUs, time.together_us += kInPairsUs;
  return time;
}

double small_gemm_us(const SmallGemmCut& cut, std::uint32_t multiprocessors) {
  const SumSteps sum = steps_of(cut);
  const TaskMemory memory = memory_of(cut);
  const TaskTime time = time_of(cut, sum, memory);
  const double tasks = num_tasks(cut);
  const bool alone = tasks <= multiprocessors;
  const double task = alone ? time.alone_us : time.together_us;
  const double turns = small_gemm_turns(cut, multiprocessors);
  const double unprepared = alone ? 0 : kNothingAheadUs + (turns - 1) * kNextTaskUs;
  const double bytes = tasks * static_cast<double>(sum.k_blocks()) *
                       static_cast<double>(memory.x_bytes * x_tensors(cut) + memory.filter_bytes);
  const ConvProblem& problem = cut.problem;
  const bool narrow = problem.r * problem.s == 1 && cut.cols_per_group < kNarrowCols &&
                      cut.cols_per_group < problem.q() && pass_through_memory(problem);
  return (narrow ? kNarrowThroughMemory : 1) *
         (kWaitUs + std::max({turns * task + unprepared, bytes / kL2BytesPerUs,
                              static_cast<double>(packed_bytes(cut)) / kFilterBytesPerUs +
                                  (turns - 1) * kNextFiltersUs}));
}

}  // namespace megaconv
