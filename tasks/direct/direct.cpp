// SPDX-License-Identifier: Apache-2.0
// Direct convolution: a task group is a rectangle of output pixels of one image, a task some of its
// filters.
#include <algorithm>
#include <ostream>
#include <vector>

#include "mapping/mapping_file.hpp"
#include "megaconv/error.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/direct/direct_shapes.hpp"
#include "tasks/direct/lanes.hpp"
#include "tasks/error_bound.hpp"
#include "tasks/even_shares.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// Output columns of a task: wide enough to amortise the halo, narrow enough to stay in L1.
constexpr std::uint64_t kMostCols = 56;
// Share of a worker's cache that a task's input patch may fill; the rest is for U.
constexpr double kPatchShare = 0.5;
// Lane blocks of one task when there are tasks enough. Every task packs its input. Zen 4,
// n4c64h56k256r1p0, 8 and 16: f32 3.18, 2.95 ms, bf16 1.79, 1.72, i8 1.23, 0.97; n4c512h14k512: f32
// 19.6, 18.7, i8 4.45, 4.39.
constexpr std::uint64_t kMostBlocks = 16;

// Pixels of a task that reads x in place, if rows are shared out: those of 14 register tiles.
constexpr std::uint64_t kLeastInPlace = 14 * kRegisterRows;
// Columns of a task that are multiplied at the full rate, of one row or several: two tiles of sums.
constexpr std::uint64_t kLeastColumns = 96;

std::uint64_t input_cols(const ConvProblem& a, std::uint64_t cols) {
  return std::min((cols - 1) * u64(a.stride_w) + u64(a.filter_extent_w()), u64(a.w));
}

/// Output rows whose input is at most `input_rows` rows, or those of one.
std::uint64_t fitting_rows(const ConvProblem& a, std::uint64_t input_rows) {
  const std::uint64_t least = u64(a.filter_extent_h());
  return (std::max(input_rows, least) - least) / u64(a.stride_h) + 1;
}

// Operations of a task that is there only to occupy a worker: some us.
constexpr double kLeastShared = 4e5;

// Rows times filter blocks of the busiest worker, when each takes the next task as soon as it has
// done one: 7 tasks of 4 rows take two workers as long as 16 rows do.
std::uint64_t busiest_part(const Tiling& tiling, const Target& target, std::uint64_t rows,
                           std::uint64_t blocks) {
  constexpr std::uint64_t kMany = 32;  // tasks of a worker among which the last ones count little
  const std::uint64_t p = u64(tiling.problem.p()), n = u64(tiling.problem.n);
  const std::uint64_t filter_blocks = tiling.filter_blocks();
  const std::uint64_t tasks = n * ceil_div(p, rows) * ceil_div(filter_blocks, blocks);
  if (tasks > kMany * target.workers) {
    return ceil_div(n * p * filter_blocks, std::uint64_t{target.workers});
  }
  std::vector<std::uint64_t> parts(target.workers);
  for (std::uint64_t image = 0; image < n; ++image) {
    for (std::uint64_t row = 0; row < p; row += rows) {
      for (std::uint64_t block = 0; block < filter_blocks; block += blocks) {
        *std::min_element(parts.begin(), parts.end()) +=
            std::min(rows, p - row) * std::min(blocks, filter_blocks - block);
      }
    }
  }
  return *std::max_element(parts.begin(), parts.end());
}

// Of even shares near `rows`, of at most `most` rows, that whose busiest worker has least to
// compute. blocks(rows): filter blocks of a task.
template <class Blocks>
std::uint64_t balanced_rows(const Tiling& tiling, const Target& target, std::uint64_t rows,
                            std::uint64_t most, const Blocks& blocks) {
  const ConvProblem& a = tiling.problem;
  const std::uint64_t p = u64(a.p());
  const double unit_flops = a.flops() / static_cast<double>(u64(a.n) * p * tiling.filter_blocks());
  const std::uint64_t usual_blocks = blocks(rows);
  std::uint64_t best = rows, best_part = busiest_part(tiling, target, rows, usual_blocks);
  for (std::uint64_t other = std::min({2 * rows, p, most}); 2 * other >= rows; --other) {
    const bool is_even = ceil_div(p, ceil_div(p, other)) == other;
    if (!is_even) continue;
    const std::uint64_t other_blocks = blocks(other), size = other * other_blocks;
    const bool is_short =
        size < rows * usual_blocks && unit_flops * static_cast<double>(size) < kLeastShared;
    if (is_short) continue;
    const std::uint64_t part = busiest_part(tiling, target, other, other_blocks);
    if (part < best_part) best = other, best_part = part;
  }
  return best;
}

