// SPDX-License-Identifier: Apache-2.0
// Direct tilings for GPUs: which of the compiled shapes suits a problem.
#include <algorithm>
#include <limits>

#include "tasks/direct/depthwise_box.hpp"
#include "tasks/direct/direct_shapes.hpp"
#include "tasks/direct/few_terms.hpp"
#include "tasks/gpu_memory.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// What a depthwise task costs beside its threads' tiles, in tiles of a thread: to be taken and
// signalled, and to wait for its first loads. Estimated.
constexpr std::uint64_t kDepthwiseTaskCost = 2;
// Tiles of a thread: tasks that others wait for should not be longer. Where tensors pass through
// memory, blocks that run at a time should read and write what lies side by side: so many bytes of
// outputs (H100: n5c224h177r3g224 102 us, not 124, in FP16 66, not 70).
constexpr std::uint64_t kMostDepthwiseTiles = 8, kDepthwiseBytes = 256;

std::uint64_t most_depthwise_tiles(const ConvProblem& a, const DirectShape& tile) {
  const std::uint64_t element = size_of(a.dtype);
  const bool has_large_halo = a.r > 3;
  if (!pass_through_memory(a) || has_large_halo || a.c % tile.i_tile != 0) {
    return kMostDepthwiseTiles;
  }
  return kDepthwiseBytes / (std::uint64_t{tile.h_tile} * tile.w_tile * tile.i_tile * element);
}
constexpr std::uint32_t kMostDepthwiseCols = 128;

// A part of `size` where it is cut evenly into parts of at most `most`.
constexpr std::uint32_t even_part(std::uint32_t size, std::uint32_t most) {
  return ceil_div(size, ceil_div(size, most));
}

// Sizes of depthwise tasks by which all waves of tasks together are shortest.
struct DepthwiseTasks {
  std::uint32_t rows = 0, cols = 0, blocks = 0;

  DepthwiseTasks(const ConvProblem& a, std::uint32_t filter_blocks, const Target& target) {
    // Whoever shares a target with tensor cores has half as many as fit.
    constexpr std::uint32_t kOfMultiprocessor = 4;
    const std::uint64_t workers =
        std::max(target.workers, kOfMultiprocessor * target.multiprocessors);
    const DirectShape tile = depthwise_shape(a.layout);
    const std::uint32_t channels = a.c % tile.i_tile == 0 ? tile.i_tile : 1;
    const std::uint64_t most_tiles = most_depthwise_tiles(a, tile);
    const std::uint32_t all_down = ceil_div(u32(u64(a.p())), tile.h_tile);
    const std::uint32_t all_across = ceil_div(u32(u64(a.q())), tile.w_tile);
    // Whole cache lines: of rows in NCHW, of channels in NHWC.
    const std::uint32_t least_cols = a.layout == Layout::nhwc ? 16 : 32;
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    // High tasks first: neighbours share rows of x.
    for (const std::uint32_t most_down : {4, 2, 1}) {
      const std::uint32_t down = even_part(all_down, most_down);
      for (std::uint32_t most_cols = least_cols; most_cols <= kMostDepthwiseCols; most_cols *= 2) {
        const std::uint32_t across = even_part(all_across, most_cols / tile.w_tile);
        for (std::uint32_t most = 1; most <= filter_blocks; ++most) {
          const std::uint32_t in_task = even_part(filter_blocks, most);
          const std::uint64_t tiles =
              ceil_div(u64(down) * across * in_task * (Tiling::kLaneBlock / channels),
                       std::uint64_t{tile.threads()});
          if (tiles > most_tiles) break;
          const std::uint64_t tasks = u64(a.n) * ceil_div(all_down, down) *
                                      ceil_div(all_across, across) *
                                      ceil_div(filter_blocks, in_task);
          const std::uint64_t waves = ceil_div(tasks, workers);
          const std::uint64_t cost = waves * (kDepthwiseTaskCost + tiles);
          if (cost >= least) continue;
          least = cost;
          rows = down * tile.h_tile;
          cols = across * tile.w_tile;
          blocks = in_task;
        }
      }
    }
  }
};

// Tasks of 1x1 filters on few channels: whole rows, about so many outputs, and so many tasks for a
// multiprocessor at least, if that leaves none of a task's threads without a pixel. Estimated.
constexpr std::uint32_t kMostPointwiseBlocks = 8;
constexpr std::uint64_t kPointwiseOutputs = 16 * 1024, kPointwiseTasks = 8;
constexpr std::uint64_t kMostPointwiseCols = 4096;
constexpr std::uint64_t kMostColumnPixels = 512;

