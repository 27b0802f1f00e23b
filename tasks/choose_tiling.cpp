// SPDX-License-Identifier: Apache-2.0
// What is chosen about a tiling: the algorithm, the output tile, how much work goes into one task.
//
// These are heuristics and may change freely; derive_counts() in tiling.cpp checks what must hold.
#include <algorithm>

#include "megaconv/error.hpp"
#include "tasks/tiling.hpp"

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
// Shares of a worker's cache that a group's V, or a direct task's input patch, may fill; the rest
// is for U and M. Zen 4, 1 MiB, n4c64h56k64 in large pages: t = 28 1.58 ms, 42 1.49, 56 1.71,
// 98 1.81.
constexpr double kVShare = 0.4, kPatchShare = 0.5;
// A fused task's V and M fill about this share of its worker's cache, in whole register tiles;
// less of it where U stays there beside them. Zen 4, n4c64h56k64: t = 14 1.32 ms, 28 1.31, 42 1.37,
// and with the workers on different core complexes 14 2.08, 28 1.62, 44 1.62, 56 1.52;
// n1c32h208k64: 28 2.75, 56 2.82.
constexpr double kFusedShare = 0.75, kFusedShareBesideU = 0.6;
// Fewer tiles multiply at less than the full rate, and so are fused only where U is so small. All
// workers read all of U, so where it comes from memory a fused task must have a full register tile.
// Zen 4, n1c512h13k1024: 3.3 ms fused, 2.9 in tasks of stages, which share U out.
constexpr std::uint64_t kLeastFusedTiles = 7;
constexpr double kFewTilesU = 2, kUncachedU = 16;
// From this many times the cache on, U is streamed: groups are then so large that one position of V
// fills kVShare, and a GEMM task takes few positions of all filters.
constexpr double kStreamedU = 4;
constexpr std::uint64_t kStreamedPositions = 2;
// Lane blocks of one task when there are tasks enough. Every direct task packs its input. Zen 4,
// n4c64h56k256r1p0, 8 and 16: f32 3.18, 2.95 ms, bf16 1.79, 1.72, i8 1.23, 0.97; n4c512h14k512: f32
// 19.6, 18.7, i8 4.45, 4.39.
constexpr std::uint64_t kTransformBlocks = 4, kDirectBlocks = 16;
// Below these, transforms cost more than the multiplications they save.
constexpr std::int64_t kLeastWinogradChannels = 16;
// Winograd reads 4 times the filter bytes of direct convolution. Zen 4, 4 tiles, n1c512h7k512: 0.46
// ms against 1.0.
constexpr std::uint64_t kLeastWinogradTiles = 4;

std::uint64_t cache_share(const Target& target, double share) {
  return static_cast<std::uint64_t>(static_cast<double>(target.cache_bytes_per_worker) * share);
}

// Multiplications of Winograd for each channel and filter: T alpha^2.
std::uint64_t winograd_products(const ConvProblem& problem, std::uint64_t m) {
  const std::uint64_t tiles =
      u64(problem.n) * ceil_div(u64(problem.p()), m) * ceil_div(u64(problem.q()), m);
  return tiles * (m + 2) * (m + 2);
}

// Whether a GPU shall take F(2x2): where F(4x4) has too few GEMM tasks. Tensors of 16 bits have no
// other tile than F(4x4) on tensor cores.
bool takes_small_tiles(const ConvProblem& problem, const TilingOptions& options,
                       const Target& target) {
  const bool fma = options.arithmetic == Arithmetic::fma || !target.split_f16;
  return target.backend == Backend::cuda && (fma || problem.dtype == DataType::f32) &&
         has_few_gemm_tasks(problem, fma ? Arithmetic::fma : Arithmetic::split_f16, target);
}

