// SPDX-License-Identifier: Apache-2.0
// What is chosen of Winograd's algorithms: when they pay, tiles, and the sizes of tasks on a CPU.
//
// These are heuristics and may change freely; derive() of the algorithms checks what must hold.
#include <algorithm>

#include "tasks/even_shares.hpp"
#include "tasks/winograd/winograd.hpp"

namespace megaconv {
namespace {

// Past this many tiles a group gains nothing more from reading U once, and delays its outputs.
constexpr std::uint64_t kMostGroupTiles = 112;
// Share of a worker's cache that a group's V may fill; the rest is for U and M. Zen 4, 1 MiB,
// n4c64h56k64 in large pages: t = 28 1.58 ms, 42 1.49, 56 1.71, 98 1.81.
constexpr double kVShare = 0.4;
// What a fused task holds fills about this share of its worker's cache, in whole register tiles: at
// least two, which share out what is fetched of U, and at most four. Where U stays in the cache two
// are best. Sapphire Rapids, 2 MiB: n1c64h104k128 t = 28 1.46 ms, 43 1.60, 57 1.62; n1c256h56k256
// 14 3.47, 25 3.11, 49 3.06; n1c512h28k512 13 3.60, 25 3.00. Zen 4, n4c64h56k64: t = 14 1.32 ms, 28
// 1.31, 42 1.37; n1c32h208k64: 28 2.75, 56 2.82.
constexpr double kFusedShare = 0.75;
constexpr std::uint64_t kLeastFusedRows = 2, kMostFusedRows = 4;
// Fewer tiles multiply at less than the full rate, and so are fused only where U is so small. All
// workers read all of U, so where it comes from memory a fused task must have a full register tile.
// Zen 4, n1c512h13k1024: 3.3 ms fused, 2.9 in tasks of stages, which share U out.
constexpr std::uint64_t kLeastFusedTiles = 7;
constexpr double kFewTilesU = 2, kUncachedU = 16;
// From this many times the cache on, U is streamed: groups are then so large that one position of V
// fills kVShare, and a GEMM task takes few positions of all filters.
constexpr double kStreamedU = 4;
constexpr std::uint64_t kStreamedPositions = 2;
// Lane blocks of one task when there are tasks enough.
constexpr std::uint64_t kTransformBlocks = 4;
// Below these, transforms cost more than the multiplications they save.
constexpr std::int64_t kLeastWinogradChannels = 16;
// Winograd reads 4 times the filter bytes of direct convolution. Zen 4, 4 tiles, n1c512h7k512: 0.46
// ms against 1.0.
constexpr std::uint64_t kLeastWinogradTiles = 4;
// Halves of split numbers are rounded once more than floats. Beside few roundings of multiply-adds
// that shows: relative L2 of 16, 24 and 32 channels, emulated, against multiply-adds,
// F(2x2) 1.29e-7, 1.41e-7, 1.43e-7 against 1.27e-7, 1.48e-7, 1.62e-7,
// F(4x4) 4.3e-7, 4.4e-7, 4.4e-7 against 3.9e-7, 4.4e-7, 4.9e-7.
constexpr std::int64_t kLeastSplitChannels = 32;

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
  if (problem.stride_w == 2) return 2;
  if (takes_one_product(problem, options, target)) return 4;
  return takes_small_tiles(problem, options, target) ? 2 : cheapest_m(problem);
}

Arithmetic choose_arithmetic(const ConvProblem& problem, std::uint32_t m,
                             const TilingOptions& options, const Target& target) {
  if (options.arithmetic != Arithmetic::automatic) return options.arithmetic;
  // Tensors of 16 bits have no other arithmetic there.
  const bool must = target.split_f16 && problem.dtype != DataType::f32;
  const bool may = m == 4 && takes_one_product(problem, options, target);
  if (must || may) return Arithmetic::f16;
  const bool splits = target.split_f16 && m != 6 && !loses_accuracy(problem, options, target);
  return splits ? Arithmetic::split_f16 : Arithmetic::fma;
}

// Filter blocks whose M a fused task holds at most: enough to read V seldom, as few as leave the
// worker's cache to V.
constexpr std::uint32_t kFusedFilterBlocks = 8;

// Bytes of V, and of the M that a fused task holds, of one tile.
std::uint64_t tile_bytes(const Tiling& tiling) {
  return std::uint64_t{tiling.tiles()->num_positions()} * kBlockBytes *
         (tiling.channel_blocks() + fused_filter_blocks(tiling));
}

bool streams_u(const Tiling& tiling, const Target& target) {
  return tiling.u_bytes() >= cache_share(target, kStreamedU);
}

// V, or one position of it when U is streamed, fills kVShare of the worker's cache at most. There
// are groups enough for all workers, in whole register tiles; when U is streamed, as few as fit.
std::uint64_t shared_group_tiles(const Tiling& tiling, std::uint64_t wanted, const Target& target) {
  const WinogradTiles& cut = *tiling.tiles();
  const std::uint64_t tiles = cut.num_tiles;
  const std::uint64_t tile_bytes = tiling.channel_blocks() * kBlockBytes;
  const auto most = [&](std::uint64_t bytes) {
    return std::clamp(cache_share(target, kVShare) / bytes, kRegisterRows, kMostGroupTiles);
  };
  if (streams_u(tiling, target)) return ceil_div(tiles, ceil_div(tiles, most(tile_bytes)));
  const std::uint64_t shared = std::max(kRegisterRows, tiles / wanted);
  return even_share(tiles, std::min(most(tile_bytes * cut.num_positions()), shared));
}

// A GEMM task takes all filters, so that it reads V once, and as many positions as leave tasks
// enough for all workers; only where positions are too few for that are filters shared out too.
void choose_gemm_task(const Tiling& tiling, WinogradCut& cut, std::uint64_t groups,
                      std::uint64_t wanted, const Target& target) {
  const std::uint64_t positions = cut.num_positions();
  const std::uint64_t most = streams_u(tiling, target) ? kStreamedPositions : positions;
  cut.positions_per_gemm_task = even_blocks(positions, most, groups, wanted);
  const std::uint64_t chunks = ceil_div<std::uint64_t>(positions, cut.positions_per_gemm_task);
  cut.filter_blocks_per_gemm_task =
      even_blocks(tiling.filter_blocks(), tiling.filter_blocks(), groups * chunks, wanted);
}

}  // namespace

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