// In NCHW the input of one channel fits the L1, and tasks are cut by channels, which costs no halo;
// in nchw16c by blocks of them for the same reason; in NHWC by rows, so that channels, which are
// neighbours there, stay together.
void choose_depthwise_for_cpu(Tiling& tiling, const Target& target) {
  const ConvProblem& a = tiling.problem;
  const std::uint64_t wanted = kTasksPerWorker * target.workers;
  const std::uint64_t p = u64(a.p()), q = u64(a.q()), n = u64(a.n);
  const std::uint64_t filter_blocks = tiling.filter_blocks();
  std::uint64_t rows, cols, blocks;
  if (lanes_are_columns(a)) {
    const std::uint64_t most_cols =
        kDepthwiseBytes / (u64(a.filter_extent_h()) * u64(a.stride_w) * sizeof(float));
    cols = ceil_div(q, ceil_div(q, std::max<std::uint64_t>(most_cols, kRegisterRows)));
    const std::uint64_t fitting =
        fitting_rows(a, kDepthwiseBytes / (input_cols(a, cols) * sizeof(float)));
    const std::uint64_t strips = n * ceil_div(q, cols);
    const std::uint64_t parts = ceil_div(wanted, strips * filter_blocks);
    rows = ceil_div(p, std::min(p, std::max(parts, ceil_div(p, fitting))));
    blocks = even_blocks(filter_blocks, filter_blocks, strips * ceil_div(p, rows), wanted);
  } else {
    cols = q;
    const bool by_blocks = a.layout == Layout::nchw16c;
    const std::uint64_t parts = std::min(p, ceil_div(wanted, by_blocks ? n * filter_blocks : n));
    const auto blocks_of = [&](std::uint64_t task_rows) -> std::uint64_t {
      return even_blocks(filter_blocks, filter_blocks, n * ceil_div(p, task_rows), wanted);
    };
    rows = balanced_rows(tiling, target, ceil_div(p, parts), p, blocks_of);
    blocks = blocks_of(rows);
  }
  auto& cut = std::get<DirectCut>(tiling.cut);
  cut.rows_per_group = u32(rows);
  cut.cols_per_group = u32(cols);
  cut.filter_blocks_per_gemm_task = u32(blocks);
  tiling.filter_blocks_per_filter_task = even_blocks(filter_blocks, filter_blocks, 1, wanted);
}

// Share of a worker's cache that the x of a task fills that reads it in place. More rows read the
// filters less often. Zen 3, 512 KiB, GFLOP/s of n1c2048h7k512r1p0 with 4 and 7 rows 92, 94; of
// n1c1024h14k2048r1p0u2 with 2, 4 and 7 rows 73, 76, 79.
constexpr double kInPlaceShare = 0.8;
// Under stride 2 every other cache line is read, so x has half of the cache's sets. Sapphire
// Rapids, 2 MiB, n4c256h56k512r1p0u2 with 28 rows of 0.4 2.58 ms, with 14 2.22.
constexpr double kStridedShare = 0.2;
constexpr double kFewFiltersShare = 1.0 / 32;

