// SPDX-License-Identifier: Apache-2.0
// How a problem is cut into tasks: which algorithm, which tile, how much work in one task.
//
// The sizes are heuristics and may change freely; what must stay true is checked by
// derive_counts(), which is also the way in for tilings that come from a mapping file.
#include "mapping/tiling.hpp"

#include <algorithm>
#include <sstream>

#include "megaconv/error.hpp"

namespace megaconv {
namespace {

// The CPU's GEMM and direct kernels keep 14 tiles (or output pixels) x 2 lane blocks in registers.
constexpr std::uint64_t kRegisterRows = 14;
// Past this many tiles a group gains nothing more from reading U once, and delays its outputs.
constexpr std::uint64_t kMostGroupTiles = 112;
// Output columns of a direct task: wide enough to amortise the halo, narrow enough to stay in L1.
constexpr std::uint64_t kMostDirectCols = 56;
// Enough tasks for the last ones of a stage to even out between the workers.
constexpr std::uint64_t kTasksPerWorker = 4;
// Share of a worker's cache that the input of a task group may fill; U and M need the rest.
constexpr std::uint64_t kCacheShare = 2;
// Lane blocks of one task when there are tasks enough.
constexpr std::uint64_t kGemmBlocks = 4, kTransformBlocks = 4, kDirectBlocks = 8;
// Below these, transforms cost more than the multiplications they save.
constexpr std::int64_t kLeastWinogradChannels = 16;

constexpr std::uint64_t kBlockBytes = Tiling::kLaneBlock * sizeof(float);
constexpr std::uint64_t kMostGroups = std::uint64_t{1} << 31;

[[noreturn]] void reject(const std::string& message) {
  throw Error(Status::invalid_argument, message);
}

std::uint32_t u32(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint64_t u64(std::int64_t value) { return static_cast<std::uint64_t>(value); }

std::string pair_text(std::int64_t vertical, std::int64_t horizontal) {
  return std::to_string(vertical) + "x" + std::to_string(horizontal);
}

// Multiplications of Winograd for each channel and filter: T alpha^2.
std::uint64_t winograd_products(const ConvProblem& problem, std::uint64_t m) {
  const std::uint64_t tiles =
      u64(problem.n) * ceil_div(u64(problem.p()), m) * ceil_div(u64(problem.q()), m);
  return tiles * (m + 2) * (m + 2);
}

// F(4x4) saves most; F(2x2) only where an output so small wastes most of a 4x4 tile. F(6x6) loses
// accuracy and is never chosen unasked.
std::uint32_t choose_m(const ConvProblem& problem) {
  return winograd_products(problem, 2) < winograd_products(problem, 4) ? 2 : 4;
}

// Winograd pays when it saves at least half of the multiplications (the transforms take their part
// of the gain), and there are tiles enough to share each transformed filter among.
bool winograd_pays(const ConvProblem& problem) {
  const std::uint32_t m = choose_m(problem);
  const std::uint64_t products = winograd_products(problem, m);
  const std::uint64_t tiles = products / ((m + 2) * (m + 2));
  const std::uint64_t direct_products = u64(problem.n * problem.p() * problem.q()) * 9;
  return problem.c >= kLeastWinogradChannels && problem.k >= kLeastWinogradChannels &&
         tiles >= kRegisterRows && 2 * products <= direct_products;
}

Algorithm choose_algorithm(const ConvProblem& problem, const TilingOptions& options) {
  const std::string obstacle = winograd_obstacle(problem);
  switch (options.algorithm) {
    case Algorithm::direct:
      return Algorithm::direct;
    case Algorithm::winograd:
      if (!obstacle.empty()) throw Error(Status::unsupported, obstacle);
      return Algorithm::winograd;
    case Algorithm::automatic:
      break;
  }
  return obstacle.empty() && winograd_pays(problem) ? Algorithm::winograd : Algorithm::direct;
}

// Size of the shares when `total` rows are shared out in parts of at most about `most`: the largest
// multiple of the register tile that leaves the last part nearly whole, else parts of one size.
//   196 rows, most 60: 7 x 28, not 4 x 42 + 28
std::uint64_t even_share(std::uint64_t total, std::uint64_t most) {
  for (std::uint64_t share = most / kRegisterRows * kRegisterRows; share > 0;
       share -= kRegisterRows) {
    if (ceil_div(total, share) * share - total <= total / 8) return std::min(share, total);
  }
  const std::uint64_t parts =
      std::min(ceil_div(total, most), std::max<std::uint64_t>(1, total / kRegisterRows));
  return ceil_div(total, parts);
}

// Lane blocks of one task: at most `most`, fewer when `groups` task groups of such tasks would be
// fewer than `wanted` in all, and even among the tasks.
std::uint32_t even_blocks(std::uint64_t blocks, std::uint64_t most, std::uint64_t groups,
                          std::uint64_t wanted) {
  const std::uint64_t size = std::clamp<std::uint64_t>(blocks * groups / wanted, 1, most);
  return u32(ceil_div(blocks, ceil_div(blocks, size)));
}

// A group's V fills about half of the worker's cache, in whole register tiles, and there are groups
// enough for all workers.
std::uint64_t choose_group_tiles(const Tiling& tiling, std::uint64_t wanted, const Target& target) {
  const std::uint64_t tile_bytes =
      std::uint64_t{tiling.num_positions()} * tiling.channel_blocks() * kBlockBytes;
  const std::uint64_t fitting = target.cache_bytes_per_worker / kCacheShare / tile_bytes;
  const std::uint64_t gemm_tasks = ceil_div<std::uint64_t>(tiling.filter_blocks(), kGemmBlocks);
  const std::uint64_t wanted_groups = ceil_div(wanted, gemm_tasks);
  const std::uint64_t shared = std::max(kRegisterRows, tiling.num_tiles() / wanted_groups);
  const std::uint64_t most = std::clamp(fitting, kRegisterRows, kMostGroupTiles);
  return even_share(tiling.num_tiles(), std::min(most, shared));
}

void choose_winograd(Tiling& tiling, const TilingOptions& options, const Target& target) {
  const std::uint64_t wanted = kTasksPerWorker * target.workers;
  tiling.m = options.m != 0 ? options.m : choose_m(tiling.problem);
  tiling.points = options.points;
  tiling.tiles_h = u32(ceil_div(u64(tiling.problem.p()), std::uint64_t{tiling.m}));
  tiling.tiles_w = u32(ceil_div(u64(tiling.problem.q()), std::uint64_t{tiling.m}));
  const std::uint64_t asked = options.group_tiles;
  const std::uint64_t group_tiles =
      asked != 0 ? std::min(asked, tiling.num_tiles()) : choose_group_tiles(tiling, wanted, target);
  tiling.group_tiles = u32(group_tiles);

  const std::uint64_t groups = ceil_div(tiling.num_tiles(), group_tiles);
  const std::uint64_t filter_blocks = tiling.filter_blocks();
  tiling.positions_per_gemm_task = tiling.num_positions();
  tiling.channel_blocks_per_input_task =
      even_blocks(tiling.channel_blocks(), kTransformBlocks, groups, wanted);
  tiling.filter_blocks_per_gemm_task = even_blocks(filter_blocks, kGemmBlocks, groups, wanted);
  tiling.filter_blocks_per_output_task =
      even_blocks(filter_blocks, kTransformBlocks, groups, wanted);
  tiling.filter_blocks_per_filter_task = even_blocks(filter_blocks, filter_blocks, 1, wanted);
}

// A group's input patch, [channel blocks][rows][cols][kLaneBlock], fills at most half of the
// worker's cache; there are tasks enough for all workers.
void choose_direct(Tiling& tiling, const Target& target) {
  const ConvProblem& a = tiling.problem;
  const std::uint64_t wanted = kTasksPerWorker * target.workers;
  const std::uint64_t budget = target.cache_bytes_per_worker / kCacheShare;
  const auto row_bytes = [&](std::uint64_t cols) {
    const std::uint64_t input_cols =
        std::min((cols - 1) * u64(a.stride_w) + u64(a.filter_extent_w()), u64(a.w + 2 * a.pad_w));
    return input_cols * tiling.channel_blocks() * kBlockBytes;
  };
  const std::uint64_t p = u64(a.p()), q = u64(a.q());
  std::uint64_t cols = even_share(q, kMostDirectCols);
  const std::uint64_t least_rows = u64(a.filter_extent_h());
  if (budget / row_bytes(cols) < least_rows) cols = even_share(q, kRegisterRows);
  const std::uint64_t input_rows = std::max(budget / row_bytes(cols), least_rows);
  const std::uint64_t fitting = (input_rows - least_rows) / u64(a.stride_h) + 1;

  const std::uint64_t filter_blocks = tiling.filter_blocks();
  const std::uint64_t strips = u64(a.n) * ceil_div(q, cols);
  const std::uint64_t row_tasks = strips * p * ceil_div(filter_blocks, kDirectBlocks);
  const std::uint64_t shared = std::max<std::uint64_t>(1, row_tasks / wanted);
  const std::uint64_t rows = ceil_div(p, ceil_div(p, std::min(fitting, shared)));

  tiling.rows_per_group = u32(rows);
  tiling.cols_per_group = u32(cols);
  const std::uint64_t groups = strips * ceil_div(p, rows);
  tiling.filter_blocks_per_gemm_task = even_blocks(filter_blocks, kDirectBlocks, groups, wanted);
  tiling.filter_blocks_per_filter_task = even_blocks(filter_blocks, filter_blocks, 1, wanted);
}

void check_options(const TilingOptions& options, const Target& target) {
  if (options.m != 0 && options.m != 2 && options.m != 4 && options.m != 6) {
    reject("m = " + std::to_string(options.m) + ": must be 2, 4 or 6");
  }
  if (options.whole_tensors && (options.v_slots != 0 || options.m_slots != 0)) {
    reject("v_slots = " + std::to_string(options.v_slots) +
           ", m_slots = " + std::to_string(options.m_slots) + ": must be 0 with whole_tensors");
  }
  if (target.workers == 0) reject("workers = 0: must be at least 1");
}

void check_field(const char* name, std::uint64_t value, std::uint64_t most) {
  if (value < 1 || value > most) {
    reject(std::string(name) + " = " + std::to_string(value) + ": must be 1 to " +
           std::to_string(most));
  }
}

std::uint64_t checked_groups(std::uint64_t groups) {
  if (groups > kMostGroups) {
    throw Error(Status::unsupported,
                std::to_string(groups) + " task groups: must be at most 2^31; use larger groups");
  }
  return groups;
}

void derive_winograd(Tiling& tiling) {
  const std::string obstacle = winograd_obstacle(tiling.problem);
  if (!obstacle.empty()) reject(obstacle);
  if (tiling.m != 2 && tiling.m != 4 && tiling.m != 6) {
    reject("m = " + std::to_string(tiling.m) + ": must be 2, 4 or 6");
  }
  tiling.tiles_h = u32(ceil_div(u64(tiling.problem.p()), std::uint64_t{tiling.m}));
  tiling.tiles_w = u32(ceil_div(u64(tiling.problem.q()), std::uint64_t{tiling.m}));
  const std::uint32_t filter_blocks = tiling.filter_blocks();
  check_field("group_tiles", tiling.group_tiles, tiling.num_tiles());
  check_field("channel_blocks_per_input_task", tiling.channel_blocks_per_input_task,
              tiling.channel_blocks());
  check_field("positions_per_gemm_task", tiling.positions_per_gemm_task, tiling.num_positions());
  check_field("filter_blocks_per_output_task", tiling.filter_blocks_per_output_task, filter_blocks);
  tiling.num_groups =
      u32(checked_groups(ceil_div(tiling.num_tiles(), std::uint64_t{tiling.group_tiles})));
  tiling.input_tasks = ceil_div(tiling.channel_blocks(), tiling.channel_blocks_per_input_task);
  tiling.gemm_tasks = ceil_div(filter_blocks, tiling.filter_blocks_per_gemm_task) *
                      ceil_div(tiling.num_positions(), tiling.positions_per_gemm_task);
  tiling.output_tasks = ceil_div(filter_blocks, tiling.filter_blocks_per_output_task);
}

void derive_direct(Tiling& tiling) {
  const ConvProblem& a = tiling.problem;
  check_field("rows_per_group", tiling.rows_per_group, u64(a.p()));
  check_field("cols_per_group", tiling.cols_per_group, u64(a.q()));
  tiling.num_groups =
      u32(checked_groups(u64(a.n) * ceil_div(u64(a.p()), std::uint64_t{tiling.rows_per_group}) *
                         ceil_div(u64(a.q()), std::uint64_t{tiling.cols_per_group})));
  tiling.input_tasks = 0;
  tiling.gemm_tasks = ceil_div(tiling.filter_blocks(), tiling.filter_blocks_per_gemm_task);
  tiling.output_tasks = 0;
}

}  // namespace

std::uint64_t Tiling::num_tiles() const {
  return static_cast<std::uint64_t>(problem.n) * tiles_h * tiles_w;
}

std::uint32_t Tiling::channel_blocks() const {
  return u32(ceil_div(u64(problem.c / problem.groups), std::uint64_t{kLaneBlock}));
}

std::uint32_t Tiling::filter_blocks() const {
  const std::int64_t groups = problem.depthwise() ? 1 : problem.groups;
  return u32(ceil_div(u64(problem.k / groups), std::uint64_t{kLaneBlock}) * u64(groups));
}

std::uint64_t Tiling::v_slot_bytes() const {
  if (algorithm != Algorithm::winograd) return 0;
  return std::uint64_t{num_positions()} * channel_blocks() * group_tiles * kBlockBytes;
}

std::uint64_t Tiling::m_slot_bytes() const {
  if (algorithm != Algorithm::winograd) return 0;
  return std::uint64_t{num_positions()} * filter_blocks() * group_tiles * kBlockBytes;
}

std::uint64_t Tiling::u_bytes() const {
  const std::uint64_t filter_elements = algorithm == Algorithm::winograd
                                            ? std::uint64_t{num_positions()}
                                            : u64(problem.r * problem.s);
  return filter_elements * filter_blocks() * u64(problem.c / problem.groups) * kBlockBytes;
}

std::string winograd_obstacle(const ConvProblem& a) {
  if (a.r != 3 || a.s != 3) return "winograd: filter " + pair_text(a.r, a.s) + ", must be 3x3";
  if (a.stride_h != 1 || a.stride_w != 1) {
    return "winograd: stride " + pair_text(a.stride_h, a.stride_w) + ", must be 1x1";
  }
  if (a.dilation_h != 1 || a.dilation_w != 1) {
    return "winograd: dilation " + pair_text(a.dilation_h, a.dilation_w) + ", must be 1x1";
  }
  if (a.groups != 1) return "winograd: groups = " + std::to_string(a.groups) + ", must be 1";
  return {};
}

void derive_counts(Tiling& tiling) {
  if (tiling.problem.dtype != DataType::f32) {
    throw Error(Status::unsupported,
                std::string("storage type ") + to_string(tiling.problem.dtype) + ": must be f32");
  }
  const std::uint32_t filter_blocks = tiling.filter_blocks();
  check_field("filter_blocks_per_gemm_task", tiling.filter_blocks_per_gemm_task, filter_blocks);
  check_field("filter_blocks_per_filter_task", tiling.filter_blocks_per_filter_task, filter_blocks);
  if (tiling.algorithm == Algorithm::winograd) {
    derive_winograd(tiling);
  } else {
    derive_direct(tiling);
  }
  tiling.num_filter_tasks = tiling.filters == FilterMode::prepared
                                ? 0
                                : ceil_div(filter_blocks, tiling.filter_blocks_per_filter_task);
  const auto slots = [&](std::uint32_t asked) {
    return asked == 0 ? tiling.num_groups : std::min(asked, tiling.num_groups);
  };
  tiling.v_slots = slots(tiling.v_slots);
  tiling.m_slots = slots(tiling.m_slots);
}

std::uint64_t num_tasks(const Tiling& tiling) {
  const std::uint64_t group_tasks =
      std::uint64_t{tiling.input_tasks} + tiling.gemm_tasks + tiling.output_tasks;
  return tiling.num_filter_tasks + tiling.num_groups * group_tasks;
}

Tiling make_tiling(const ConvProblem& problem, const TilingOptions& options, const Target& target) {
  validate(problem);
  check_options(options, target);
  Tiling tiling;
  tiling.problem = problem;
  tiling.algorithm = choose_algorithm(problem, options);
  tiling.filters = options.filters;
  if (tiling.algorithm == Algorithm::winograd) {
    choose_winograd(tiling, options, target);
    tiling.v_slots = options.v_slots;
    tiling.m_slots = options.m_slots;
  } else {
    choose_direct(tiling, target);
  }
  derive_counts(tiling);
  return tiling;
}

const char* to_string(Algorithm algorithm) noexcept {
  switch (algorithm) {
    case Algorithm::automatic:
      return "automatic";
    case Algorithm::direct:
      return "direct";
    case Algorithm::winograd:
      return "winograd";
  }
  return "unknown";
}

const char* to_string(Points points) noexcept {
  return points == Points::low_error ? "low_error" : "integer";
}

const char* to_string(FilterMode filters) noexcept {
  return filters == FilterMode::every_run ? "every_run" : "prepared";
}

std::string to_string(const Tiling& tiling) {
  std::ostringstream text;
  const auto blocks = [](std::uint32_t num) {
    return std::to_string(num) + (num == 1 ? " lane block" : " lane blocks");
  };
  text << "problem: " << to_string(tiling.problem) << '\n'
       << "algorithm: " << to_string(tiling.algorithm);
  if (tiling.algorithm == Algorithm::winograd) {
    const auto window = [&](std::uint32_t slots, std::uint64_t slot_bytes) {
      return std::to_string(slots) + " of " + std::to_string(tiling.num_groups) + " groups, " +
             std::to_string(slots * slot_bytes) + " bytes" +
             (slots == tiling.num_groups ? " (whole)" : " (window)");
    };
    text << " F(" << tiling.m << "x" << tiling.m << ", 3x3), " << to_string(tiling.points)
         << " points\n"
         << "tiles: " << tiling.num_tiles() << " (" << tiling.problem.n << " x " << tiling.tiles_h
         << " x " << tiling.tiles_w << "), " << tiling.group_tiles << " a group\n"
         << "input task: " << blocks(tiling.channel_blocks_per_input_task) << '\n'
         << "gemm task: " << blocks(tiling.filter_blocks_per_gemm_task) << ", "
         << tiling.positions_per_gemm_task << " of " << tiling.num_positions() << " positions\n"
         << "output task: " << blocks(tiling.filter_blocks_per_output_task) << '\n'
         << "V: " << window(tiling.v_slots, tiling.v_slot_bytes()) << '\n'
         << "M: " << window(tiling.m_slots, tiling.m_slot_bytes()) << '\n';
  } else {
    text << "\npixels of a group: " << tiling.rows_per_group << " x " << tiling.cols_per_group
         << '\n'
         << "direct task: " << blocks(tiling.filter_blocks_per_gemm_task) << '\n';
  }
  text << "filter task: " << blocks(tiling.filter_blocks_per_filter_task) << ", "
       << to_string(tiling.filters) << '\n'
       << "U: " << tiling.u_bytes() << " bytes\n"
       << "task groups: " << tiling.num_groups << '\n'
       << "tasks: " << num_tasks(tiling) << " (NF " << tiling.num_filter_tasks << ", SI "
       << tiling.input_tasks << ", SG " << tiling.gemm_tasks << ", SO " << tiling.output_tasks
       << ")\n";
  return text.str();
}

}  // namespace megaconv