// Whether Winograd takes one product of rounded numbers where it has tasks for that: it needs
// points of low error, and F(4x4), which takes fewer than three products of F(2x2) do. With few
// tasks these are as fast and lose no accuracy: H200, n1c256h14k256 20.4 us against 19.8,
// n1c512h7k512 27.3 against 31.8.
bool takes_one_product(const ConvProblem& problem, const TilingOptions& options,
                       const Target& target) {
  if (options.arithmetic != Arithmetic::automatic) return options.arithmetic == Arithmetic::f16;
  const bool small_tiles = options.m == 0 && takes_small_tiles(problem, options, target);
  return target.split_f16 && permits_f16(problem.dtype, options.precision) &&
         options.points == Points::low_error && !small_tiles;
}

// The output tile that takes fewest multiplications: F(2x2) only where an output so small wastes
// most of a 4x4 tile. F(6x6) loses accuracy and is never chosen unasked.
std::uint32_t cheapest_m(const ConvProblem& problem) {
  return winograd_products(problem, 2) < winograd_products(problem, 4) ? 2 : 4;
}

std::uint32_t choose_m(const ConvProblem& problem, const TilingOptions& options,
                       const Target& target) {
  if (takes_one_product(problem, options, target)) return 4;
  return takes_small_tiles(problem, options, target) ? 2 : cheapest_m(problem);
}

// Winograd pays when it saves at least half of the multiplications (the transforms take their part
// of the gain), and there are tiles enough to share each transformed filter among.
bool winograd_pays(const ConvProblem& problem, const TilingOptions& options, const Target& target) {
  const std::uint32_t m = takes_one_product(problem, options, target) ? 4 : cheapest_m(problem);
  const std::uint64_t products = winograd_products(problem, m);
  const std::uint64_t tiles = products / ((m + 2) * (m + 2));
  const std::uint64_t direct_products = u64(problem.n * problem.p() * problem.q()) * 9;
  return problem.c >= kLeastWinogradChannels && problem.k >= kLeastWinogradChannels &&
         tiles >= kLeastWinogradTiles && 2 * products <= direct_products;
}

// What keeps the algorithm asked for from computing the problem; empty when nothing does.
std::string obstacle_of(const ConvProblem& problem, const TilingOptions& options) {
  switch (options.algorithm) {
    case Algorithm::winograd:
    case Algorithm::fused_winograd:
      return winograd_obstacle(options.algorithm, problem);
    case Algorithm::opencnn:
      return opencnn_obstacle(problem);
    case Algorithm::implicit_gemm: {
      const std::string obstacle = implicit_gemm_obstacle(problem);
      const bool refused = obstacle.empty() && options.arithmetic == Arithmetic::fma;
      return refused ? "implicit_gemm: arithmetic fma, must be one of tensor cores" : obstacle;
    }
    default:
      return "";
  }
}

// CUDA's direct tasks neither take tensors of 16 bits nor multiply in them.
bool excludes_direct(const ConvProblem& problem, const TilingOptions& options,
                     const Target& target) {
  return target.split_f16 && target.multiprocessors != 0 &&
         (problem.dtype != DataType::f32 || options.arithmetic == Arithmetic::f16 ||
          options.arithmetic == Arithmetic::tf32);
}

// Whoever says how groups or a window shall be, means one of the others; who names an arithmetic,
// an algorithm that has it.
bool takes_implicit_gemm(const ConvProblem& problem, const TilingOptions& options, bool winograd,
                         const Target& target) {
  const bool asked = options.m != 0 || options.group_tiles != 0 || options.v_slots != 0 ||
                     options.m_slots != 0 || options.rows_per_group != 0;
  const Arithmetic arithmetic = implicit_gemm_arithmetic(problem, options);
  const bool possible = target.split_f16 && problem.layout != Layout::chwn &&
                        implicit_gemm_obstacle(problem).empty() &&
                        arithmetic_need(Algorithm::implicit_gemm, 0, problem, arithmetic).empty();
  const bool no_other = !winograd && excludes_direct(problem, options, target);
  return possible && !asked && (no_other || implicit_gemm_pays(problem, options, winograd, target));
}