// Outputs of a task that reads x in place: whole rows, so that they follow each other; their x
// stays in the worker's cache. Where rows are few, tasks share the filters.
void choose_in_place_for_cpu(Tiling& tiling, const Target& target) {
  const ConvProblem& a = tiling.problem;
  const std::uint64_t wanted = kTasksPerWorker * target.workers;
  const std::uint64_t p = u64(a.p()), n = u64(a.n), filter_blocks = tiling.filter_blocks();
  // Of what strides step over nothing is read.
  const std::uint64_t stride_h = a.r == 1 ? u64(a.stride_h) : 1;
  const std::uint64_t stride_w = a.s == 1 ? u64(a.stride_w) : 1;
  const std::uint64_t row_bytes =
      ceil_div(u64(a.w), stride_w) * u64(a.c / a.groups) * sizeof(float);
  const double share = stride_w > 1 ? kStridedShare : kInPlaceShare;
  const std::uint64_t fitting = fitting_rows(a, stride_h * cache_share(target, share) / row_bytes);
  // Tasks by filters first, as far as register tiles have them: all workers are at the same rows of
  // x, and read the filters again for others. Sapphire Rapids, two workers, speed by that of four
  // times as many parts of rows: n1c512h26k256r1p0 1.13, n1c256h28k256r3p1u2 1.18,
  // n1c128h28k512r1p0 1.05, n1c256h14k1024r1p0 1.03. Few filters stay in the L1: rows first,
  // n1c128h104k64r1p0 1.05.
  const bool few_filters = tiling.u_bytes() < cache_share(target, kFewFiltersShare);
  const std::uint64_t chunks = few_filters ? 1 : ceil_div(filter_blocks, std::uint64_t{2});
  const std::uint64_t shares = std::max<std::uint64_t>(target.workers, ceil_div(wanted, chunks));
  const std::uint64_t least = ceil_div(kLeastInPlace, u64(a.q()));
  const std::uint64_t shared = std::max(least, n * p / shares);
  const std::uint64_t parts =
      ceil_div(p, std::clamp<std::uint64_t>(shared, 1, std::min(p, fitting)));
  const std::uint64_t even_rows = ceil_div(p, parts);
  const auto blocks = [&](std::uint64_t task_rows) -> std::uint64_t {
    const std::uint64_t even =
        even_blocks(filter_blocks, filter_blocks, n * ceil_div(p, task_rows), wanted);
    const std::uint64_t usual = std::min<std::uint64_t>(filter_blocks, even + even % 2);
    std::uint64_t best = usual, best_part = busiest_part(tiling, target, task_rows, usual);
    // Register tiles have two filter blocks, or three of those that are left. 160 filters on 7 x 7
    // pixels are two tasks of five blocks: 1.08 times the speed of ten tasks of two.
    const std::uint64_t most =
        std::max(ceil_div(filter_blocks, std::uint64_t{target.workers}), usual + 2);
    for (std::uint64_t other = usual / 4 * 2 + 2; other <= std::min(most, filter_blocks); ++other) {
      const std::uint64_t part = busiest_part(tiling, target, task_rows, other);
      if (part < best_part) best = other, best_part = part;
    }
    return best;
  };
  const std::uint64_t rows = balanced_rows(tiling, target, even_rows, fitting, blocks);
  auto& cut = std::get<DirectCut>(tiling.cut);
  cut.rows_per_group = u32(rows);
  cut.cols_per_group = u32(a.q());
  cut.filter_blocks_per_gemm_task = u32(blocks(rows));
  tiling.filter_blocks_per_filter_task = even_blocks(filter_blocks, filter_blocks, 1, wanted);
}

// Share of a worker's cache that the x or the patch of a task with AMX fills.
constexpr double kAmxShare = 0.5;
// Fewer than others: all that share outputs make the same patch.
constexpr std::uint64_t kAmxTasksPerWorker = 1;
// Outputs of a task with AMX, if rows are shared out: those of a kernel of one filter block.
constexpr std::uint64_t kLeastAmx = 96;

// Outputs of a task with AMX: whole rows, where as many fit as a filter has, so that registers are
// full; and all filters, so that no other task makes the same patch, unless tasks are too few.
void choose_amx_for_cpu(Tiling& tiling, const Target& target) {
  const ConvProblem& a = tiling.problem;
  const std::uint64_t wanted = kAmxTasksPerWorker * target.workers;
  const std::uint64_t p = u64(a.p()), n = u64(a.n), filter_blocks = tiling.filter_blocks();
  const std::uint64_t channel_bytes =
      ceil_div(u64(a.c / a.groups) * size_of(a.dtype), kBlockBytes) * kBlockBytes;
  const std::uint64_t budget = cache_share(target, kAmxShare);
  const std::uint64_t least_rows = u64(a.filter_extent_h());
  std::uint64_t cols = u64(a.q());
  while (cols > kLeastAmx && budget / (input_cols(a, cols) * channel_bytes) < least_rows) {
    cols = ceil_div(cols, std::uint64_t{2});
  }
  const std::uint64_t fitting = fitting_rows(a, budget / (input_cols(a, cols) * channel_bytes));
  const std::uint64_t strips = n * ceil_div(u64(a.q()), cols);
  const std::uint64_t shared = std::max(ceil_div(kLeastAmx, cols), strips * p / wanted);
  const std::uint64_t rows =
      ceil_div(p, ceil_div(p, std::clamp<std::uint64_t>(shared, 1, std::min(p, fitting))));
  auto& cut = std::get<DirectCut>(tiling.cut);
  cut.rows_per_group = u32(rows);
  cut.cols_per_group = u32(cols);
  std::uint32_t& blocks = cut.filter_blocks_per_gemm_task;
  blocks = even_blocks(filter_blocks, filter_blocks, strips * ceil_div(p, rows), wanted);
  blocks = u32(std::min<std::uint64_t>(filter_blocks, blocks + blocks % 2));  // of a kernel: two
  tiling.filter_blocks_per_filter_task = even_blocks(filter_blocks, filter_blocks, 1, wanted);
}

