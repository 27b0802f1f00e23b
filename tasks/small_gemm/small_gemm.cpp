// SPDX-License-Identifier: Apache-2.0
// The cut of a small-tile implicit GEMM: its limits, what follows from it, and its text.
#include "tasks/small_gemm/small_gemm.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "megaconv/error.hpp"
#include "tasks/checks.hpp"
#include "tasks/pooling/pooling.hpp"
#include "tasks/small_gemm/computed_input.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

constexpr std::int64_t kVector = 8, kHalfVector = kVector / 2;  // numbers
constexpr std::int64_t kThreads = 32 * SmallGemmCut::kWarps;
// Device code counts the numbers of an image in 32 bits.
constexpr std::int64_t kMostOfImage = std::numeric_limits<std::int32_t>::max();

DataType stored_by(Precision precision) {
  if (precision == Precision::f16) return DataType::f16;
  return precision == Precision::bf16 ? DataType::bf16 : DataType::f32;
}

// Bias and scale of a task's filters, what the warps tell each other, and what is known of x.
constexpr std::int64_t kMostEpilogueFilters = 128;
constexpr std::int64_t kEpilogueBytes =
    2 * kMostEpilogueFilters * sizeof(float) +
    kSmallGemmStages * SmallGemmCut::kWarps * sizeof(std::uint32_t) + 4 * sizeof(std::uint32_t);

// Places of the steps of a K block, behind these.
std::int64_t step_bytes(const SumSteps& steps) {
  constexpr std::int64_t kAlignment = 16;
  const std::int64_t bytes = steps.per_block() * std::int64_t{sizeof(std::int32_t)};
  return ceil_div(bytes, kAlignment) * kAlignment;
}

// Of the tasks that share sums, each has the outputs of some of the filters.
std::int64_t received_bytes(const SmallGemmCut& cut) {
  if (cut.shares == 1) return 0;
  return computed_pixels(cut) * cut.filters_per_task() * std::int64_t{sizeof(float)};
}

// What stands behind the sums in shared memory.
std::int64_t other_bytes(const SmallGemmCut& cut, const SumSteps& steps) {
  return received_bytes(cut) + kEpilogueBytes + step_bytes(steps) +
         computed_input_memory(cut, steps).bytes();
}

TaskMemory memory_of_stage(const SmallGemmCut& cut, const SumSteps& steps) {
  const ConvProblem& a = cut.problem;
  // Of filters with one row or column, inputs that a stride leaves out are left out.
  const auto reach = [](std::int64_t outputs, std::int64_t stride, std::int64_t taps,
                        std::int64_t dilation) {
    return (outputs - 1) * (taps == 1 ? 1 : stride) + (taps - 1) * dilation + 1;
  };
  TaskMemory memory;
  memory.in_rows = reach(computed_rows(cut), a.stride_h, steps.taps_h, a.dilation_h);
  if (steps.whole_rows) {
    memory.pitch = 2 * steps.pixel;
    memory.in_cols =
        reach(computed_cols(cut), a.stride_w, steps.chunks * kStepNumbers / steps.pixel, 1);
  } else {
    // Neighbouring pixels 64 bytes apart in the banks, as a matrix instruction wants them.
    memory.pitch = (steps.chunks + (steps.chunks % 2 == 0)) * kStepBytes;
    memory.in_cols = reach(computed_cols(cut), a.stride_w, a.s, a.dilation_w);
  }
  constexpr std::int64_t kAlignment = 128;
  memory.x_bytes =
      ceil_div(memory.in_rows * memory.in_cols * memory.pitch, kAlignment) * kAlignment;
  memory.filter_bytes = cut.filter_warps * steps.per_block() * kFilterStepBytes * parts_of(cut) +
                        expand_filter_bytes(cut, steps) + input_vector_bytes(cut, steps);
  memory.stage_bytes = memory.x_bytes * x_tensors(cut) + memory.filter_bytes;
  return memory;
}

}  // namespace

Precision small_gemm_precision(DataType dtype, Precision of_floats) {
  if (dtype == DataType::f16) return Precision::f16;
  return dtype == DataType::bf16 ? Precision::bf16 : of_floats;
}

