// SPDX-License-Identifier: Apache-2.0
// Tilings for implicit GEMM: stripes narrow enough for the input that a task keeps, groups that
// keep all multiprocessors busy to the end; and when it is faster than Winograd.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tasks/conv_algorithm.hpp"
#include "tasks/gpu_memory.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"
#include "tasks/winograd/winograd.hpp"

namespace megaconv {
namespace {

// The kernels' tiles: filters, in lane blocks, and padded pixels at most; half as many at least, in
// steps. Those of 64 filters are for few, or where others would be half empty at the end. H200,
// microseconds of a tile of most padded pixels (docs/performance.md): for every 16 channels under
// nine taps, and for its start and its outputs.
struct Tile {
  std::uint32_t filter_blocks, places;
  double chunk_us, rest_us;
};
constexpr std::uint32_t kNarrow = 64 / Tiling::kLaneBlock, kWide = 128 / Tiling::kLaneBlock;
constexpr Tile kNarrowSplit{kNarrow, 256, 2.35, 3.8}, kWideSplit{kWide, 128, 2.35, 2.0};
constexpr Tile kNarrowRounded{kNarrow, 256, 1.0, 4.6};
constexpr Tile kWideRounded{kWide, 128, 0.97, 2.8};
// One product needs fewer sums, which leaves room for more padded pixels. They share loaded
// filters.
constexpr Tile kLargeRounded{kWide, 256, 1.72, 5.9};
// Where every tap's input is loaded by itself: microseconds of 16 channels of a padded pixel under
// one tap, whatever the products (H100: of floats 4.8e-3 to 5.9e-3 where sums are long, of 16 bits
// 3.5e-3).
constexpr double kLoadedFloatPlaceUs = 5.5e-3, kLoadedPlaceUs = 3.5e-3;
// The same of 1x1 filters on floats: of a pipeline stage of some K blocks, which loading threads
// take one turn for, or two; and of a further wave of tasks (H100, nine layers, tiles of 64 to 128
// padded pixels: docs/results/f32_tile_widths_h100.csv).
constexpr double kOneTurnUs = 1.0, kTwoTurnsUs = 1.45, kTaskOfPixelsUs = 1;
// Tiles of 64 have one stage under way instead of two.
constexpr std::uint32_t kOneStageWidth = 64;
constexpr double kOneStageMore = 1.2;
constexpr double kTaskUs = 8;  // what every further wave of tasks costs besides their tiles
// Of a run: filters, the first tasks' start, the scale check.
constexpr double kLaunchUs = 7;
// Tiles of a group: more amortise a task's start, fewer even out between the multiprocessors.
constexpr std::uint64_t kMostTiles = 16, kMostTilesInPlace = 64;
// Operands in place: microseconds of the products of 16 channels under nine taps, for so many
// padded pixels; of a row of operands, a padded pixel or a filter in a K block, which TMA loads,
// and of each of its bytes; of a tile's start and outputs, of 16 bits and of floats; and as above.
constexpr double kChunkInPlaceUs = 1.36, kPlacesOfChunkInPlace = 512;
constexpr double kCopiedRowUs = 0.9e-3, kCopiedByteUs = 8e-6;
// So much longer take rows that begin amid a sector of 32 bytes, and come in pieces; and those that
// are of two lines of 128 bytes (H100: 4.1 and 1.3 ns a row; of whole lines 0.9).
constexpr double kInPiecesMore = 1.3, kWideInPiecesMore = 2, kOfTwoLinesMore = 1.3;
constexpr double kRestInPlaceUs = 0.6, kFloatRestInPlaceUs = 2.5;
constexpr double kTaskInPlaceUs = 0.5, kLaunchInPlaceUs = 4;
// The same of floats that are multiplied as TF32, half as many at a time; where rows of a filter
// are taken one by one, so that x is loaded for each; so much more in wide tiles.
constexpr double kFloatChunkUs = 2.6, kFloatChunkOfRowsUs = 2.9, kWideFloatMore = 1.07;
constexpr std::int32_t kWideFloatTile = 352;
// Sums of blocks that share the channels of a task.
constexpr double kPartialSumsUs = 1;
// Tiles of tensors whose taps have inputs of their own (H100, 41 layers of 32 images, FP16 and
// TF32, up to 24 sizes of tiles each: the chosen ones take 1 % more in FP16 than the best, in TF32
// 4 %). Microseconds of a tap of a K block, at least; by rows of operands that come from the L2, of
// which those of filters come to many blocks at a time; and by products. Of a tile, and of every
// byte of its outputs. Of further waves of tasks. Of a run.
constexpr double kTapUs = 0.256, kTapRowUs = 1.62e-3, kTapFilterRow = 0.735;
constexpr double kTapProductsPerUs = 3.15e6, kTapMultiprocessors = 132;
constexpr double kTapTileUs = 1.05, kTapOutputUs = 3.3e-5;
constexpr double kTapTaskUs = 0.45, kTapLaunchUs = 2.6;
// Of a run whose blocks load x for each other. Rows that come in pieces are then no longer than
// others.
constexpr double kTogetherUs = 1;
// So often what a tile has less of, products or outputs, is beside nothing.
constexpr double kTapAlone = 1.4;
// Until a stage of x is there: by itself, and for every row of operands that all multiprocessors
// load for one; for every row of a stage for several taps. With few stages products wait for it.
// (H100: tiles of 3 to 6 stages of one tap, and of 2 of a stem.)
constexpr double kInputUs = 0.3, kInputRowUs = 5e-3, kHaloRowUs = 3.5e-3;
// The same where memory takes at least this share of what all products would; and of a row,
// however many stages there are.
constexpr double kStreamed = 0.6, kStreamedInputRowUs = 7e-3, kStreamedRowUs = 2.1e-3;
// Tall tiles (H100, 63 layers in FP16 and TF32, up to 40 sizes of tiles each: the chosen ones take
// 2 % more than the best). The same, of bytes of a padded pixel's outputs; of rows that come in
// pieces, where blocks load x for each other, and start later for it.
constexpr double kTallTapUs = 0.247, kTallRowUs = 1.15e-3, kTallFilterRow = 1.23;
constexpr double kTallProductsPerUs = 3.14e6, kTallInputUs = 0.288, kTallInputRowUs = 4.4e-3;
constexpr double kTallInPiecesMore = 2.06, kTallOfTwoLinesMore = 1.6, kTallTogetherMore = 1.6;
constexpr double kTallTileUs = 0.82, kTallTileByteUs = 1.7e-3, kTallOutputUs = 2.2e-5;
constexpr double kTallAlone = 1.35, kTallTaskUs = 0.28, kTallLaunchUs = 2.9;
constexpr double kTallMemoryBytesPerUs = 2.76e6;
// Of up to 48 filters (H200, 53 layers, 5 sizes each, FP16 and TF32: 8 % off, root mean square; the
// chosen ones, narrow or tall, take 2 % more than the best). Of a run; of a tile, and of every byte
// of a padded pixel's outputs; of a tap of a K block, and of each filter in it; of further waves.
constexpr std::int32_t kMostOfFew = 48;
constexpr double kFewLaunchUs = 2.4, kFewTileUs = 0.58, kFewTileByteUs = 1.66e-3;
constexpr double kFewTapUs = 0.15, kFewTapFilterUs = 8.6e-4, kFewTaskUs = 0.25;
constexpr double kFewMemoryBytesPerUs = 3.0e6;
// Tensors that pass through memory: so many bytes a microsecond, where blocks that run at a time
// read and write what lies side by side. A task of two tiles, or more, has pixels far from those of
// others; that counts where memory takes so much longer than products. (H100, 20 layers of 1x1
// filters.)
constexpr double kTapMemoryBytesPerUs = 2.85e6;
constexpr double kTwoTilesMore = 1.05, kTilesMore = 1.1, kWaitsForMemory = 1.5;
// So much of the shorter one of tiles and memory is beside nothing.
constexpr double kMemoryAlone = 0.1;
// Copies of operands: their stage's start, and what it reads and writes in a microsecond.
constexpr double kCopyUs = 1.5, kCopyBytesPerUs = 3.5e6;
// The same from space to depth, number by number (H100, a stem: FP16 17 us, floats 24).
constexpr double kDepthBytesPerUs = 1.7e6;
// Operands converted in shared memory: microseconds of 16 channels of a padded pixel under nine
// taps, of 16 channels of a padded pixel of x that is loaded for it, or of all padded pixels where
// two blocks of a cluster share that out, and of a tile at least; of a tile's start and outputs,
// with all columns or in stripes that end amid rows; and of a run.
constexpr double kConvertedPlaceUs = 1.7e-3, kConversionUs = 2.0e-3, kSharedConversionUs = 0.53;
constexpr double kLeastConvertedUs = 0.4;
constexpr double kConvertedRestUs = 1.7, kStripeRestUs = 2, kLaunchConvertedUs = 11;
// What loading operands takes beside what is estimated, where they could be converted.
constexpr double kLoadedBeside = 1.15;
// Below this, some of a step of 16 channels is zero.
constexpr std::int64_t kLeastChannels = 16;

// The widest stripes, all about as wide, that a filter does not reach too far in. Where rows of y
// are whole sectors of memory, those of stripes are, too.
std::uint32_t stripe_cols(const ConvProblem& problem) {
  constexpr std::uint64_t kSector = 32 / sizeof(float);
  const std::uint64_t q = u64(problem.q());
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

// Of tasks of so many lane blocks of filters, in groups of so many padded pixels.
const Tile& tile_of(std::uint32_t filter_blocks, std::uint64_t places, Arithmetic arithmetic) {
  const bool split = arithmetic == Arithmetic::split_f16;
  if (filter_blocks <= kNarrow) return split ? kNarrowSplit : kNarrowRounded;
  if (split) return kWideSplit;
  return places > kWideRounded.places ? kLargeRounded : kWideRounded;
}

// Places of a task's tiles, which are equally wide.
std::uint32_t width_of(const Tile& tile, std::uint64_t places, Arithmetic arithmetic) {
  const std::uint64_t step =
      u64(tile_step(static_cast<std::int32_t>(tile.places), arithmetic == Arithmetic::split_f16));
  const std::uint64_t tiles = ceil_div(places, std::uint64_t{tile.places});
  return std::max(tile.places / 2, u32(ceil_div(ceil_div(places, tiles), step) * step));
}

// K blocks of 16 channels under nine taps.
double num_chunks(const ConvProblem& problem) {
  const std::uint64_t blocks =
      ceil_div(u64(channels_at_once(problem)), std::uint64_t{Tiling::kLaneBlock});
  return static_cast<double>(blocks * u64(problem.r * problem.s)) / 9;
}

// How often a tile's input of a K block is loaded, each time for some of the taps.
double num_inputs(const ConvProblem& problem, const InputOfTile& input) {
  return static_cast<double>(problem.r / input.filter_rows * (problem.s / input.filter_cols));
}

// Taps of all K blocks of a tile.
double num_taps(const ConvProblem& problem, std::int32_t tile_places, Operands operands,
                std::uint32_t shares = 1) {
  const double k_block = k_block_channels_in_place(tile_places, operands);
  return std::ceil(static_cast<double>(problem.c) / k_block / shares) *
         static_cast<double>(problem.r * problem.s);
}

// How much longer TMA takes in the mean for rows of a K block than for those of whole lines.
double row_more(const ConvProblem& problem, std::int32_t tile_places, Operands operands,
                double in_pieces_more = kInPiecesMore, double of_two_lines_more = kOfTwoLinesMore) {
  constexpr std::uint64_t kLine = 128;
  if (!are_tensors(operands)) return 1;
  if (rows_come_in_pieces(problem)) return in_pieces_more;
  const std::uint64_t pixel_bytes = u64(problem.c) * size_of(problem.dtype);
  const std::uint64_t row_bytes =
      std::min(pixel_bytes, u64(k_block_bytes_in_place(tile_places, operands)));
  // Rows begin at multiples of this; so many places of a line leave no room for them.
  const std::uint64_t step = std::gcd(pixel_bytes, kLine);
  const double of_two_lines = static_cast<double>(row_bytes - std::min(row_bytes, step)) / kLine;
  return 1 + of_two_lines * (of_two_lines_more - 1);
}

// Microseconds in which TMA loads operands of 16 channels under nine taps, of each of so many tiles
// of a block.
double chunk_copied_us(const ConvProblem& problem, std::int32_t tile_places, double tiles,
                       const InputOfTile& input, Operands operands) {
  const double taps = static_cast<double>(problem.r * problem.s);
  const double k_block_channels = k_block_channels_in_place(tile_places, operands);
  const bool keeps_filters = num_taps(problem, tile_places, operands) <=
                             filter_stages_in_place(tile_places, input.places, operands);
  const double inputs = input.places * num_inputs(problem, input);
  const double filters = most_filters_in_place(operands) * taps / (keeps_filters ? tiles : 1);
  const double row_us =
      row_more(problem, tile_places, operands) *
      (kCopiedRowUs + kCopiedByteUs * k_block_bytes_in_place(tile_places, operands));
  const double us = row_us * (inputs + filters);
  return us * 16 / k_block_channels * 9 / taps;
}

// Microseconds of the stage that copies x.
double copy_us(const Tiling& tiling) {
  const double bytes = static_cast<double>(
      u64(tiling.problem.x_size()) * size_of(tiling.problem.dtype) + input_copy_bytes(tiling));
  return kCopyUs +
         bytes / (has_space_to_depth(tiling.problem) ? kDepthBytesPerUs : kCopyBytesPerUs);
}

// Pipeline stages of x.
std::int32_t input_stages(const ConvProblem& problem, std::int32_t tile_places,
                          const InputOfTile& input, Operands operands, std::uint32_t shares) {
  const double taps = num_taps(problem, tile_places, operands, shares);
  return memory_in_place(tile_places, most_filters_in_place(operands), input, operands,
                         static_cast<std::int32_t>(taps), 1, 1)
      .input_stages;
}

// Bytes of tensors that pass through memory; 0 if the L2 has room for them.
double memory_bytes(const Tiling& tiling) {
  const ConvProblem& a = tiling.problem;
  const auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
  const bool strided = a.r * a.s == 1 && has_strides(a);  // rows and columns between are not read
  const double x = static_cast<double>(strided ? a.n * a.c * a.p() * a.q() : a.x_size());
  const double y = static_cast<double>(a.y_size()) * (a.epilogue.residual ? 2 : 1);
  const double element = static_cast<double>(size_of(a.dtype));
  const double x_element = cut.operands == Operands::in_copy ? sizeof(std::uint16_t) : element;
  const double w_element = are_tensors(cut.operands) ? element : sizeof(std::uint16_t);
  const double bytes = x_element * x + w_element * static_cast<double>(a.w_size()) + element * y;
  return bytes < kBytesInL2 ? 0 : bytes;
}
// Microseconds in which they do.
double memory_us(const Tiling& tiling) { return memory_bytes(tiling) / kTapMemoryBytesPerUs; }
double with_memory_us(double tiles_us, double memory_us) {
  return std::max(tiles_us, memory_us) + kMemoryAlone * std::min(tiles_us, memory_us);
}

// Microseconds of all products of an H100, if nothing else took time.
double least_products_us(const Tiling& tiling) {
  const ConvProblem& a = tiling.problem;
  const double products = static_cast<double>(a.y_size()) * static_cast<double>(a.c * a.r * a.s);
  const double as_floats = a.dtype == DataType::f32 ? 2 : 1;
  return as_floats * products / (kTapMultiprocessors * kTapProductsPerUs);
}

// Microseconds of a run of tiles whose taps have inputs of their own. A tile's outputs are written
// while the next one is multiplied.
double by_taps_us(const Tiling& tiling, std::int32_t tile_places, double waves,
                  std::uint32_t shares, bool together) {
  const ConvProblem& problem = tiling.problem;
  const auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
  const double width = tile_places, filters = most_filters_in_place(cut.operands);
  const double tiles = std::ceil(cut.places_per_group / width);
  const double k_block = k_block_channels_in_place(tile_places, cut.operands);
  const double taps = num_taps(problem, tile_places, cut.operands, shares);
  const bool keeps_filters = !are_wide(cut.operands) &&
                             taps <= filter_stages_in_place(tile_places, tile_places, cut.operands);
  const double rows = width + kTapFilterRow * filters / (keeps_filters ? tiles : 1);
  const double products = width * filters * k_block * (have_floats(cut.operands) ? 2 : 1);
  const double outputs_us = kTapOutputUs * width * static_cast<double>(size_of(problem.dtype)) *
                            std::min(filters, static_cast<double>(problem.k));
  const double stages =
      input_stages(problem, tile_places, {1, 1, tile_places}, cut.operands, shares);
  const double in_pieces_more = together                 ? 1
                                : are_wide(cut.operands) ? kWideInPiecesMore
                                                         : kInPiecesMore;
  const double all_rows = width + filters,
               more = row_more(problem, tile_places, cut.operands, in_pieces_more);
  const auto tiles_us = [&](double input_us) {
    const double tap_us =
        std::max({kTapUs, kTapRowUs * more * rows, products / kTapProductsPerUs, input_us});
    return waves * tiles * (kTapTileUs + std::max(taps * tap_us, outputs_us)) +
           kTapAlone * std::min(taps * tap_us, outputs_us) + (waves - 1) * kTapTaskUs;
  };
  const double start_us =
      kTapLaunchUs + (shares > 1 ? kPartialSumsUs : 0) + (together ? kTogetherUs : 0);
  const double memory = memory_us(tiling), least_us = least_products_us(tiling);
  if (memory < kStreamed * least_us) {
    return start_us + tiles_us((kInputUs + kInputRowUs * all_rows) / stages);
  }
  const double streamed_us =
      tiles_us(all_rows * std::max(kStreamedRowUs * more, kStreamedInputRowUs / stages));
  const bool is_apart = tiles > 1 && memory > kWaitsForMemory * least_us;
  const double apart = !is_apart ? 1 : tiles == 2 ? kTwoTilesMore : kTilesMore;
  // The last tile's outputs are beside nothing.
  return start_us + apart * with_memory_us(streamed_us, memory + outputs_us);
}

// Microseconds of a run of tall tiles of few filters.
double few_filters_us(const Tiling& tiling, double waves, double filters) {
  const auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
  const double tiles = std::ceil(cut.places_per_group / double{kTallPlaces});
  const ConvProblem& problem = tiling.problem;
  const double taps = num_taps(problem, kTallPlaces, cut.operands);
  double tap_us = kFewTapUs + kFewTapFilterUs * filters;
  if (has_strides(problem)) {  // rows of x do not follow each other
    tap_us = std::max(tap_us, kTallRowUs * kTallPlaces *
                                  row_more(problem, kTallPlaces, cut.operands, kTallInPiecesMore,
                                           kTallOfTwoLinesMore));
  }
  const double tile_us = kFewTileUs + taps * tap_us +
                         kFewTileByteUs * filters * static_cast<double>(size_of(problem.dtype));
  return kFewLaunchUs + with_memory_us(waves * tiles * tile_us + (waves - 1) * kFewTaskUs,
                                       memory_bytes(tiling) / kFewMemoryBytesPerUs);
}

// Microseconds of a run of tall tiles.
double tall_us(const Tiling& tiling, double waves, bool staged) {
  const ConvProblem& problem = tiling.problem;
  const auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
  const std::int32_t tile_filters = filters_in_place(cut.operands, cut.filter_blocks_per_gemm_task);
  if (tile_filters <= kMostOfFew) return few_filters_us(tiling, waves, tile_filters);
  const double width = kTallPlaces, filters = tile_filters;
  const double tiles = std::ceil(cut.places_per_group / width);
  const double taps = num_taps(problem, kTallPlaces, cut.operands);
  const MemoryInPlace memory = memory_in_place(kTallPlaces, tile_filters, {1, 1, kTallPlaces},
                                               cut.operands, static_cast<std::int32_t>(taps), 1, 1);
  const bool keeps_filters = taps <= memory.filter_stages;
  const bool together = staged && cluster_blocks(tiling) > 1;
  const double more =
      row_more(problem, kTallPlaces, cut.operands, together ? kTallTogetherMore : kTallInPiecesMore,
               kTallOfTwoLinesMore);
  const double rows = width + kTallFilterRow * filters / (keeps_filters ? tiles : 1);
  const double products = width * filters * k_block_channels_in_place(kTallPlaces, cut.operands) *
                          (have_floats(cut.operands) ? 2 : 1);
  const double input_us =
      (kTallInputUs + kTallInputRowUs * (width + filters)) / memory.input_stages;
  const double tap_us =
      std::max({kTallTapUs, kTallRowUs * more * rows, products / kTallProductsPerUs, input_us});
  const double number_bytes = static_cast<double>(size_of(problem.dtype));
  const double outputs_us =
      kTallOutputUs * width * number_bytes * std::min(filters, static_cast<double>(problem.k));
  const double tile_us = kTallTileUs + kTallTileByteUs * filters * number_bytes;
  const double tiles_us = waves * tiles * (tile_us + std::max(taps * tap_us, outputs_us)) +
                          kTallAlone * std::min(taps * tap_us, outputs_us) +
                          (waves - 1) * kTallTaskUs;
  return kTallLaunchUs + (together ? kTogetherUs : 0) +
         with_memory_us(tiles_us, memory_bytes(tiling) / kTallMemoryBytesPerUs);
}

// Microseconds of a run of so many waves of tasks, in stages or not. Of the tiling's counts only
// what a task is made of need be there.
double in_place_us(const Tiling& tiling, double waves, bool staged) {
  const ConvProblem& problem = tiling.problem;
  const auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
  const Stripes stripes = make_stripes(problem, static_cast<std::int32_t>(cut.cols_per_group));
  const Operands operands = cut.operands;
  const std::int32_t tile_places =
      tile_places_in_place(cut.places_per_group, stripes, operands, problem.c);
  if (tile_places == 0) return std::numeric_limits<double>::infinity();
  if (are_tall(operands)) return tall_us(tiling, waves, staged);
  const InputOfTile input = input_of_tile(problem, stripes, tile_places, operands);
  const std::uint32_t shares = staged ? channel_shares(tiling) : 1;
  if (are_tensors(operands) && input.filter_rows * input.filter_cols == 1 && stripes.images == 1) {
    return by_taps_us(tiling, tile_places, waves, shares, staged && cluster_blocks(tiling) > 1);
  }
  const bool all_rows = input.filter_rows == problem.r;
  const double width = tile_places;
  const double tiles = std::ceil(cut.places_per_group / width);
  // Whole K blocks are multiplied.
  double chunks = num_taps(problem, tile_places, operands) *
                  k_block_channels_in_place(tile_places, operands) / (16.0 * 9);
  double before_us = kLaunchInPlaceUs, rest_us = kRestInPlaceUs;
  // A block keeps the filters of a task, or of all tasks if these have the same.
  const double with_filters =
      problem.k <= most_filters_in_place(operands) ? std::ceil(waves) * tiles : tiles;
  const double copied_us = chunk_copied_us(problem, tile_places, with_filters, input, operands);
  double chunk_us = std::max(copied_us, kChunkInPlaceUs * width / kPlacesOfChunkInPlace);
  if (have_floats(operands)) {
    const double more = tile_places > kWideFloatTile ? kWideFloatMore : 1;
    const double each_us = more * (all_rows ? kFloatChunkUs : kFloatChunkOfRowsUs);
    chunk_us = std::max(copied_us, each_us * width / kPlacesOfChunkInPlace);
    rest_us = kFloatRestInPlaceUs * width / most_places_in_place(operands);
  } else if (operands == Operands::in_copy) {
    before_us += copy_us(tiling);
    rest_us = kFloatRestInPlaceUs;
  } else if (operands == Operands::converted) {
    const double inputs = all_rows ? width + stripes.reach : num_inputs(problem, input) * width;
    const double taps = static_cast<double>(problem.r * problem.s) / 9;
    before_us = kLaunchConvertedUs;
    const double conversion_us =
        (staged && cluster_blocks(tiling) > 1
             ? kSharedConversionUs * (stripes.by_taps ? num_inputs(problem, input) : 1)
             : kConversionUs * inputs) /
        taps;
    chunk_us = std::max(kLeastConvertedUs, kConvertedPlaceUs * width + conversion_us);
    rest_us = stripes.cols < problem.q() ? kStripeRestUs : kConvertedRestUs;
  }
  if (shares > 1) chunks /= shares, before_us += kPartialSumsUs;
  const auto tiles_us = [&](double products_us) {
    return waves * tiles * (products_us + rest_us) + (waves - 1) * kTaskInPlaceUs;
  };
  const double memory = memory_us(tiling);
  if (operands == Operands::converted) {  // what was fitted to large tensors, too
    const double us = tiles_us(chunks * chunk_us);
    return before_us + std::max(us + kMemoryAlone * std::min(us, memory), memory);
  }
  const double stages = input_stages(problem, tile_places, input, operands, shares);
  const double inputs =
      num_taps(problem, tile_places, operands, shares) / (input.filter_rows * input.filter_cols);
  const double inputs_us = inputs * (kInputUs + kHaloRowUs * input.places) / stages;
  return before_us + with_memory_us(tiles_us(std::max(chunks * chunk_us, inputs_us)), memory);
}

// Whether threads load pixels of floats whole, for wide tiles; narrow ones take two turns anyway.
bool loads_pixels(const ConvProblem& problem, const Tile& tile) {
  return &tile == &kWideSplit && problem.layout == Layout::nhwc && problem.r * problem.s == 1 &&
         problem.c % std::int64_t{Tiling::kLaneBlock} == 0;
}

// Where they load the input of each tap by itself: 16 channels under nine taps of a tile.
double loaded_chunk_us(const ConvProblem& problem, const Tile& tile, std::uint32_t width) {
  if (loads_pixels(problem, tile)) {
    const std::uint32_t room = width + u32(kMostReach), k_blocks = room / width;
    const double turn_us = width <= kOneStageWidth ? kOneStageMore * kOneTurnUs : kOneTurnUs;
    return 9 * (room <= u32(kLoadingThreads) ? turn_us : kTwoTurnsUs) / k_blocks;
  }
  const double place_us = problem.dtype == DataType::f32 ? kLoadedFloatPlaceUs : kLoadedPlaceUs;
  return 9 * place_us * width;
}

double run_us(const Tiling& tiling, double waves, bool staged) {
  const auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
  if (cut.operands != Operands::loaded) return in_place_us(tiling, waves, staged);
  const std::uint32_t places = cut.places_per_group;
  const Tile& tile = tile_of(cut.filter_blocks_per_gemm_task, places, tiling.arithmetic);
  const std::uint32_t width = width_of(tile, places, tiling.arithmetic);
  const double tiles = ceil_div(places, width);
  // Narrow instructions read as many filters for fewer padded pixels.
  constexpr double kFilterShare = 0.44;
  const double share = kFilterShare + (1 - kFilterShare) * width / tile.places;
  const ConvProblem& problem = tiling.problem;
  const bool each_tap =
      make_stripes(problem, static_cast<std::int32_t>(cut.cols_per_group)).taps_have_own_inputs();
  const double chunk_us =
      std::max(share * tile.chunk_us, each_tap ? loaded_chunk_us(problem, tile, width) : 0);
  const double tile_us = num_chunks(problem) * chunk_us + share * tile.rest_us;
  const double task_us = loads_pixels(problem, tile) ? kTaskOfPixelsUs : kTaskUs;
  return kLaunchUs + waves * tiles * tile_us + (waves - 1) * task_us;
}

// Cuts a problem for tasks with this load path; returns how long they take.
double choose_sizes(Tiling& tiling, Operands operands, const TilingOptions& options,
                    const Target& target) {
  const ConvProblem& problem = tiling.problem;
  const bool in_place = operands != Operands::loaded;
  auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
  cut.operands = operands;
  cut.channel_blocks_per_input_task = operands == Operands::in_copy ? kMostBlocksOfInputTask : 0;
  const std::uint32_t filter_blocks = tiling.filter_blocks();
  const std::uint32_t rest = filter_blocks % kWide;
  const bool few_at_once = groups_at_once(problem) != problem.groups &&
                           filters_at_once(problem) % (kWide * Tiling::kLaneBlock) != 0;
  const bool narrow = few_at_once || (rest != 0 && rest <= kNarrow);
  cut.filter_blocks_per_gemm_task =
      std::min(!in_place && narrow ? kNarrow : filter_blocks_of_tile(operands), filter_blocks);
  if (are_tensors(operands) && operands_in_wide_tiles(problem)) {  // fewer are tall tiles
    cut.filter_blocks_per_gemm_task = filter_blocks_of_tile(operands);
  }
  if (options.filter_blocks_per_gemm_task != 0) {
    cut.filter_blocks_per_gemm_task = options.filter_blocks_per_gemm_task;
  }
  cut.cols_per_group = options.cols_per_group != 0 ? options.cols_per_group
                       : in_place                  ? u32(u64(problem.q()))
                                                   : stripe_cols(problem);
  check_field("cols_per_group", cut.cols_per_group, u64(problem.n * problem.q()));

  const auto cols = static_cast<std::int32_t>(cut.cols_per_group);
  const Stripes stripes = make_stripes(problem, cols);
  const std::uint64_t places = u64(places_of_stripe(problem, stripes));
  const std::uint64_t step = stripes.images > 1   ? u64(stripes.row())
                             : are_tall(operands) ? u64(kTallPlaces)
                                                  : place_step(in_place);
  const std::uint64_t steps = ceil_div(places, step);  // of a stripe
  std::uint64_t most =
      kMostTiles * tile_of(cut.filter_blocks_per_gemm_task, 1, tiling.arithmetic).places;
  if (in_place) {
    // Rows that are taken one by one are loaded for every row of the filters: from the L2, if
    // neighbouring tiles run at the same time.
    most = kMostTilesInPlace * u64(most_places_in_place(operands));
    if (stripes.images == 1 && stripes.reach > kMostReachInPlace) {
      most =
          u64(tile_places_in_place(static_cast<std::int64_t>(most), stripes, operands, problem.c));
    }
  }
  const std::uint64_t columns =
      u64(num_stripes(problem, stripes)) * ceil_div(filter_blocks, cut.filter_blocks_per_gemm_task);
  const std::uint64_t multiprocessors = std::max<std::uint64_t>(1, target.multiprocessors);
  double least_us = 0;
  std::uint32_t best = 0;
  for (std::uint64_t size = 1; size <= std::min(steps, most / step); ++size) {
    const std::uint64_t waves = ceil_div(columns * ceil_div(steps, size), multiprocessors);
    cut.places_per_group = u32(size * step);
    const double us = run_us(tiling, static_cast<double>(waves), options.whole_tensors);
    // Tiles in place are often as wide for several sizes: the largest one has fewer tasks.
    if (size == 1 || us < least_us || (in_place && us == least_us)) {
      least_us = us;
      best = cut.places_per_group;
    }
  }
  cut.places_per_group = options.places_per_group != 0 ? options.places_per_group : best;
  return least_us;
}

// Cuts a problem for tasks that read x in place, with as many images abreast as is fastest.
double choose_abreast(Tiling& tiling, Operands operands, const TilingOptions& options,
                      const Target& target) {
  const ConvProblem& problem = tiling.problem;
  Tiling best = tiling;
  double best_us = choose_sizes(best, operands, options, target);
  const bool has_gaps =
      !make_stripes(problem, static_cast<std::int32_t>(problem.q())).taps_have_own_inputs();
  const std::int64_t most = has_gaps && options.cols_per_group == 0 ? problem.n : 1;
  for (std::int64_t images = 2; images <= most; ++images) {
    const std::int64_t cols = images * problem.q();
    if (!stripe_obstacle(problem, operands, cols).empty()) break;
    Tiling other = tiling;
    TilingOptions with_cols = options;
    with_cols.cols_per_group = u32(u64(cols));
    const double us = choose_sizes(other, operands, with_cols, target);
    if (us < best_us) best = other, best_us = us;
  }
  tiling = best;
  return best_us;
}

// Columns of the stripes in which x may be converted: all, or fewer that filters reach less far in,
// in whole boxes of outputs.
std::vector<std::uint64_t> converted_stripes(const ConvProblem& problem, std::uint64_t asked) {
  constexpr std::uint64_t kBox = 4;
  const std::uint64_t q = u64(problem.q());
  std::vector<std::uint64_t> all{q};
  for (std::uint64_t stripes = 2; stripes <= kMostConvertedStripes; ++stripes) {
    const std::uint64_t cols = ceil_div(ceil_div(q, stripes), kBox) * kBox;
    if (cols < all.back()) all.push_back(cols);
  }
  if (asked != 0) all = {asked};
  std::erase_if(all, [&](std::uint64_t cols) {
    return !stripes_can_be_converted(problem, static_cast<std::int64_t>(cols));
  });
  return all;
}

// Whether sums of pixels have six K blocks and more.
bool has_long_pixels(const ConvProblem& a) {
  constexpr std::uint64_t kKBlockBytes = 128, kLong = 6;
  return a.r * a.s == 1 && u64(a.c) * size_of(a.dtype) >= kLong * kKBlockBytes;
}

// Tall tiles, with as many filters as divide them evenly; infinity, where there are none.
double choose_tall_tiles(Tiling& tiling, const TilingOptions& options, const Target& target) {
  const ConvProblem& problem = tiling.problem;
  const Operands operands = tiling.arithmetic == Arithmetic::tf32 ? Operands::in_float_tensor_tall
                                                                  : Operands::in_tensor_tall;
  const std::uint32_t all = tiling.filter_blocks();
  const std::uint64_t tiles =
      ceil_div(u64(problem.n * problem.p() * problem.q()), u64(kTallPlaces));
  double best_us = std::numeric_limits<double>::infinity();
  Tiling best = tiling;
  TilingOptions with_filters = options;
  for (std::uint32_t tasks = ceil_div(all, filter_blocks_of_tile(operands)); tasks <= all;
       ++tasks) {
    // Several tasks load the same x. They have few filters only where multiprocessors are idle
    // otherwise, and pixels are long (H200: n32c576h14k96r1p0 in FP16 6.1 us, with 48 filters 5.3).
    const std::uint32_t blocks = ceil_div(all, tasks);
    const bool are_parts = tasks > 1 && blocks < kNarrow;
    if (are_parts &&
        (blocks == 1 || tasks * tiles > target.multiprocessors || !has_long_pixels(problem))) {
      break;
    }
    if (blocks == with_filters.filter_blocks_per_gemm_task) continue;
    if (blocks == kNarrow || blocks == kWide) continue;  // not the names of tall ones
    with_filters.filter_blocks_per_gemm_task = blocks;
    Tiling other = tiling;
    const double us = choose_sizes(other, operands, with_filters, target);
    constexpr double kMoreTasks = 0.93;
    if (us < (are_parts ? kMoreTasks : 1) * best_us) best = other, best_us = us;
  }
  tiling = best;
  return best_us;
}

// How much faster than the others tall tiles must be by their estimate. (H100, 90 layers for which
// it says that they are faster, in FP16 and TF32; of few filters H200, 53 layers.)
double least_gain_of_tall(const Tiling& others, const Tiling& tall) {
  // Wide tiles store numbers one by one where pixels of y are no whole vectors, and wait for rows
  // that come in pieces longer than their estimate says.
  constexpr double kNearlyFull = 0.85, kGainOf16Bits = 1.07, kGainOfFloats = 1.2, kLoss = 0.93;
  constexpr double kGainOfFew = 1.05, kGainOfFewAndShort = 1.2, kGainOfParts = 1.25;
  constexpr std::uint64_t kVector = 16, kKBlock = 128;
  const ConvProblem& a = others.problem;
  const std::uint32_t all = others.filter_blocks();
  const std::uint64_t number_bytes = size_of(a.dtype);
  const std::uint64_t sum_bytes = u64(a.c * a.r * a.s) * number_bytes;
  const bool has_floats = a.dtype == DataType::f32;
  if (all < kNarrow) {
    const bool is_short = sum_bytes <= (has_floats ? 1 : 2) * kKBlock;
    const bool skips_pixels = a.r * a.s == 1 && has_strides(a);
    return is_short || skips_pixels ? kGainOfFewAndShort : kGainOfFew;
  }
  if (std::get<ImplicitGemmCut>(tall.cut).filter_blocks_per_gemm_task < kNarrow) {
    return kGainOfParts;
  }
  const bool in_pieces = rows_come_in_pieces(a);
  const bool in_vectors = u64(a.k) * number_bytes % kVector == 0;
  const double full = static_cast<double>(all) / (ceil_div(all, kWide) * kWide);
  if (full == 1 && !in_pieces) return std::numeric_limits<double>::infinity();
  const bool is_doubtful = sum_bytes <= kKBlock ||
                           (full > kNearlyFull && in_vectors && !in_pieces) ||
                           have_narrow_tiles(std::get<ImplicitGemmCut>(others.cut).operands);
  if (!is_doubtful) return kLoss;
  return has_floats ? kGainOfFloats : kGainOf16Bits;
}

// Tiles of 64 filters, or wide or tall ones where these are possible and faster, or asked for.
double choose_tensor_tiles(Tiling& tiling, const TilingOptions& options, const Target& target) {
  const bool floats = tiling.arithmetic == Arithmetic::tf32;
  const std::uint32_t all = tiling.filter_blocks(), asked = options.filter_blocks_per_gemm_task;
  const bool has_wide_tiles = operands_in_wide_tiles(tiling.problem);
  if (asked > kNarrow || (asked != 0 && has_wide_tiles)) {  // what is not possible is refused
    return choose_sizes(tiling, operands_of_tensors(floats, true, asked), options, target);
  }
  const bool may_be_wide = asked == 0 && has_wide_tiles && options.cols_per_group == 0;
  Tiling wide = tiling, tall = tiling;
  double us = choose_abreast(tiling, operands_of_tensors(floats, false, kNarrow), options, target);
  if (!may_be_wide) return us;
  if (all >= kWide) {
    const double wide_us =
        choose_sizes(wide, operands_of_tensors(floats, true, kWide), options, target);
    if (wide_us < us) tiling = wide, us = wide_us;
  }
  const double tall_us = choose_tall_tiles(tall, options, target);
  if (least_gain_of_tall(tiling, tall) * tall_us < us) tiling = tall, us = tall_us;
  return us;
}

// Of a copy from space to depth.
double choose_in_depth(Tiling& tiling, const TilingOptions& options, const Target& target) {
  const bool rounds = tiling.problem.dtype == DataType::f32 &&
                      tiling.arithmetic == Arithmetic::f16 &&
                      options.arithmetic == Arithmetic::automatic;
  const std::string need =
      rounds ? implicit_gemm_arithmetic_need(tiling.problem, Arithmetic::tf32) : "";
  if (rounds && need.empty()) tiling.arithmetic = Arithmetic::tf32;
  const Operands operands = operands_in_depth(tiling.problem, tiling.arithmetic);
  Tiling copied = tiling;
  copied.problem = multiplied_problem(tiling.problem, operands);
  const double us = operands == Operands::loaded ? choose_sizes(copied, operands, options, target)
                                                 : choose_tensor_tiles(copied, options, target);
  tiling.cut = copied.cut;
  return copy_us(tiling) + us;
}

// The fastest load path; what is possible with none is cut as if x were loaded.
double choose_operands(Tiling& tiling, const TilingOptions& options, const Target& target) {
  const ConvProblem& problem = tiling.problem;
  if (has_space_to_depth(problem)) return choose_in_depth(tiling, options, target);
  if (operands_in_tensor(problem) || tiling.arithmetic == Arithmetic::tf32) {
    return choose_tensor_tiles(tiling, options, target);
  }
  Tiling best = tiling;
  double best_us = choose_sizes(best, Operands::loaded, options, target);
  const auto& loaded = std::get<ImplicitGemmCut>(best.cut);
  // Narrow tasks load nothing that they can convert.
  const bool converts = tiling.arithmetic == Arithmetic::f16 &&
                        loaded.filter_blocks_per_gemm_task <= kFilterBlocksInPlace &&
                        stripes_can_be_converted(problem, loaded.cols_per_group);
  bool possible =
      !converts && stripe_obstacle(problem, Operands::loaded, loaded.cols_per_group).empty();
  const auto consider = [&](Operands operands, std::uint64_t cols) {
    Tiling other = tiling;
    if (operands == Operands::in_float_tensor) other.arithmetic = Arithmetic::tf32;
    TilingOptions with_cols = options;
    with_cols.cols_per_group = u32(cols);
    const double us =
        operands == Operands::converted ? choose_sizes(other, operands, with_cols, target)
        : operands == Operands::in_copy ? choose_abreast(other, operands, with_cols, target)
                                        : choose_tensor_tiles(other, with_cols, target);
    const bool loads = std::get<ImplicitGemmCut>(best.cut).operands == Operands::loaded;
    const double to_beat = loads ? kLoadedBeside * best_us : best_us;
    if (possible && us >= to_beat) return;
    best = other, best_us = us, possible = true;
  };
  // What one tap reads once is not worth a copy.
  if (problem.r * problem.s == 1 && options.arithmetic == Arithmetic::automatic &&
      floats_can_be_brought(problem) && has_copies_to_choose(problem, tiling.arithmetic)) {
    tiling.arithmetic = Arithmetic::tf32;
    return choose_tensor_tiles(tiling, options, target);
  }
  if (has_copies_to_choose(problem, tiling.arithmetic)) {
    const std::uint64_t asked = options.cols_per_group;
    const bool narrow = options.filter_blocks_per_gemm_task <= kFilterBlocksInPlace;
    if (asked % u64(problem.q()) == 0) {
      if (options.whole_tensors && narrow) consider(Operands::in_copy, asked);
      const bool either = options.arithmetic == Arithmetic::automatic &&
                          (narrow || operands_in_wide_tiles(problem));
      if (either && floats_can_be_brought(problem)) consider(Operands::in_float_tensor, asked);
    }
    if (narrow) {
      for (const std::uint64_t cols : converted_stripes(problem, asked)) {
        consider(Operands::converted, cols);
      }
    }
  }
  tiling = best;
  return best_us;
}

// Winograd F(4x4) on tensor cores in stages, H200: x, y, w, V, U and M once through memory, the
// launches, and GEMM tasks: of three products as they fill the multiprocessors; of one at so many
// operations. Within 11 % of what was measured on the suite with split numbers, 28 % with one
// product (docs/performance.md).
constexpr double kSplitBytesPerUs = 3.2e6, kSplitLaunchUs = 9;
constexpr double kOneProductFlopsPerUs = 500e6, kOneProductBytesPerUs = 2.0e6;
constexpr double kOneProductLaunchUs = 14;
// So much faster it must be: with three products its error is up to twice that of implicit GEMM.
constexpr double kMoreError = 1.05;

double winograd_us(const ConvProblem& problem, Arithmetic arithmetic, const Target& target) {
  TilingOptions options;
  options.algorithm = Algorithm::winograd;
  options.arithmetic = arithmetic;
  options.m = 4;
  options.whole_tensors = true;
  const Tiling tiling = make_tiling(problem, options, target);
  const WinogradTiles& cut = *tiling.tiles();
  const double tiles = static_cast<double>(cut.num_tiles);
  const double positions = static_cast<double>(cut.num_positions());
  const double c = static_cast<double>(problem.c), k = static_cast<double>(problem.k);
  const double transformed = positions * (tiles * c + c * k), products = positions * tiles * k;
  const double stored = static_cast<double>(problem.x_size()) +
                        static_cast<double>(problem.y_size()) +
                        static_cast<double>(problem.w_size());
  const double bytes = static_cast<double>(number_bytes(arithmetic)) * transformed +
                       sizeof(float) * products +
                       static_cast<double>(size_of(problem.dtype)) * stored;
  if (arithmetic == Arithmetic::split_f16) {
    return kSplitLaunchUs + gemm_stage_us(tiling, target.multiprocessors) +
           bytes / kSplitBytesPerUs;
  }
  const double rooms = static_cast<double>(tiling.num_groups) * cut.group_tiles;
  const double filters = static_cast<double>(ceil_div(u64(problem.k), std::uint64_t{64}) * 64);
  const double flops = 2 * rooms * positions * c * filters;
  return kOneProductLaunchUs + flops / kOneProductFlopsPerUs + bytes / kOneProductBytesPerUs;
}

// H100, 46 layers of 3 to 8 channels in NHWC, by direct tasks and by implicit GEMM: with FP16
// products these are 2.6 times as fast in the mean, with three products 1.5 times. Fewer than 8
// filters are up to 2.4 times slower, and with three products 32 filters of images are 1.2 times
// slower: from space to depth, too (n32c3h224k32u2 112 us instead of 75). Not measured in NCHW.
bool few_channels_pay(const ConvProblem& problem, const TilingOptions& options) {
  constexpr std::int64_t kLeastFilters = 8, kImageChannels = 3, kFewFilters = 32;
  const bool split = implicit_gemm_arithmetic(problem, options) == Arithmetic::split_f16;
  const bool few = problem.c <= kImageChannels && problem.k <= kFewFilters && problem.r > 1;
  if (problem.k < kLeastFilters || (split && few)) return false;
  if (has_space_to_depth(problem)) return true;
  return !has_strides(problem) && problem.layout == Layout::nhwc;
}

}  // namespace

Arithmetic implicit_gemm_arithmetic(const ConvProblem& problem, const TilingOptions& options) {
  if (options.arithmetic != Arithmetic::automatic) return options.arithmetic;
  if (problem.dtype == DataType::bf16) return Arithmetic::bf16;
  return permits_f16(problem.dtype, options.precision) ? Arithmetic::f16 : Arithmetic::split_f16;
}

bool grouping_pays(const ConvProblem& problem, Arithmetic arithmetic) {
  if (problem.groups == 1) return true;
  if (problem.depthwise()) return false;
  // Products for each that is none of zeros. Direct tasks have 16 filters of a conv group or zeros
  // side by side. To be measured.
  const std::int64_t most = arithmetic == Arithmetic::split_f16 ? 8 : 16;
  return groups_at_once(problem) <= most && channels_at_once(problem) >= kLeastChannels;
}

bool implicit_gemm_pays(const ConvProblem& problem, const TilingOptions& options, bool winograd,
                        const Target& target) {
  if (target.multiprocessors == 0) return false;
  if (problem.groups != 1) return true;
  if (problem.c < kLeastChannels && !few_channels_pay(problem, options)) return false;
  if (!winograd) return true;
  Tiling tiling{.problem = problem,
                .arithmetic = implicit_gemm_arithmetic(problem, options),
                .cut = ImplicitGemmCut{}};
  TilingOptions launched;
  launched.whole_tensors = options.whole_tensors;
  const bool split = tiling.arithmetic == Arithmetic::split_f16;
  return choose_operands(tiling, launched, target) <
         kMoreError * winograd_us(problem, split ? Arithmetic::split_f16 : Arithmetic::f16, target);
}

std::uint32_t place_step(bool in_place) {
  return static_cast<std::uint32_t>(in_place ? kPlaceStepInPlace
                                             : tile_step(kWideSplit.places, true));
}

ImplicitGemmTile implicit_gemm_tile(std::uint32_t filter_blocks, std::uint64_t places,
                                    Arithmetic arithmetic) {
  const Tile& tile = tile_of(filter_blocks, places, arithmetic);
  return {tile.filter_blocks * Tiling::kLaneBlock, width_of(tile, places, arithmetic)};
}

double implicit_gemm_us(const Tiling& tiling, const Target& target, bool staged) {
  // Where the last wave has few tasks, these disturb each other less.
  constexpr double kWhole = 0.9;
  const double waves = static_cast<double>(tiling.num_groups) * tiling.gemm_tasks /
                       std::max(1u, target.multiprocessors);
  const double copied_us = has_space_to_depth(tiling.problem) ? copy_us(tiling) : 0;
  return copied_us +
         run_us(multiplied(tiling), kWhole * std::ceil(waves) + (1 - kWhole) * waves, staged);
}

void choose_implicit_gemm(Tiling& tiling, const TilingOptions& options, const Target& target) {
  tiling.arithmetic = implicit_gemm_arithmetic(tiling.problem, options);
  choose_operands(tiling, options, target);
  choose_filter_tasks_for_cuda(tiling, target.multiprocessors);
}

}  // namespace megaconv