// A group's input, [blocks of words][rows][cols][kLaneBlock], fills at most half of the worker's
// cache; there are tasks enough for all workers.
void choose_for_cpu(Tiling& tiling, const Target& target) {
  const ConvProblem& a = tiling.problem;
  if (a.depthwise()) return choose_depthwise_for_cpu(tiling, target);
  if (reads_x_in_place(a)) return choose_in_place_for_cpu(tiling, target);
  if (target.amx && (a.dtype == DataType::bf16 || a.dtype == DataType::i8)) {
    return choose_amx_for_cpu(tiling, target);
  }
  auto& cut = std::get<DirectCut>(tiling.cut);
  const std::uint64_t wanted = kTasksPerWorker * target.workers;
  const std::uint64_t budget = cache_share(target, kPatchShare);
  constexpr std::uint64_t kLaneBlock = Tiling::kLaneBlock;
  const auto row_bytes = [&](std::uint64_t cols) {
    return input_cols(a, cols) * ceil_div(channel_words(tiling), kLaneBlock) * kBlockBytes;
  };
  const std::uint64_t p = u64(a.p()), q = u64(a.q());
  const bool planes = lanes_are_columns(a);  // whole rows are best
  std::uint64_t cols = planes ? q : even_share(q, kMostCols);
  const std::uint64_t least_rows = u64(a.filter_extent_h());
  if (budget / row_bytes(cols) < least_rows) cols = even_share(q, kMostCols);
  if (budget / row_bytes(cols) < least_rows) cols = even_share(q, kRegisterRows);
  const std::uint64_t fitting = fitting_rows(a, budget / row_bytes(cols));

  const std::uint64_t filter_blocks = tiling.filter_blocks();
  const std::uint64_t strips = u64(a.n) * ceil_div(q, cols);
  const std::uint64_t row_tasks = strips * p * ceil_div(filter_blocks, kMostBlocks);
  const std::uint64_t least = planes ? ceil_div(kLeastColumns, cols) : 1;
  const std::uint64_t shared = std::max<std::uint64_t>(least, row_tasks / wanted);
  const std::uint64_t rows = ceil_div(p, ceil_div(p, std::min(fitting, shared)));

  cut.rows_per_group = u32(rows);
  cut.cols_per_group = u32(cols);
  const std::uint64_t groups = strips * ceil_div(p, rows);
  cut.filter_blocks_per_gemm_task = even_blocks(filter_blocks, kMostBlocks, groups, wanted);
  tiling.filter_blocks_per_filter_task = even_blocks(filter_blocks, filter_blocks, 1, wanted);
}

// Products of an output past which filters are the better lanes: the input of a tile of columns no
// longer stays in an L1, and transposing x and y is little beside the products. Of oneDNN's speed,
// columns and filters: n1c64h56k256r1p0 0.64, 0.33; n1c24h56k144r1p0 0.62, 0.38; n1c3h224k64r7p3u2
// 0.80, 0.66; n1c512h14k512r1p0 0.71, 0.89; n1c128h56k128r3p1u2 0.64, 0.92.
constexpr std::int64_t kMostColumnProducts = 192;

}  // namespace

bool lanes_are_columns(const ConvProblem& a) {
  if (a.layout != Layout::nchw) return false;
  if (a.depthwise()) return true;
  const bool single = a.dtype == DataType::f32 || a.dtype == DataType::f16;
  return single && a.c / a.groups * a.r * a.s <= kMostColumnProducts;
}

bool reads_x_in_place(const ConvProblem& a) {
  return (a.layout == Layout::nhwc || a.layout == Layout::nchw16c) && a.dtype == DataType::f32 &&
         !a.depthwise();
}