std::string small_gemm_obstacle(const ConvProblem& a, Precision precision) {
  const auto must = [](const std::string& what, const std::string& allowed) {
    return "small_gemm: " + what + ", must be " + allowed;
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

bool converts(const SmallGemmCut& cut) { return cut.problem.dtype == DataType::f32; }
std::int64_t parts_of(const SmallGemmCut& cut) { return cut.precision == Precision::f32 ? 2 : 1; }
// Floats come as they are and are converted there.
std::int64_t x_tensors(const SmallGemmCut& cut) {
  if (!converts(cut) || cut.pairs.inputs) return 1;
  return cut.depthwise ? parts_of(cut) : 2;
}

std::int64_t channel_step_of(const ConvProblem& a) { return a.c % kVector == 0 ? kVector : 1; }

ChannelRange channels_of_block(const SmallGemmCut& cut, std::int64_t block) {
  const ConvProblem& a = cut.problem;
  const std::int64_t channels = a.c / a.groups, filters = a.k / a.groups;
  const std::int64_t size = cut.filters_per_task(), first = block * size;
  const std::int64_t last = std::min(first + size, a.k) - 1;
  const std::int64_t step = channel_step_of(a);
  return {first / filters * channels / step * step, (last / filters + 1) * channels};
}

namespace {

// Blocks of filters after which the channels that they need lie in conv groups as before.
std::int64_t different_blocks(const SmallGemmCut& cut) {
  const ConvProblem& a = cut.problem;
  if (a.groups == 1) return 1;
  const std::int64_t filters = a.k / a.groups;
  const std::int64_t period = filters / std::gcd(filters, std::int64_t{cut.filters_per_task()});
  return period * channel_step_of(a);
}

}  // namespace

bool can_share(const SmallGemmCut& cut) {
  const ConvProblem& a = cut.problem;
  if (cut.shares == 1) return true;
  return cut.shares >= 1 && cut.shares <= kMostShares && a.groups == 1 &&
         a.c > (cut.shares - 1) * kStepNumbers && a.k % cut.filters_per_task() == 0 &&
         cut.filters_per_task() % (4 * cut.shares) == 0;
}

// In the vectors of an epilogue. Scale and bias of a second output lie behind those of the first,
// in the same shared memory.
bool can_store_second(const SmallGemmCut& cut, std::int64_t channels, std::int64_t first_channel) {
  constexpr std::int64_t kEpilogueVector = 4;
  return (cut.problem.k | channels | first_channel) % kEpilogueVector == 0 &&
         cut.own_filters() <= kMostEpilogueFilters / 2;
}

bool loads_vectors(const SmallGemmCut& cut) {
  const SumSteps steps = steps_of(cut);
  return cut.problem.c % kVector == 0 && (!steps.whole_rows || steps.pixel % kVector == 0);
}

namespace {

// Half a vector is 16 bytes of what is loaded then.
bool computes_floats(const SmallGemmCut& cut) { return cut.depthwise && converts(cut); }

}  // namespace

std::int64_t piece_numbers(const SmallGemmCut& cut) {
  return loads_vectors(cut) && !computes_floats(cut) ? kVector : kHalfVector;
}

SumSteps steps_of(const SmallGemmCut& cut) {
  const ConvProblem& a = cut.problem;
  SumSteps steps;
  const std::int64_t blocks = ceil_div(a.k, std::int64_t{cut.filters_per_task()});
  for (std::int64_t block = 0; block < std::min(blocks, different_blocks(cut)); ++block) {
    const ChannelRange range = channels_of_block(cut, block);
    steps.channels = std::max(steps.channels, range.end - range.begin);
  }
  steps.whole_rows = a.s > 1 && a.dilation_w == 1 && steps.channels <= kStepNumbers / 2;
  std::int64_t chunks = ceil_div(ceil_div(steps.channels, kStepNumbers), std::int64_t{cut.shares});
  if (steps.whole_rows) {
    // A step begins at a multiple of 16 bytes, also where outputs are a stride apart.
    steps.pixel = steps.channels <= 4 && a.stride_w % 2 == 0 ? 4 : steps.channels <= 8 ? 8 : 16;
    chunks = ceil_div(a.s * steps.pixel, kStepNumbers);
  } else {
    steps.taps_w = a.s;
  }
  // Every piece of a pixel has a thread: a vector, or half of one.
  const bool in_halves = a.c % kVector != 0 || computes_floats(cut);
  const std::int64_t most_chunks = kThreads * (in_halves ? kHalfVector : kVector) / kStepNumbers;
  const auto fits = [&] {
    const std::int64_t bytes = steps.stages * memory_of_stage(cut, steps).stage_bytes;
    return bytes + other_bytes(cut, steps) <= cut.shared_bytes;
  };
  for (steps.row_blocks = 1; steps.row_blocks <= a.r; ++steps.row_blocks) {
    steps.taps_h = ceil_div(a.r, steps.row_blocks);
    for (steps.chunks = std::min(chunks, most_chunks); steps.chunks > 0; --steps.chunks) {
      steps.channel_blocks = ceil_div(chunks, steps.chunks);
      steps.stages = std::min(steps.k_blocks(), kSmallGemmStages);
      if (!fits()) continue;
      if (steps.whole_rows && steps.chunks < chunks) break;
      steps.chunks = ceil_div(chunks, steps.channel_blocks);
      return steps;
    }
  }
  return {.chunks = 0};
}

TaskMemory memory_of(const SmallGemmCut& cut) {
  const SumSteps steps = steps_of(cut);
  TaskMemory memory = memory_of_stage(cut, steps);
  const std::int64_t pixels =
      ceil_div(computed_pixels(cut), std::int64_t{SmallGemmCut::kWarpPixels}) *
      std::int64_t{SmallGemmCut::kWarpPixels};
  memory.sum_pitch = cut.filters_per_task() + 4;  // without conflicts of banks
  memory.sum_bytes = pixels * memory.sum_pitch * cut.sum_warps * std::int64_t{sizeof(float)};
  const std::int64_t stages = steps.stages;
  const bool inside = stages > 1 && memory.sum_bytes <= memory.stage_bytes;
  memory.received_bytes = received_bytes(cut);
  const std::int64_t others = other_bytes(cut, steps);
  const bool behind = stages * memory.stage_bytes + memory.sum_bytes + others <= cut.shared_bytes;
  memory.sums_wait = !inside && !behind;
  if (!memory.sums_wait) {
    memory.sums_at = memory.stage_bytes * (inside ? steps.k_blocks() % stages : stages);
  }
  memory.work_bytes = std::max(stages * memory.stage_bytes, memory.sums_at + memory.sum_bytes);
  memory.bytes = memory.work_bytes + others;
  memory.computed_input_at = memory.bytes - computed_input_memory(cut, steps).bytes();
  memory.steps_at = memory.computed_input_at - step_bytes(steps);
  return memory;
}

namespace {

void check_pairs(const SmallGemmCut& cut) {
  const ConvProblem& a = cut.problem;
  if (cut.pairs == PairTensors{}) return;
  const bool has_outputs = cut.pairs.y || cut.pairs.pooled || a.epilogue.residual;
  if (cut.precision != Precision::tf32 || !cut.pairs.inputs ||
      (has_outputs && !can_store_pairs(a)) || comes_in_vectors(a) != loads_vectors(cut)) {
    throw Error(Status::unsupported, "small_gemm: pairs of " + to_string(a) + " in " +
                                         to_string(cut.precision) +
                                         ", must be inputs, too, of tf32, outputs of a multiple "
                                         "of 8 filters, and at most 2^30 of an image");
  }
  if (cut.pairs.y && cut.pool) {
    throw Error(Status::unsupported, "small_gemm: y in pairs beside a pooling, must be floats");
  }
}

void check_makers(const SmallGemmCut& cut) {
  if (!cut.depthwise && !cut.expand) return;
  const auto check = [&](const ConvProblem& maker, bool is_right) {
    validate(maker);
    if (is_right) return;
    throw Error(Status::unsupported, "small_gemm: " + to_string(cut.problem) + " with " +
                                         to_string(maker) + " in its tasks, must be apart");
  };
  if (!cut.depthwise) check(*cut.expand, false);
  const bool has_pairs = cut.pairs != PairTensors{};
  check(*cut.depthwise, !has_pairs && can_compute_input(*cut.depthwise, cut.problem));
  if (cut.expand) check(*cut.expand, can_expand(*cut.expand, *cut.depthwise));
}

void check_pool(const SmallGemmCut& cut) {
  if (!cut.pool) {
    if (cut.stores_y) return;
    throw Error(Status::invalid_argument, "stores_y = false: must be true without a pooling");
  }
  validate(*cut.pool);
  if (!can_pool(cut.problem, *cut.pool)) {
    throw Error(Status::unsupported, "small_gemm: " + to_string(*cut.pool) + " of " +
                                         to_string(cut.problem) + ", must be tasks of its own");
  }
  const auto check = [](const char* name, std::uint32_t tile, const WindowAxis& axis) {
    if (tile % u64(axis.stride) == 0 || tile == u64(axis.inputs)) return;
    throw Error(Status::invalid_argument,
                std::string(name) + " = " + std::to_string(tile) + ": must be a multiple of " +
                    std::to_string(axis.stride) + " or all " + std::to_string(axis.inputs));
  };
  if (!has_all_residuals(cut)) {
    throw Error(Status::unsupported, "small_gemm: " + to_string(*cut.pool) + " of tiles of " +
                                         pair_text(cut.rows_per_group, cut.cols_per_group) +
                                         " pixels with a residual, must be within them");
  }
  check("rows_per_group", cut.rows_per_group, rows_of(*cut.pool));
  check("cols_per_group", cut.cols_per_group, cols_of(*cut.pool));
}

}  // namespace

bool x_in_pairs(const SmallGemmCut& cut) { return cut.pairs.inputs && loads_vectors(cut); }
bool comes_in_vectors(const ConvProblem& a) {
  return a.c % kVector == 0 && a.c * a.h * a.w <= kMostOfImage / 2;
}
bool can_store_pairs(const ConvProblem& a) {
  return a.k % kVector == 0 && a.k * a.p() * a.q() <= kMostOfImage / 2;
}

void derive_counts(SmallGemmCut& cut) {
  const ConvProblem& a = cut.problem;
  validate(a);
  const std::string obstacle = small_gemm_obstacle(a, cut.precision);
  if (!obstacle.empty()) throw Error(Status::unsupported, obstacle);
  check_pairs(cut);
  check_makers(cut);
  check_range("rows_per_group", cut.rows_per_group, 1, a.p());
  check_range("cols_per_group", cut.cols_per_group, 1, a.q());
  check_pool(cut);
  const std::uint32_t pixel_tiles =
      u32(u64(ceil_div(computed_pixels(cut), std::int64_t{SmallGemmCut::kWarpPixels})));
  check_range("filter_warps", cut.filter_warps, 1, SmallGemmCut::kWarps);
  check_range("pixel_warps", cut.pixel_warps, 1, SmallGemmCut::kWarps);
  check_range("sum_warps", cut.sum_warps, 1, SmallGemmCut::kWarps);
  const auto warps = std::uint64_t{cut.filter_warps} * cut.pixel_warps * cut.sum_warps;
  if (warps != SmallGemmCut::kWarps) {
    throw Error(Status::invalid_argument, "warps " + std::to_string(cut.filter_warps) + " x " +
                                              std::to_string(cut.pixel_warps) + " x " +
                                              std::to_string(cut.sum_warps) + ": must be " +
                                              std::to_string(SmallGemmCut::kWarps) + " in all");
  }
  if (!can_share(cut)) {
    throw Error(Status::invalid_argument,
                std::to_string(cut.shares) + " tasks that share sums: must be 1 to " +
                    std::to_string(kMostShares) + ", and have channels and outputs of their own");
  }
  check_range("pixels of a warp in eights", ceil_div(pixel_tiles, cut.pixel_warps), 1,
              SmallGemmCut::kWarpPixelTiles);
  const std::uint64_t groups = u64(a.n) * ceil_div(u64(a.p()), std::uint64_t{cut.rows_per_group}) *
                               ceil_div(u64(a.q()), std::uint64_t{cut.cols_per_group});
  const std::uint64_t per_group =
      ceil_div(u64(a.k), std::uint64_t{cut.filters_per_task()}) * cut.shares;
  if (groups * per_group > kMaxTasks) {
    throw Error(Status::unsupported, std::to_string(groups * per_group) +
                                         " tasks: must be at most 2^31; use larger groups");
  }
  cut.num_groups = u32(groups);
  cut.tasks_per_group = u32(per_group);
  if (!fits(cut)) {
    throw Error(Status::unsupported,
                "tile of " + pair_text(cut.rows_per_group, cut.cols_per_group) + " pixels x " +
                    std::to_string(cut.filters_per_task()) + " filters: its inputs must fit into " +
                    std::to_string(cut.shared_bytes) + " bytes of shared memory");
  }
}

bool fits(const SmallGemmCut& cut) {
  const SumSteps steps = steps_of(cut);
  return steps.chunks > 0 && memory_of(cut).bytes <= cut.shared_bytes &&
         computed_input_memory(cut, steps).pixels() < kMostExpandPixels;
}

namespace {

std::string text_of(const PairTensors& pairs) {
  if (pairs == PairTensors{}) return {};
  std::string text = "\nin pairs of FP16 numbers: inputs";
  if (pairs.y) text += pairs.rests ? ", y" : ", y without rests";
  if (pairs.pooled) text += ", what is pooled";
  return text;
}

}  // namespace

std::string to_string(const SmallGemmCut& cut) {
  return "problem: " + to_string(cut.problem) + "\nalgorithm: small-tile implicit GEMM, " +
         to_string(cut.precision) + "\npixels of a group: " + std::to_string(cut.rows_per_group) +
         " x " + std::to_string(cut.cols_per_group) +
         "\ntask: " + std::to_string(cut.filters_per_task()) + " filters; warps over filters " +
         std::to_string(cut.filter_warps) + ", pixels " + std::to_string(cut.pixel_warps) +
         ", sums " + std::to_string(cut.sum_warps) +
         "\nshares of a sum: " + std::to_string(cut.shares) +
         (cut.depthwise ? "\ncomputes its x: " + to_string(*cut.depthwise) : "") +
         (cut.expand ? "\nand of that x: " + to_string(*cut.expand) : "") +
         (cut.pool ? "\npools: " + to_string(*cut.pool) : "") +
         (cut.stores_y ? "" : "\nonly what is pooled is stored") + text_of(cut.pairs) +
         "\ntask groups: " + std::to_string(cut.num_groups) +
         "\ntasks: " + std::to_string(std::uint64_t{cut.num_groups} * cut.tasks_per_group) +
         " (SG " + std::to_string(cut.tasks_per_group) + ")\n";
}

}  // namespace megaconv