// Where y is written in columns a task should be long, but tasks should be there at once: of small
// layers half as many, so that the next launch finds room beside them.
struct ColumnsTasks {
  std::uint32_t rows = 1, cols, blocks;

  ColumnsTasks(const ConvProblem& a, std::uint32_t filter_blocks, const Target& target)
      : blocks(filter_blocks) {
    constexpr std::uint32_t kMostBlocks = 16, kResident = 4;
    constexpr std::int64_t kWidestVector = 8, kSmall = 1 << 21;
    // All vectors of y are of one pixel.
    if (a.k % kWidestVector == 0) blocks = even_part(filter_blocks, kMostBlocks);
    const std::uint64_t at_once =
        std::max(1u, target.multiprocessors) * (a.y_size() < kSmall ? kResident / 2 : kResident);
    const std::uint64_t pixels = u64(a.n * a.p() * a.q()), q = u64(a.q());
    const std::uint64_t size = ceil_div(pixels * ceil_div(filter_blocks, blocks), at_once);
    rows = u32(std::min(ceil_div(size, q), u64(a.p())));
    cols = u32(size < q ? ceil_div(q, q / size) : q);
    while (rows > 1 && rows * q > kMostColumnPixels) rows = ceil_div(rows, 2u);
    while (cols > kMostColumnPixels) cols = ceil_div(cols, 2u);
  }
};

// By which tasks of sums of few terms on tensor cores take least time.
DirectCut few_terms_cut(const ConvProblem& a, std::uint32_t filter_blocks, const Target& target) {
  constexpr std::uint64_t kLeastPixels = 32, kMostPixels = 4096;
  const MmaFilterParts filters = mma_filter_parts(a);
  const auto in_part = u32(u64(filters.filters)), p = u32(u64(a.p())), q = u32(u64(a.q()));
  const std::uint32_t all_parts = ceil_div(u32(u64(a.k)), in_part);
  const std::uint32_t fitting = u32(u64(kMmaFilterBytes / filters.bytes));
  DirectCut best;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](std::uint32_t rows, std::uint32_t cols, std::uint32_t blocks) {
    const std::uint64_t pixels = u64(rows) * cols;
    const bool is_image = rows == p && cols == q;
    if (pixels > kMostPixels || (pixels < kLeastPixels && !is_image)) return;
    const DirectCut cut{rows, cols, blocks};
    const double us = few_terms_us(a, cut, target);
    if (us < least) least = us, best = cut;
  };
  for (std::uint32_t parts = 1; parts <= std::min(all_parts, fitting); ++parts) {
    if (even_part(all_parts, parts) != parts) continue;
    const std::uint32_t blocks = std::min(parts * in_part / Tiling::kLaneBlock, filter_blocks);
    const std::uint32_t most_cuts = ceil_div(q, u32(kLeastPixels));
    for (std::uint32_t cuts = ceil_div(q, u32(kMostPixels)); cuts <= most_cuts; ++cuts) {
      consider(1, ceil_div(q, cuts), blocks);
    }
    for (std::uint32_t rows = 1; rows <= p && u64(rows) * q <= kMostPixels; ++rows) {
      consider(rows, q, blocks);
    }
  }
  return best;
}

// Streams of pixels: sizes by which all waves of tasks together are shortest, in pixels of a warp.
// What a task costs beside them is estimated.
struct StreamTasks {
  std::uint32_t rows = 0, cols = 0;

  StreamTasks(const ConvProblem& a, const Target& target) {
    const PixelStream stream = pixel_stream(a.c, a.k, size_of(a.dtype));
    const std::uint64_t at_once =
        u64(stream.blocks_per_sm()) * std::max(1u, target.multiprocessors);
    const auto p = u32(u64(a.p())), q = u32(u64(a.q())), tile = u32(u64(stream.pixels));
    const std::uint64_t all = u64(a.n) * p * q;
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    const auto consider = [&](std::uint32_t of_rows, std::uint32_t of_cols) {
      constexpr std::uint64_t kTaskTurns = 1;
      const std::uint64_t tasks = u64(a.n) * ceil_div(p, of_rows) * ceil_div(q, of_cols);
      const std::uint64_t tiles = ceil_div(of_rows * of_cols, tile);
      const std::uint64_t turns = ceil_div(tiles, u64(stream.warps));
      const std::uint64_t cost = ceil_div(tasks, at_once) * (kTaskTurns + turns);
      if (cost >= least) return;
      least = cost;
      rows = of_rows;
      cols = of_cols;
    };
    const std::uint64_t least_parts = ceil_div(all, std::uint64_t{1} << 20);
    for (std::uint64_t parts = std::max<std::uint64_t>(1, least_parts / (u64(a.n) * p));
         parts <= ceil_div(q, tile); ++parts) {
      consider(1, ceil_div(q, u32(parts)));
    }
    for (std::uint32_t i = 2; i <= p; ++i) consider(i, q);
  }
};