namespace {

// Tasks on tensor cores have whole parts of the filters that a warp multiplies, and all of a task
// in shared memory.
void check_mma_filters(const Tiling& tiling) {
  const MmaFilterParts parts = mma_filter_parts(tiling.problem);
  const std::uint32_t part = ceil_div(u32(u64(parts.filters)), Tiling::kLaneBlock);
  const std::uint32_t blocks = std::get<DirectCut>(tiling.cut).filter_blocks_per_gemm_task;
  const std::uint64_t most = std::max<std::uint64_t>(1, u64(kMmaFilterBytes / parts.bytes)) * part;
  const bool is_whole = blocks % part == 0 || blocks == tiling.filter_blocks();
  if (is_whole && blocks <= most) return;
  throw Error(Status::unsupported, "filter_blocks_per_gemm_task = " + std::to_string(blocks) +
                                       ": arithmetic " + to_string(tiling.arithmetic) +
                                       ", must be a multiple of " + std::to_string(part) +
                                       " and at most " + std::to_string(most) + ", or all " +
                                       std::to_string(tiling.filter_blocks()));
}

class DirectAlgorithm final : public ConvAlgorithmOf<DirectCut> {
 public:
  bool runs_on(Backend) const override { return true; }
  std::string obstacle(const ConvProblem&, Arithmetic) const override { return ""; }
  std::string arithmetic_need(const Tiling& tiling) const override {
    if (tiling.arithmetic == Arithmetic::fma) return "";
    const Arithmetic own_type = mma_arithmetic(tiling.problem.dtype);
    if (tiling.arithmetic != own_type) return std::string("fma or ") + to_string(own_type);
    const std::string_view need = mma_need(tiling.problem);
    return need.empty() ? "" : "fma, or " + std::string(need);
  }
  ErrorBound sum_bound(const Tiling& tiling) const override {
    return tiling.arithmetic == Arithmetic::fma ? direct_bound(tiling) : one_product_bound(tiling);
  }

  void choose(Tiling& tiling, const TilingOptions& options, const Target& target) const override {
    tiling.arithmetic = direct_arithmetic(tiling.problem, options, target);
    target.backend == Backend::cuda ? choose_direct_for_cuda(tiling, target)
                                    : choose_for_cpu(tiling, target);
    DirectCut& cut = own(tiling);
    set_if_asked(cut.filter_blocks_per_gemm_task, options.filter_blocks_per_gemm_task);
    set_if_asked(cut.rows_per_group, options.rows_per_group);
    set_if_asked(cut.cols_per_group, options.cols_per_group);
  }

  void derive(Tiling& tiling) const override {
    const ConvProblem& a = tiling.problem;
    const DirectCut& cut = own(tiling);
    check_field("filter_blocks_per_gemm_task", cut.filter_blocks_per_gemm_task,
                tiling.filter_blocks());
    check_field("filter_blocks_per_filter_task", tiling.filter_blocks_per_filter_task,
                tiling.filter_blocks());
    check_field("rows_per_group", cut.rows_per_group, u64(a.p()));
    check_field("cols_per_group", cut.cols_per_group, u64(a.q()));
    if (tiling.arithmetic != Arithmetic::fma && mma_need(a).empty()) check_mma_filters(tiling);
    tiling.num_groups =
        checked_groups(u64(a.n) * ceil_div(u64(a.p()), std::uint64_t{cut.rows_per_group}) *
                       ceil_div(u64(a.q()), std::uint64_t{cut.cols_per_group}));
    tiling.input_tasks = tiling.output_tasks = 0;
    tiling.gemm_tasks = ceil_div(tiling.filter_blocks(), cut.filter_blocks_per_gemm_task);
  }
  std::uint32_t count_filter_tasks(const Tiling& tiling) const override {
    return filter_tasks_by_sizes(tiling);
  }
  std::uint64_t u_bytes(const Tiling& tiling) const override {
    const ConvProblem& a = tiling.problem;
    if (tiling.arithmetic != Arithmetic::fma) {
      const MmaFilterParts parts = mma_filter_parts(a);
      return ceil_div(u64(a.k), u64(parts.filters)) * u64(parts.bytes);
    }
    return packed_filter_bytes(tiling, u64(a.r * a.s));
  }