Algorithm choose_algorithm(const ConvProblem& problem, const TilingOptions& options,
                           const Target& target) {
  const std::string obstacle = obstacle_of(problem, options);
  if (!obstacle.empty()) throw Error(Status::unsupported, obstacle);
  if (options.algorithm != Algorithm::automatic) return options.algorithm;
  const bool possible =
      winograd_obstacle(Algorithm::winograd, problem).empty() &&
      options.arithmetic != Arithmetic::bf16 && options.arithmetic != Arithmetic::tf32 &&
      (options.points == Points::low_error || !excludes_direct(problem, options, target));
  const bool pays = possible && winograd_pays(problem, options, target);
  if (takes_implicit_gemm(problem, options, pays, target)) return Algorithm::implicit_gemm;
  const bool last_resort = possible && excludes_direct(problem, options, target);
  return pays || last_resort ? Algorithm::winograd : Algorithm::direct;
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

// Bytes of V and M of one tile.
std::uint64_t tile_bytes(const Tiling& tiling) {
  return std::uint64_t{tiling.num_positions()} * kBlockBytes *
         (tiling.channel_blocks() + tiling.filter_blocks());
}

// Tiles of a fused task. While a worker has few of them, all have equally many. Else an even number
// of register tiles, which is whole cache lines of y (28 tiles of 4 x 4 outputs: 7 lines). Zen 4,
// n4c32h208k64, y stored past the caches: t = 14 12.8 ms, 28 11.2, 42 12.0, 56 11.3.
std::uint64_t fused_group_tiles(const Tiling& tiling, const Target& target) {
  constexpr std::uint64_t kMany = 8;
  const auto register_tiles = [&](double share) {
    const double fitting = static_cast<double>(cache_share(target, share)) /
                           static_cast<double>(tile_bytes(tiling) * kRegisterRows);
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(fitting + 0.5));
  };
  const std::uint64_t tiles = tiling.num_tiles(), workers = target.workers;
  const std::uint64_t most = kRegisterRows * register_tiles(kFusedShare);
  const std::uint64_t tasks =  // of a worker
      std::max<std::uint64_t>(1, (tiles + workers * most / 2) / (workers * most));
  if (tasks <= kMany) return ceil_div(tiles, workers * tasks);
  const bool beside_u = tiling.u_bytes() <= target.cache_bytes_per_worker;
  const std::uint64_t many = register_tiles(beside_u ? kFusedShareBesideU : kFusedShare);
  return kRegisterRows * (many > 1 ? many / 2 * 2 : 1);
}

// A fused task's V and M never leave its worker's cache. Where the workers' cores are far apart
// that counts most: a line that the other core has read takes 30 ns to write. Zen 4, n4c256h56k256
// on two core complexes: 18.2 ms, in tasks of stages 22.1.
bool fusing_pays(const Tiling& tiling, const TilingOptions& options, const Target& target) {
  // Whoever says what a group or the window shall be means tasks of stages.
  const bool staged = options.group_tiles != 0 || options.v_slots != 0 || options.m_slots != 0 ||
                      options.whole_tensors;
  if (staged || options.algorithm != Algorithm::automatic || target.backend != Backend::cpu) {
    return false;
  }
  const std::uint64_t tiles = fused_group_tiles(tiling, target);
  const bool most_u = tiling.u_bytes() > cache_share(target, kUncachedU);
  return tiles >= (most_u ? kRegisterRows : kLeastFusedTiles) ||
         tiling.u_bytes() <= cache_share(target, kFewTilesU);
}

bool streams_u(const Tiling& tiling, const Target& target) {
  return tiling.u_bytes() >= cache_share(target, kStreamedU);
}