// The same of few filters: sizes by which all waves of tasks together are shortest, in steps of a
// warp. What a task and 16 pixels cost beside their steps is estimated.
struct FewFilterTasks {
  std::uint32_t rows = 0, cols = 0;

  FewFilterTasks(const ConvProblem& a, const Target& target) {
    constexpr std::uint64_t kTaskSteps = 24, kPixelSteps = 6, kPixels = 16;
    constexpr std::uint64_t kPixelsAtOnce = kPixels * kMmaThreads / 32;
    constexpr std::uint32_t kMostPixels = 4096;
    const std::uint64_t steps = u64(few_filter_steps(a));
    const std::uint64_t at_once = u64(kFewFilterBlocks) * std::max(1u, target.multiprocessors);
    const auto p = u32(u64(a.p())), q = u32(u64(a.q()));
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    const auto consider = [&](std::uint32_t of_rows, std::uint32_t of_cols) {
      const std::uint64_t tasks = u64(a.n) * ceil_div(p, of_rows) * ceil_div(q, of_cols);
      const std::uint64_t turns = ceil_div(u64(of_rows) * of_cols, kPixelsAtOnce);
      const std::uint64_t cost =
          ceil_div(tasks, at_once) * (kTaskSteps + turns * (kPixelSteps + steps));
      if (cost >= least) return;
      least = cost;
      rows = of_rows;
      cols = of_cols;
    };
    for (std::uint32_t parts = ceil_div(q, kMostPixels); parts <= ceil_div(q, u32(kPixels));
         ++parts) {
      consider(1, ceil_div(q, parts));
    }
    for (std::uint32_t i = 2; i <= p && i * q <= kMostPixels; ++i) consider(i, q);
  }
};

// Beside tasks that multiply and add. Of 1x1 filters on few channels these are faster where few
// filters of a pixel are a vector, and where it matters most how large floats are written. (H200,
// 100 layers in FP16 and at the precision of TF32, docs/results/few_channels_mma_h200.csv; of few
// filters H100, the layers named in choose_tiling.cpp.)
bool mma_pays(const ConvProblem& a) {
  constexpr std::int64_t kOctet = 8, kQuad = 4, kPair = 2;
  // Of vectors of channels and few filters, H200, eight layers of 0.1 to 1 million outputs: 1.4 to
  // 4 us by multiply-adds, on tensor cores 1.9 to 5.4.
  constexpr std::int64_t kFewFiltersOfVectors = 10, kMostOutputsOfVectors = 1'100'000;
  if (has_few_channels_of_pixels(a) && a.c <= kOctet && a.c % kQuad == 0 &&
      a.k <= kFewFiltersOfVectors && a.y_size() <= kMostOutputsOfVectors) {
    return false;
  }
  if (streams_pixels(a)) return true;
  if (has_few_filters(a)) {
    return !has_few_channels_of_pixels(a) || a.c > kOctet || !has_many_pixels(a);
  }
  if (!has_few_channels_of_pixels(a)) return true;
  constexpr std::int64_t kManyOutputs = 8'000'000, kFewOutputs = 1'000'000;
  if (a.k % kQuad == 0) {
    return a.dtype != DataType::f32 || a.c > kQuad || a.y_size() <= kManyOutputs;
  }
  return a.k % kPair == 0 && a.y_size() <= kFewOutputs;
}

// Target::workers counts thread blocks of this size.
constexpr double kWorkerThreads = 128;
// What a step costs a thread beside its products: loads of both operands, in products' worth. It
// makes small tiles of sums dearer.
constexpr double kStepOverhead = 4;

// Lane blocks of one task, the most that fit. Tasks never reach over two conv groups.
std::uint32_t blocks_of(const Tiling& tiling, const DirectShape& shape) {
  const auto groups = u32(u64(tiling.problem.groups));
  const std::uint32_t own = tiling.filter_blocks() / groups;
  std::uint32_t blocks = std::min(own, shape.filters() / Tiling::kLaneBlock);
  while (groups > 1 && own % blocks != 0) --blocks;
  return blocks;
}

// Blocks of an SM share its multipliers: half as many are nearly twice as fast, down to one.
constexpr double kLeastWaves = 0.25;