  AccessFunction accesses(const Tiling& tiling, const NodeBuffers& buffers) const override {
    return direct_accesses(tiling, buffers);
  }
  TaskCost cost(const Tiling& tiling, const NodeBuffers& buffers, Role role) const override {
    const ConvCost common(tiling, buffers);
    if (role == Role::prepare) return common.packing();
    const ConvProblem& a = tiling.problem;
    const DirectCut& cut = own(tiling);
    const auto stride = static_cast<double>(a.stride_h);
    const double halo = std::max(0.0, static_cast<double>(a.filter_extent_h()) - stride) /
                        (cut.rows_per_group * stride);
    const double outputs = static_cast<double>(cut.rows_per_group) * cut.cols_per_group *
                           cut.filter_blocks_per_gemm_task * Tiling::kLaneBlock;
    TaskCost cost = common.direct(halo, 1);
    cost.fill = static_cast<double>(a.y_size()) / tiling.num_groups / tiling.gemm_tasks / outputs;
    cost.rows = cut.cols_per_group;
    cost.filter_blocks = cut.filter_blocks_per_gemm_task;
    cost.kept_bytes = cost.traffic.front().bytes * (1 + halo) + common.u_part();
    return cost;
  }

  // On a GPU the shapes of tasks are compiled: only the heuristic's are there, which make_space
  // adds.
  AlgorithmSpace space(const ConvProblem& problem, const Target& target,
                       const TilingOptions&) const override {
    AlgorithmSpace space;
    if (problem.layout == Layout::chwn) return space;
    const std::uint64_t p = u64(problem.p()), q = u64(problem.q());
    const Tiling tiling{.problem = problem};
    Axis filters{Parameter::gemm_filters, {}}, rows{Parameter::rows, {}}, cols{Parameter::cols, {}};
    if (target.backend != Backend::cuda) {
      filters.values = at_most({1, 2, 4, 8, 16}, tiling.filter_blocks());
      rows.values = at_most({1, 2, 4, 7, 14, 28}, p);
      cols.values = at_most({14, 28, 56, 112}, q);
      if (cols.values.empty()) cols.values = {problem.q()};
    }
    add_orders_of_one_kind(
        space,
        {{Parameter::algo, {static_cast<std::int64_t>(Algorithm::direct)}}, filters, rows, cols},
        workers_axis(target), target);
    return space;
  }
  void configure(const Tiling& tiling, CudaLaunch, Configuration& configuration) const override {
    const DirectCut& cut = own(tiling);
    configuration.set(Parameter::gemm_filters, cut.filter_blocks_per_gemm_task);
    configuration.set(Parameter::rows, cut.rows_per_group);
    configuration.set(Parameter::cols, cut.cols_per_group);
  }

  std::vector<CutField> fields(Tiling& tiling) const override {
    DirectCut& cut = own(tiling);
    return {{"rows_per_group", cut.rows_per_group},
            {"cols_per_group", cut.cols_per_group},
            {"filter_blocks_per_gemm_task", cut.filter_blocks_per_gemm_task},
            {"filter_blocks_per_filter_task", tiling.filter_blocks_per_filter_task}};
  }
  void put_words(const Tiling& tiling, FileSection& section) const override {
    if (tiling.arithmetic != Arithmetic::fma) {
      section.put("arithmetic", to_string(tiling.arithmetic));
    }
  }
  void take_words(FileSection& section, Tiling& tiling) const override {
    if (!section.values().contains("arithmetic")) return;
    tiling.arithmetic = section.choice(
        "arithmetic", {Arithmetic::fma, Arithmetic::tf32, Arithmetic::f16, Arithmetic::bf16});
  }
  std::string name(const Tiling& tiling) const override {
    const bool multiplies_adds = tiling.arithmetic == Arithmetic::fma;
    return multiplies_adds ? "direct" : "direct, " + product_text(tiling.arithmetic);
  }
  void describe(const Tiling& tiling, std::ostream& text) const override {
    const DirectCut& cut = own(tiling);
    text << "\npixels of a group: " << cut.rows_per_group << " x " << cut.cols_per_group
         << "\ndirect task: " << blocks_text(cut.filter_blocks_per_gemm_task)
         << "\nfilter task: " << blocks_text(tiling.filter_blocks_per_filter_task);
  }
};

}  // namespace

const ConvAlgorithm& direct_algorithm() {
  static const DirectAlgorithm kDirect;
  return kDirect;
}

}  // namespace megaconv
