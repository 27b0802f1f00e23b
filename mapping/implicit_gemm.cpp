// SPDX-License-Identifier: Apache-2.0
// Tilings for implicit GEMM: stripes narrow enough for the input that a task keeps, groups that
// keep all multiprocessors busy to the end; and when it is faster than Winograd.
#include <algorithm>
#include <cmath>

#include "mapping/stripes.hpp"
#include "mapping/tiling.hpp"

namespace megaconv {
namespace {

// The kernels' tiles: filters, in lane blocks, and places. Narrow ones are for few filters, or
// where wide ones would be half empty at the end. H200, microseconds of a tile
// (docs/performance.md): for every 16 channels under nine taps, and for its start and its outputs.
struct Tile {
  std::uint32_t filter_blocks, places, step;  // the last one of a group may have fewer steps
  double chunk_us, rest_us;
};
constexpr std::uint32_t kNarrow = 64 / Tiling::kLaneBlock, kWide = 128 / Tiling::kLaneBlock;
constexpr Tile kNarrowSplit{kNarrow, 256, 64, 2.35, 3.8}, kWideSplit{kWide, 128, 64, 2.35, 2.0};
constexpr Tile kNarrowRounded{kNarrow, 256, 64, 1.0, 4.6};
constexpr Tile kWideRounded{kWide, 128, 64, 0.97, 2.8};
// One product needs fewer sums, which leaves room for more places. They share loaded filters.
constexpr Tile kLargeRounded{kWide, 256, 128, 1.72, 5.9};
constexpr double kTaskUs = 8;  // what every further wave of tasks costs besides their tiles
// Of a run: filters, the first tasks' start, the look at magnitudes.
constexpr double kLaunchUs = 7;
// Tiles of a group: more amortise a task's start, fewer even out between the multiprocessors.
constexpr std::uint64_t kMostTiles = 16;
// Operands in place: microseconds of 16 channels under nine taps, for as many places as a tile has
// at most, and at least, while filters come from the L2; of a tile's outputs; and as above.
constexpr double kChunkInPlaceUs = 1.33, kLeastChunkInPlaceUs = 0.45, kRestInPlaceUs = 0.8;
constexpr double kTaskInPlaceUs = 2.5, kLaunchInPlaceUs = 3;
constexpr std::uint64_t kMostTilesInPlace = 64;
// Below this, most of a step of 16 channels is zero.
constexpr std::int64_t kLeastChannels = 16;

// The widest stripes, all about as wide, that a filter does not reach too far in. Where rows of y
// are whole sectors of memory, those of stripes are, too.
std::uint32_t stripe_cols(const ConvProblem& problem) {
  constexpr std::uint64_t kSector = 32 / sizeof(float);
  const std::uint64_t q = u64(problem.q());
  if (operands_in_place(problem)) return u32(q);
  const auto fits = [&](std::uint64_t cols) {
    return make_stripes(problem, static_cast<std::int32_t>(cols)).reach <= kMostReach;
  };
  if (fits(q)) return u32(q);
  std::uint64_t cols = q;
  for (std::uint64_t stripes = 2; cols > 1 && !fits(cols); ++stripes) cols = ceil_div(q, stripes);
  if (q % kSector != 0 || cols < kSector) return u32(cols);
  const std::uint64_t wider = ceil_div(cols, kSector) * kSector;
  return u32(fits(wider) ? wider : wider - kSector);
}

// Of tasks of so many lane blocks of filters, in groups of so many places.
const Tile& tile_of(std::uint32_t filter_blocks, std::uint64_t places, Arithmetic arithmetic) {
  const bool split = arithmetic == Arithmetic::split_f16;
  if (filter_blocks <= kNarrow) return split ? kNarrowSplit : kNarrowRounded;
  if (split) return kWideSplit;
  return places > kWideRounded.places ? kLargeRounded : kWideRounded;
}

// Slabs of 16 channels under nine taps.
double num_chunks(const ConvProblem& problem) {
  const std::uint64_t blocks = ceil_div(u64(problem.c), std::uint64_t{Tiling::kLaneBlock});
  return static_cast<double>(blocks * u64(problem.r * problem.s)) / 9;
}

// Microseconds of a run of so many waves of tasks, of so many places each.
double in_place_us(const ConvProblem& problem, std::uint64_t places, double waves) {
  const double width = tile_places_in_place(static_cast<std::int64_t>(places));
  const double tiles = std::ceil(static_cast<double>(places) / width);
  const double chunk_us =
      std::max(kLeastChunkInPlaceUs, kChunkInPlaceUs * width / kMostPlacesInPlace);
  return kLaunchInPlaceUs + waves * tiles * (num_chunks(problem) * chunk_us + kRestInPlaceUs) +
         (waves - 1) * kTaskInPlaceUs;
}
double run_us(const ConvProblem& problem, std::uint32_t filter_blocks, std::uint64_t places,
              Arithmetic arithmetic, double waves) {
  if (operands_in_place(problem)) return in_place_us(problem, places, waves);
  const Tile& tile = tile_of(filter_blocks, places, arithmetic);
  const double tile_us = num_chunks(problem) * tile.chunk_us + tile.rest_us;
  // Narrow instructions read as many filters for fewer places.
  constexpr double kNarrowest = 0.44;
  const std::uint64_t step = tile.step, rest = ceil_div(places % tile.places, step) * step;
  const double share = static_cast<double>(rest) / tile.places;
  const double last = rest == 0 ? 0 : kNarrowest + (1 - kNarrowest) * share;
  const double tiles = static_cast<double>(places / tile.places) + last;
  return kLaunchUs + waves * tiles * tile_us + (waves - 1) * kTaskUs;
}

// How a problem is cut, and how long that takes.
struct Cut {
  std::uint32_t filter_blocks, cols, places_per_group;
  double us;
};
Cut best_cut(const ConvProblem& problem, const TilingOptions& options, Arithmetic arithmetic,
             const Target& target) {
  Tiling blocks;
  blocks.problem = problem;
  const std::uint32_t filter_blocks = blocks.filter_blocks();
  const std::uint32_t rest = filter_blocks % kWide;
  Cut cut{};
  const bool in_place = operands_in_place(problem);
  cut.filter_blocks = in_place || (rest != 0 && rest <= kNarrow) ? kNarrow : kWide;
  cut.filter_blocks = std::min(cut.filter_blocks, filter_blocks);
  if (options.filter_blocks_per_gemm_task != 0) {
    cut.filter_blocks = options.filter_blocks_per_gemm_task;
  }
  cut.cols = options.cols_per_group != 0 ? options.cols_per_group : stripe_cols(problem);

  const std::uint64_t places =
      u64(places_of_stripe(problem, make_stripes(problem, static_cast<std::int32_t>(cut.cols))));
  const std::uint64_t step = place_step(problem);
  const std::uint64_t steps = ceil_div(places, step);  // of a stripe
  const std::uint64_t most = in_place
                                 ? kMostTilesInPlace * kMostPlacesInPlace
                                 : kMostTiles * tile_of(cut.filter_blocks, 1, arithmetic).places;
  const std::uint64_t columns = ceil_div(u64(problem.q()), std::uint64_t{cut.cols}) *
                                ceil_div(filter_blocks, cut.filter_blocks);
  const std::uint64_t multiprocessors = std::max<std::uint64_t>(1, target.multiprocessors);
  for (std::uint64_t size = 1; size <= std::min(steps, most / step); ++size) {
    const std::uint64_t waves = ceil_div(columns * ceil_div(steps, size), multiprocessors);
    const double us =
        run_us(problem, cut.filter_blocks, size * step, arithmetic, static_cast<double>(waves));
    if (size == 1 || us < cut.us) {
      cut.us = us;
      cut.places_per_group = u32(size * step);
    }
  }
  if (options.places_per_group != 0) cut.places_per_group = options.places_per_group;
  return cut;
}

// Winograd F(4x4) on tensor cores in stages, H200: products at so many operations (each counted
// once, also where it is three), x, y, V and M once through memory, and the launches. Within 8 % of
// what was measured on the suite with split numbers, 9 to 12 % with one product, in the mean; 21
// and 28 % at worst (docs/performance.md).
struct WinogradTimes {
  double flops_per_us, bytes_per_us, launch_us;
};
constexpr WinogradTimes kSplitWinograd{190e6, 2.4e6, 18};
constexpr WinogradTimes kOneProductWinograd{500e6, 2.0e6, 14};

double winograd_us(const ConvProblem& problem, Arithmetic arithmetic) {
  const WinogradTimes& times =
      arithmetic == Arithmetic::split_f16 ? kSplitWinograd : kOneProductWinograd;
  constexpr double kPositions = 36, kGemmTiles = 128;
  const auto round_up = [](double value, double unit) {
    return static_cast<double>(static_cast<std::int64_t>((value + unit - 1) / unit)) * unit;
  };
  const double tiles =
      static_cast<double>(u64(problem.n) * ceil_div(u64(problem.p()), std::uint64_t{4}) *
                          ceil_div(u64(problem.q()), std::uint64_t{4}));
  const double c = static_cast<double>(problem.c), k = round_up(static_cast<double>(problem.k), 64);
  const double flops = 2 * round_up(tiles, kGemmTiles) * kPositions * c * k;
  const double transformed = kPositions * (tiles * c + c * k), products = kPositions * tiles * k;
  const double stored =
      static_cast<double>(problem.x_size()) + static_cast<double>(problem.y_size());
  const double bytes = static_cast<double>(number_bytes(arithmetic)) * transformed +
                       sizeof(float) * products +
                       static_cast<double>(size_of(problem.dtype)) * stored;
  return times.launch_us + flops / times.flops_per_us + bytes / times.bytes_per_us;
}

}  // namespace

Arithmetic implicit_gemm_arithmetic(const ConvProblem& problem, const TilingOptions& options) {
  if (options.arithmetic != Arithmetic::automatic) return options.arithmetic;
  if (problem.dtype == DataType::bf16) return Arithmetic::bf16;
  return permits_f16(problem.dtype, options.precision) ? Arithmetic::f16 : Arithmetic::split_f16;
}

bool implicit_gemm_pays(const ConvProblem& problem, const TilingOptions& options, bool winograd,
                        const Target& target) {
  if (problem.c < kLeastChannels || target.multiprocessors == 0) return false;
  if (!winograd) return true;
  const Arithmetic arithmetic = implicit_gemm_arithmetic(problem, options);
  const bool split = arithmetic == Arithmetic::split_f16;
  return best_cut(problem, {}, arithmetic, target).us <
         winograd_us(problem, split ? Arithmetic::split_f16 : Arithmetic::f16);
}

std::uint32_t place_step(const ConvProblem& problem) {
  return operands_in_place(problem) ? std::uint32_t{kPlaceStepInPlace} : kWideSplit.step;
}

std::uint32_t resident_workers(Algorithm algorithm, const Target& target) {
  return algorithm == Algorithm::implicit_gemm && target.multiprocessors != 0
             ? std::min(target.workers, target.multiprocessors)
             : target.workers;
}

ImplicitGemmTile implicit_gemm_tile(std::uint32_t filter_blocks, std::uint64_t places,
                                    Arithmetic arithmetic) {
  const Tile& tile = tile_of(filter_blocks, places, arithmetic);
  return {tile.filter_blocks * Tiling::kLaneBlock, tile.places};
}

double implicit_gemm_us(const Tiling& tiling, const Target& target) {
  // Where the last wave has few tasks, these disturb each other less.
  constexpr double kWhole = 0.9;
  const double waves = static_cast<double>(tiling.num_groups) * tiling.gemm_tasks /
                       std::max(1u, target.multiprocessors);
  return run_us(tiling.problem, tiling.filter_blocks_per_gemm_task, tiling.places_per_group,
                tiling.arithmetic, kWhole * std::ceil(waves) + (1 - kWhole) * waves);
}

void choose_implicit_gemm(Tiling& tiling, const TilingOptions& options, const Target& target) {
  tiling.arithmetic = implicit_gemm_arithmetic(tiling.problem, options);
  const Cut cut = best_cut(tiling.problem, options, tiling.arithmetic, target);
  tiling.filter_blocks_per_gemm_task = cut.filter_blocks;
  tiling.cols_per_group = cut.cols;
  tiling.places_per_group = cut.places_per_group;
  choose_filter_tasks_for_cuda(tiling, target.multiprocessors);
}

}  // namespace megaconv
