// SPDX-License-Identifier: Apache-2.0
// Direct tilings for GPUs: which of the compiled shapes suits a problem.
#include <algorithm>
#include <limits>

#include "tasks/direct/direct_shapes.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// Outputs of a depthwise task: 32 channels of 8 x 32 pixels, 64 outputs a thread.
constexpr std::uint32_t kDepthwiseRows = 8, kDepthwiseCols = 32, kDepthwiseBlocks = 2;
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

void choose_direct_for_cuda(Tiling& tiling, const Target& target) {
  const ConvProblem& a = tiling.problem;
  auto& cut = std::get<DirectCut>(tiling.cut);
  const auto take = [&](std::uint32_t rows, std::uint32_t cols, std::uint32_t blocks) {
    cut.rows_per_group = u32(std::min(std::uint64_t{rows}, u64(a.p())));
    cut.cols_per_group = u32(std::min(std::uint64_t{cols}, u64(a.q())));
    cut.filter_blocks_per_gemm_task = blocks;
  };
  tiling.filter_blocks_per_filter_task = 1;
  if (a.depthwise()) {
    take(kDepthwiseRows, kDepthwiseCols, std::min(tiling.filter_blocks(), kDepthwiseBlocks));
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