// V, or one position of it when U is streamed, fills kVShare of the worker's cache at most. There
// are groups enough for all workers, in whole register tiles; when U is streamed, as few as fit.
std::uint64_t shared_group_tiles(const Tiling& tiling, std::uint64_t wanted, const Target& target) {
  const std::uint64_t tiles = tiling.num_tiles();
  const std::uint64_t tile_bytes = tiling.channel_blocks() * kBlockBytes;
  const auto most = [&](std::uint64_t bytes) {
    return std::clamp(cache_share(target, kVShare) / bytes, kRegisterRows, kMostGroupTiles);
  };
  if (streams_u(tiling, target)) return ceil_div(tiles, ceil_div(tiles, most(tile_bytes)));
  const std::uint64_t shared = std::max(kRegisterRows, tiles / wanted);
  return even_share(tiles, std::min(most(tile_bytes * tiling.num_positions()), shared));
}

// A GEMM task takes all filters, so that it reads V once, and as many positions as leave tasks
// enough for all workers; only where positions are too few for that are filters shared out too.
void choose_gemm_task(Tiling& tiling, std::uint64_t groups, std::uint64_t wanted,
                      const Target& target) {
  const std::uint64_t positions = tiling.num_positions();
  const std::uint64_t most = streams_u(tiling, target) ? kStreamedPositions : positions;
  tiling.positions_per_gemm_task = even_blocks(positions, most, groups, wanted);
  const std::uint64_t chunks = ceil_div<std::uint64_t>(positions, tiling.positions_per_gemm_task);
  tiling.filter_blocks_per_gemm_task =
      even_blocks(tiling.filter_blocks(), tiling.filter_blocks(), groups * chunks, wanted);
}

Arithmetic choose_arithmetic(const Tiling& tiling, const TilingOptions& options,
                             const Target& target) {
  if (options.arithmetic != Arithmetic::automatic) return options.arithmetic;
  // Tensors of 16 bits have no other arithmetic there.
  const bool must = target.split_f16 && tiling.problem.dtype != DataType::f32;
  const bool may = tiling.m == 4 && takes_one_product(tiling.problem, options, target);
  if (must || may) return Arithmetic::f16;
  return target.split_f16 && tiling.m != 6 ? Arithmetic::split_f16 : Arithmetic::fma;
}

void choose_winograd(Tiling& tiling, const TilingOptions& options, const Target& target) {
  const std::uint64_t wanted = target.workers == 1 ? 1 : kTasksPerWorker * target.workers;
  const std::uint64_t tiles = tiling.num_tiles(), filter_blocks = tiling.filter_blocks();
  tiling.filter_blocks_per_filter_task = even_blocks(filter_blocks, filter_blocks, 1, wanted);
  tiling.channel_blocks_per_filter_task = tiling.channel_blocks();
  if (tiling.algorithm == Algorithm::fused_winograd) {
    const std::uint64_t asked = options.group_tiles;
    tiling.group_tiles =
        u32(asked != 0 ? std::min(asked, tiles) : fused_group_tiles(tiling, target));
    return;
  }
  const std::uint64_t group_tiles = options.group_tiles != 0
                                        ? std::min<std::uint64_t>(options.group_tiles, tiles)
                                        : shared_group_tiles(tiling, wanted, target);
  const std::uint64_t groups = ceil_div(tiles, group_tiles);
  tiling.group_tiles = tiling.tiles_per_transform_task = u32(group_tiles);
  choose_gemm_task(tiling, groups, wanted, target);
  tiling.channel_blocks_per_input_task =
      even_blocks(tiling.channel_blocks(), kTransformBlocks, groups, wanted);
  tiling.filter_blocks_per_output_task =
      even_blocks(filter_blocks, kTransformBlocks, groups, wanted);
}