bool loses_accuracy(const ConvProblem& problem, const TilingOptions& options,
                    const Target& target) {
  return target.split_f16 && problem.dtype == DataType::f32 &&
         options.arithmetic == Arithmetic::automatic && problem.c < kLeastSplitChannels &&
         !takes_one_product(problem, options, target);
}

void choose_tiles(Tiling& tiling, WinogradTiles& tiles, const TilingOptions& options,
                  const Target& target) {
  tiles.m = options.m != 0 ? options.m : choose_m(tiling.problem, options, target);
  tiles.points = options.points;
  count_tiles(tiling.problem, tiles);
  tiling.arithmetic = choose_arithmetic(tiling.problem, tiles.m, options, target);
}

std::uint32_t fused_filter_blocks(const Tiling& tiling) {
  const std::uint32_t blocks = tiling.filter_blocks();
  const std::uint32_t share = ceil_div(blocks, ceil_div(blocks, kFusedFilterBlocks));
  return std::min(blocks, share + share % 2);  // of a kernel: two
}

// Tiles of a fused task. While a worker has few of them, all have equally many. Else an even number
// of register tiles, which is whole cache lines of y (28 tiles of 4 x 4 outputs: 7 lines). Zen 4,
// n4c32h208k64, y stored past the caches: t = 14 12.8 ms, 28 11.2, 42 12.0, 56 11.3.
std::uint64_t fused_group_tiles(const Tiling& tiling, const Target& target) {
  constexpr std::uint64_t kMany = 8;
  const std::uint64_t fitting =
      cache_share(target, kFusedShare) / (tile_bytes(tiling) * kRegisterRows);
  const bool beside_u = tiling.u_bytes() <= target.cache_bytes_per_worker;
  const std::uint64_t register_tiles =
      beside_u ? kLeastFusedRows : std::clamp(fitting, kLeastFusedRows, kMostFusedRows);
  const std::uint64_t tiles = tiling.tiles()->num_tiles, workers = target.workers;
  const std::uint64_t most = kRegisterRows * register_tiles;
  const std::uint64_t tasks =  // of a worker
      std::max<std::uint64_t>(1, (tiles + workers * most / 2) / (workers * most));
  if (tasks <= kMany) return ceil_div(tiles, workers * tasks);
  return kRegisterRows * (register_tiles / 2 * 2);
}

// A fused task's V and M never leave its worker's cache. Where the workers' cores are far apart
// that counts most: a line that the other core has read takes 30 ns to write. Zen 4, n4c256h56k256
// on two core complexes: 18.2 ms, in tasks of stages 22.1.
bool fusing_pays(const ConvProblem& problem, const TilingOptions& options, const Target& target) {
  // Options about groups or the window ask for tasks of stages.
  const bool staged = options.group_tiles != 0 || options.v_slots != 0 || options.m_slots != 0 ||
                      options.whole_tensors;
  if (staged || options.algorithm != Algorithm::automatic || target.backend != Backend::cpu) {
    return false;
  }
  Tiling tiling{.problem = problem};
  choose_tiles(tiling, tiling.cut.emplace<FusedWinogradCut>(), options, target);
  const std::uint64_t tiles = fused_group_tiles(tiling, target);
  const bool most_u = tiling.u_bytes() > cache_share(target, kUncachedU);
  return tiles >= (most_u ? kRegisterRows : kLeastFusedTiles) ||
         tiling.u_bytes() <= cache_share(target, kFewTilesU);
}

void choose_filter_tasks_for_cpu(Tiling& tiling, const Target& target) {
  const std::uint64_t wanted = target.workers == 1 ? 1 : kTasksPerWorker * target.workers;
  const std::uint64_t filter_blocks = tiling.filter_blocks();
  tiling.filter_blocks_per_filter_task = even_blocks(filter_blocks, filter_blocks, 1, wanted);
  tiling.channel_blocks_per_filter_task = tiling.channel_blocks();
}

void choose_winograd_for_cpu(Tiling& tiling, const TilingOptions& options, const Target& target) {
  const std::uint64_t wanted = target.workers == 1 ? 1 : kTasksPerWorker * target.workers;
  auto& cut = std::get<WinogradCut>(tiling.cut);
  const std::uint64_t tiles = cut.num_tiles, filter_blocks = tiling.filter_blocks();
  choose_filter_tasks_for_cpu(tiling, target);
  const std::uint64_t group_tiles = options.group_tiles != 0
                                        ? std::min<std::uint64_t>(options.group_tiles, tiles)
                                        : shared_group_tiles(tiling, wanted, target);
  const std::uint64_t groups = ceil_div(tiles, group_tiles);
  cut.group_tiles = cut.tiles_per_transform_task = u32(group_tiles);
  choose_gemm_task(tiling, cut, groups, wanted, target);
  cut.channel_blocks_per_input_task =
      even_blocks(tiling.channel_blocks(), kTransformBlocks, groups, wanted);
  cut.filter_blocks_per_output_task = even_blocks(filter_blocks, kTransformBlocks, groups, wanted);
}

}  // namespace megaconv