// Time of all tasks, in products of a thread: waves of tasks, each as long as one task.
double cost(const Tiling& tiling, const DirectShape& shape, const Target& target) {
  const ConvProblem& a = tiling.problem;
  if (!shape.is_compiled_for(size_of(a.dtype))) return std::numeric_limits<double>::infinity();
  const double tasks = static_cast<double>(u64(a.n)) *
                       static_cast<double>(ceil_div(u64(a.p()), std::uint64_t{shape.rows()})) *
                       static_cast<double>(ceil_div(u64(a.q()), std::uint64_t{shape.cols()})) *
                       ceil_div(tiling.filter_blocks(), blocks_of(tiling, shape));
  const double slots = target.workers * kWorkerThreads / shape.threads();
  const double waves = std::max(kLeastWaves, tasks / slots);
  const double sums = shape.i_tile * shape.h_tile * shape.w_tile;
  const double loads = shape.i_tile + shape.h_tile * shape.w_tile +
                       double(shape.filters() + shape.pixels()) / shape.threads();
  return waves * (sums + loads + kStepOverhead);
}

}  // namespace

Arithmetic direct_arithmetic(const ConvProblem& problem, const TilingOptions& options,
                             const Target& target) {
  const Arithmetic asked = options.arithmetic;
  if (asked == Arithmetic::fma || !mma_need(problem).empty()) return Arithmetic::fma;
  if (asked != Arithmetic::automatic) return asked;
  const bool permitted = target.backend == Backend::cuda && target.split_f16 &&
                         permits_f16(problem.dtype, options.precision);
  return permitted && mma_pays(problem) ? mma_arithmetic(problem.dtype) : Arithmetic::fma;
}

void choose_direct_for_cuda(Tiling& tiling, const Target& target) {
  const ConvProblem& a = tiling.problem;
  auto& cut = std::get<DirectCut>(tiling.cut);
  const auto take = [&](std::uint32_t rows, std::uint32_t cols, std::uint32_t blocks) {
    cut.rows_per_group = u32(std::min(std::uint64_t{rows}, u64(a.p())));
    cut.cols_per_group = u32(std::min(std::uint64_t{cols}, u64(a.q())));
    cut.filter_blocks_per_gemm_task = blocks;
  };
  tiling.filter_blocks_per_filter_task = 1;
  if (tiling.arithmetic != Arithmetic::fma && streams_pixels(a)) {
    const StreamTasks tasks(a, target);
    take(tasks.rows, tasks.cols, tiling.filter_blocks());
    return;
  }
  if (tiling.arithmetic != Arithmetic::fma && has_few_filters(a)) {
    const FewFilterTasks tasks(a, target);
    take(tasks.rows, tasks.cols, tiling.filter_blocks());
    return;
  }
  if (tiling.arithmetic != Arithmetic::fma) {
    const DirectCut tasks = few_terms_cut(a, tiling.filter_blocks(), target);
    take(tasks.rows_per_group, tasks.cols_per_group, tasks.filter_blocks_per_gemm_task);
    return;
  }
  if (writes_columns(a)) {
    const ColumnsTasks tasks(a, tiling.filter_blocks(), target);
    take(tasks.rows, tasks.cols, tasks.blocks);
    return;
  }
  if (has_few_channels_of_pixels(a)) {
    const std::uint32_t blocks = std::min(tiling.filter_blocks(), kMostPointwiseBlocks);
    const std::uint64_t filters = std::min(u64(a.k), std::uint64_t{blocks} * Tiling::kLaneBlock);
    const std::uint64_t most = kPointwiseOutputs / (filters * u64(a.q()));
    const std::uint64_t least =
        kPointwiseThreads * kPointwisePixels / (pointwise_threads(filters) * u64(a.q()));
    const std::uint64_t even = u64(a.n * a.p()) * ceil_div(tiling.filter_blocks(), blocks) /
                               (kPointwiseTasks * std::max(1u, target.multiprocessors));
    const std::uint64_t rows = std::max({std::uint64_t{1}, least, std::min(most, even)});
    const std::uint64_t cols = std::min<std::uint64_t>(u64(a.q()), kMostPointwiseCols);
    take(u32(std::min(rows, u64(a.p()))), u32(cols), blocks);
    return;
  }
  if (target.split_f16 && loads_boxes(a)) {
    const DirectCut boxes = choose_boxes(a, target).cut;
    take(boxes.rows_per_group, boxes.cols_per_group, boxes.filter_blocks_per_gemm_task);
    return;
  }
  if (a.depthwise()) {
    const DepthwiseTasks tasks(a, tiling.filter_blocks(), target);
    take(tasks.rows, tasks.cols, tasks.blocks);
    return;
  }
  const DirectShape* const best =
      std::min_element(std::begin(kDirectShapes), std::end(kDirectShapes),
                       [&](const DirectShape& left, const DirectShape& right) {
                         return cost(tiling, left, target) < cost(tiling, right, target);
                       });
  take(best->rows(), best->cols(), blocks_of(tiling, *best));
}

}  // namespace megaconv