// A group's input patch, [blocks of words][rows][cols][kLaneBlock], fills at most half of the
// worker's cache; there are tasks enough for all workers.
void choose_direct(Tiling& tiling, const Target& target) {
  const ConvProblem& a = tiling.problem;
  const std::uint64_t wanted = kTasksPerWorker * target.workers;
  const std::uint64_t budget = cache_share(target, kPatchShare);
  constexpr std::uint64_t kLaneBlock = Tiling::kLaneBlock;
  const auto row_bytes = [&](std::uint64_t cols) {
    const std::uint64_t input_cols =
        std::min((cols - 1) * u64(a.stride_w) + u64(a.filter_extent_w()), u64(a.w));
    return input_cols * ceil_div(channel_words(tiling), kLaneBlock) * kBlockBytes;
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

// What the caller fixed about the sizes of tasks takes the place of what was chosen.
void set_task_sizes(Tiling& tiling, const TilingOptions& options) {
  const auto set = [](std::uint32_t& chosen, std::uint32_t asked) {
    if (asked != 0) chosen = asked;
  };
  set(tiling.filter_blocks_per_gemm_task, options.filter_blocks_per_gemm_task);
  if (tiling.algorithm == Algorithm::direct) {
    set(tiling.rows_per_group, options.rows_per_group);
    set(tiling.cols_per_group, options.cols_per_group);
  } else {
    set(tiling.channel_blocks_per_input_task, options.channel_blocks_per_input_task);
    set(tiling.positions_per_gemm_task, options.positions_per_gemm_task);
    set(tiling.filter_blocks_per_output_task, options.filter_blocks_per_output_task);
    set(tiling.tiles_per_transform_task,
        std::min(options.tiles_per_transform_task, tiling.group_tiles));
  }
}

void check_options(const TilingOptions& options, const Target& target) {
  if (options.m != 0) check_m(options.m);
  if (options.whole_tensors && (options.v_slots != 0 || options.m_slots != 0)) {
    throw Error(Status::invalid_argument, "v_slots = " + std::to_string(options.v_slots) +
                                              ", m_slots = " + std::to_string(options.m_slots) +
                                              ": must be 0 with whole_tensors");
  }
  if (target.workers == 0) {
    throw Error(Status::invalid_argument, "workers = 0: must be at least 1");
  }
}

}  // namespace

Tiling make_tiling(const ConvProblem& problem, const TilingOptions& options, const Target& target) {
  validate(problem);
  check_options(options, target);
  Tiling tiling;
  tiling.problem = problem;
  tiling.algorithm = choose_algorithm(problem, options, target);
  tiling.filters = options.filters;
  if (is_winograd(tiling.algorithm)) {
    tiling.m = options.m != 0 ? options.m : choose_m(problem, options, target);
    tiling.points = options.points;
    count_tiles(tiling);
    tiling.arithmetic = choose_arithmetic(tiling, options, target);
    if (fusing_pays(tiling, options, target)) tiling.algorithm = Algorithm::fused_winograd;
    target.backend == Backend::cuda ? choose_winograd_for_cuda(tiling, options, target)
                                    : choose_winograd(tiling, options, target);
    if (tiling.algorithm == Algorithm::winograd) set_task_sizes(tiling, options);
    tiling.v_slots = options.v_slots;
    tiling.m_slots = options.m_slots;
  } else if (tiling.algorithm == Algorithm::direct) {
    target.backend == Backend::cuda ? choose_direct_for_cuda(tiling, target)
                                    : choose_direct(tiling, target);
    set_task_sizes(tiling, options);
  } else if (tiling.algorithm == Algorithm::implicit_gemm) {
    choose_implicit_gemm(tiling, options, target);
  } else {
    tiling.output_layout = options.output_layout;  // the rest of openCNN's blocking is fixed
  }
  if (options.arithmetic != Arithmetic::automatic && options.arithmetic != Arithmetic::fma) {
    if (!target.split_f16) {
      throw Error(Status::unsupported,
                  std::string("arithmetic ") + to_string(options.arithmetic) +
                      ": must be CUDA on tensor cores (compute capability 9.0; from 8.0 "
                      "with MEGACONV_CUDA_ISA=mma)");
    }
    tiling.arithmetic = options.arithmetic;
  }
  derive_counts(tiling);
  return tiling;
}

}  // namespace megaconv
