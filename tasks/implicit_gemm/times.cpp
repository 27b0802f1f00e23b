// SPDX-License-Identifier: Apache-2.0
// How long tasks of implicit GEMM take: of x that threads load, that is copied or converted, and
// that TMA loads for narrow, wide and tall tiles. Numbers are fitted to measurements of each kind.
#include "tasks/implicit_gemm/times.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "tasks/gpu_memory.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"

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
constexpr Tile kNarrowSplit{kFilterBlocksInPlace, 256, 2.35, 3.8},
    kWideSplit{kWideTileBlocks, 128, 2.35, 2.0};
constexpr Tile kNarrowRounded{kFilterBlocksInPlace, 256, 1.0, 4.6};
constexpr Tile kWideRounded{kWideTileBlocks, 128, 0.97, 2.8};
// One product needs fewer sums, which leaves room for more padded pixels. They share loaded
// filters.
constexpr Tile kLargeRounded{kWideTileBlocks, 256, 1.72, 5.9};
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
// others, those of two lines so much.
constexpr double kTogetherUs = 0.4, kTogetherOfTwoLines = 1.34;
// So often what a tile has less of, products or outputs, is beside nothing.
constexpr double kTapAlone = 1.4;
// Until a stage of x is there: by itself, and for every row of operands that all multiprocessors
// load for one; for every row of a stage for several taps. With few stages products wait for it.
// (H100: tiles of 3 to 6 stages of one tap, and of 2 of a stem.)
constexpr double kInputUs = 0.3, kInputRowUs = 5e-3, kHaloRowUs = 3.5e-3;
// The same where memory takes at least this share of what all products would; and of a row,
// however many stages there are.
constexpr double kStreamed = 0.6, kStreamedInputRowUs = 7e-3, kStreamedRowUs = 2.1e-3;
// Tall tiles, microseconds: of a run; of a tile, and of every byte of a padded pixel's outputs; of
// a tap of a K block, at least, and of each filter in it; by rows of operands, of which those of
// filters come to many blocks at a time; and by products. Until a stage of x is there, and for
// every row of it; of every byte of outputs, and how much longer they take that are stored one by
// one; so often what a tile has less of, products or outputs, is beside nothing; of further waves
// of tasks. Bytes that pass through memory in one. How much longer rows take that come in pieces,
// are of two lines, or come in pieces to blocks that load x for each other.
struct TallTimes {
  double run, tile, tile_byte, tap, tap_filter, row, filter_row, products, input, input_row, output,
      one_by_one, alone, task, memory, in_pieces, of_two_lines, together;
};
// Of tensors: H200, 120 layers in FP16 and TF32, up to 12 numbers of filters each, 12 % off, root
// mean square. Of floats that consumers convert: H200, 79 layers, 9 % off, root mean square; rows
// in pieces as of tensors. Of those that they split: H200, 181 layers, up to 5 sizes each, 7 % off;
// the chosen ones take 0.6 % more than the best.
constexpr TallTimes kTall{2.42,   0.36,    2.9e-3, 0.246, 0,    1.01e-3, 1.79, 3.24e6, 0.15,
                          1.2e-3, 2.48e-5, 1,      1.31,  0.49, 3.54e6,  1.54, 1.46,   1.33};
constexpr TallTimes kConvertedTall{2.37,  0,      3.68e-3, 0.132,   0,       1.48e-3,
                                   0.728, 1.86e6, 0.5,     2.66e-3, 3.54e-5, 1,
                                   1.14,  0.305,  3.7e6,   2.06,    1.22,    1.6};
constexpr TallTimes kSplitTall{1.94,    0.547,   1.22e-3, 0.24, 3.21e-3, 1e-3,   1.06, 0.95e6, 0.5,
                               2.66e-3, 4.38e-5, 2,       1.14, 1.02,    3.75e6, 3.04, 1.22,   1.6};
// Of up to 48 filters (H200, 53 layers, 5 sizes each, FP16 and TF32: 8 % off, root mean square; the
// chosen ones, narrow or tall, take 2 % more than the best). Of a run; of a tile, and of every byte
// of a padded pixel's outputs; of a tap of a K block, and of each filter in it; of further waves.
constexpr double kFewLaunchUs = 2.4, kFewTileUs = 0.58, kFewTileByteUs = 1.66e-3;
constexpr double kFewTapUs = 0.15, kFewTapFilterUs = 8.6e-4, kFewTaskUs = 0.25;
constexpr double kFewMemoryBytesPerUs = 3.0e6;
// Tasks of a tile each that all run at once, on tensors that stay in the L2. Microseconds of a run;
// of a tap of a K block, of every padded pixel and every filter in it, and so much more where all
// multiprocessors load; of every byte of outputs; and of blocks that share channels. How much
// longer rows take that come in pieces, and outputs that are stored one by one, of all filters that
// a tile has room for. (H200, 2,000 runs in FP16 and TF32: 9 to 12 % off, root mean square.)
struct TimesAtOnce {
  double run, tap, place, filter, place_of_all, filter_of_all, output_byte, shares;
};
constexpr TimesAtOnce kNarrowAtOnce{3.1, 0.065, 2.7e-4, 2.7e-4, 9.2e-4, 9.2e-4, 3.6e-5, 0.86};
constexpr TimesAtOnce kWideAtOnce{2.7, 0, 7.6e-4, 7.6e-4, 7.7e-4, 7.7e-4, 3.4e-5, 0};
constexpr TimesAtOnce kFewTallAtOnce{3.16, 0.109, 1.4e-4, 1.4e-4, 7.6e-4, 7.6e-4, 2.5e-5, 0};
constexpr TimesAtOnce kTallAtOnce{3.14, 0.035, 0, 1.55e-3, 1.3e-4, 1.39e-3, 3.2e-5, 0};
constexpr double kInPiecesAtOnce = 2.5, kOneByOneAtOnce = 3;
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

// Of tasks of so many lane blocks of filters, in groups of so many padded pixels.
const Tile& tile_of(std::uint32_t filter_blocks, std::uint64_t places, Arithmetic arithmetic) {
  const bool split = arithmetic == Arithmetic::split_f16;
  if (filter_blocks <= kFilterBlocksInPlace) return split ? kNarrowSplit : kNarrowRounded;
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
  return std::ceil(static_cast<double>(channels_at_once(problem)) / k_block / shares) *
         static_cast<double>(problem.r * problem.s);
}

// How much longer TMA takes in the mean for rows of a K block than for those of whole lines.
double row_more(const ConvProblem& problem, std::int32_t tile_places, Operands operands,
                double in_pieces_more = kInPiecesMore, double of_two_lines_more = kOfTwoLinesMore) {
  constexpr std::uint64_t kLine = 128;
  if (!are_tensors(operands) && !are_tall(operands)) return 1;
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

// Pipeline stages of x.
std::int32_t input_stages(const ConvProblem& problem, std::int32_t tile_places,
                          const InputOfTile& input, Operands operands, std::uint32_t shares) {
  const double taps = num_taps(problem, tile_places, operands, shares);
  return memory_in_place(tile_places, most_filters_in_place(operands), input, operands,
                         static_cast<std::int32_t>(taps), problem.epilogue.residual, 1, 1)
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
  const double products =
      static_cast<double>(a.y_size()) * static_cast<double>(channels_at_once(a) * a.r * a.s);
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
               more = row_more(problem, tile_places, cut.operands, in_pieces_more,
                               together ? kTogetherOfTwoLines : kOfTwoLinesMore);
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
double few_tall_us(const Tiling& tiling, double waves) {
  const ConvProblem& problem = tiling.problem;
  const auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
  const double filters = filters_in_place(cut.operands, cut.filter_blocks_per_gemm_task);
  const double tiles = std::ceil(cut.places_per_group / double{kTallPlaces});
  const double taps = num_taps(problem, kTallPlaces, cut.operands);
  double tap_us = kFewTapUs + kFewTapFilterUs * filters;
  if (has_strides(problem)) {  // rows of x do not follow each other
    tap_us = std::max(tap_us, kTall.row * kTallPlaces *
                                  row_more(problem, kTallPlaces, cut.operands, kTall.in_pieces,
                                           kTall.of_two_lines));
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
  const Operands operands = cut.operands;
  const bool converts = are_converted(operands);
  if (!converts && cut.filter_blocks_per_gemm_task < kFilterBlocksInPlace) {
    return few_tall_us(tiling, waves);
  }
  const TallTimes& us = operands == Operands::split_tall ? kSplitTall
                        : converts                       ? kConvertedTall
                                                         : kTall;
  const std::int32_t tile_filters = filters_in_place(operands, cut.filter_blocks_per_gemm_task);
  const double width = kTallPlaces, filters = tile_filters;
  const double tiles = std::ceil(cut.places_per_group / width);
  const double taps = num_taps(problem, kTallPlaces, operands);
  const MemoryInPlace memory =
      memory_in_place(kTallPlaces, tile_filters, {1, 1, kTallPlaces}, operands,
                      static_cast<std::int32_t>(taps), problem.epilogue.residual, 1, 1);
  const bool keeps_filters = taps <= memory.filter_stages;
  const bool together = staged && cluster_blocks(tiling) > 1;
  const double more =
      row_more(problem, kTallPlaces, operands, together ? us.together : us.in_pieces,
               together ? kTogetherOfTwoLines : us.of_two_lines);
  const double input_rows = width * input_bytes_in_place(1, 1, operands);
  const double filter_rows = us.filter_row * filters / (keeps_filters ? tiles : 1);
  // Filters that were converted begin with lines.
  const double rows =
      converts ? more * input_rows + filter_rows : more * (input_rows + filter_rows);
  const double products = width * filters * k_block_channels_in_place(kTallPlaces, operands) *
                          (have_floats(operands) ? 2 : 1);
  const double input_us = (us.input + us.input_row * (input_rows + filters)) / memory.input_stages;
  const double tap_us =
      std::max({us.tap + us.tap_filter * filters, us.row * rows, products / us.products, input_us});
  const double number_bytes = static_cast<double>(size_of(problem.dtype));
  const double outputs_us = us.output * (stores_vectors(problem) ? 1 : us.one_by_one) * width *
                            number_bytes * std::min(filters, static_cast<double>(problem.k));
  const double tile_us = us.tile + us.tile_byte * filters * number_bytes;
  const double tiles_us = waves * tiles * (tile_us + std::max(taps * tap_us, outputs_us)) +
                          us.alone * std::min(taps * tap_us, outputs_us) + (waves - 1) * us.task;
  return us.run + (together ? kTogetherUs : 0) +
         with_memory_us(tiles_us, memory_bytes(tiling) / us.memory);
}

// A run whose blocks are all at work at once, a tile each whose taps have inputs of their own, on
// tensors that stay in the L2.
struct RunAtOnce {
  std::int32_t tile_places;
  std::uint32_t shares;
  double blocks;
};

std::optional<RunAtOnce> find_run_at_once(const Tiling& tiling) {
  const auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
  const Operands operands = cut.operands;
  const ConvProblem problem = multiplied_problem(tiling.problem, operands);
  const bool is_strided_tall = are_tall(operands) && problem.r * problem.s != 1;
  if (!are_tensors(operands) || problem.groups != 1 || is_strided_tall) return {};
  const Stripes stripes = make_stripes(problem, static_cast<std::int32_t>(cut.cols_per_group));
  const std::int32_t tile_places =
      tile_places_in_place(cut.places_per_group, stripes, operands, problem.c);
  if (stripes.images != 1 || tile_places < static_cast<std::int32_t>(cut.places_per_group)) {
    return {};
  }
  const InputOfTile input = input_of_tile(problem, stripes, tile_places, operands);
  if (!are_tall(operands) && input.filter_rows * input.filter_cols != 1) return {};
  const std::uint32_t shares = channel_shares(tiling);
  const auto blocks = static_cast<double>(count_tasks(tiling) * shares);
  if (blocks > kTapMultiprocessors || memory_bytes(tiling) != 0) return {};
  return RunAtOnce{tile_places, shares, blocks};
}

double at_once_us(const Tiling& tiling, const RunAtOnce& run) {
  const ConvProblem& problem = tiling.problem;
  const auto& cut = std::get<ImplicitGemmCut>(tiling.cut);
  const bool is_few = cut.filter_blocks_per_gemm_task < kFilterBlocksInPlace;
  const TimesAtOnce& us = are_wide(cut.operands)    ? kWideAtOnce
                          : !are_tall(cut.operands) ? kNarrowAtOnce
                          : is_few                  ? kFewTallAtOnce
                                                    : kTallAtOnce;
  const double filters = filters_in_place(cut.operands, cut.filter_blocks_per_gemm_task);
  const double more = row_more(problem, run.tile_places, cut.operands, kInPiecesAtOnce);
  const double busy = run.blocks / kTapMultiprocessors;
  const double tap_us = us.tap + more * (run.tile_places * (us.place + us.place_of_all * busy) +
                                         filters * (us.filter + us.filter_of_all * busy));
  const bool one_by_one = !stores_vectors(problem);
  const double stored = one_by_one && !are_tall(cut.operands)
                            ? filters
                            : std::min(filters, static_cast<double>(problem.k));
  const double bytes = run.tile_places * stored * static_cast<double>(size_of(problem.dtype));
  return us.run + num_taps(problem, run.tile_places, cut.operands, run.shares) * tap_us +
         us.output_byte * (one_by_one ? kOneByOneAtOnce : 1) * bytes +
         (run.shares > 1 ? us.shares : 0);
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
  if (staged) {
    if (const auto run = find_run_at_once(tiling)) return at_once_us(tiling, *run);
  }
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
    before_us += input_copy_us(tiling);
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

}  // namespace

bool run_at_once(const Tiling& tiling) { return find_run_at_once(tiling).has_value(); }

double memory_by_products(const Tiling& tiling) {
  return memory_us(tiling) / least_products_us(tiling);
}

double input_copy_us(const Tiling& tiling) {
  const double bytes = static_cast<double>(
      u64(tiling.problem.x_size()) * size_of(tiling.problem.dtype) + input_copy_bytes(tiling));
  return kCopyUs +
         bytes / (has_space_to_depth(tiling.problem) ? kDepthBytesPerUs : kCopyBytesPerUs);
}

double implicit_gemm_run_us(const Tiling& tiling, double waves, bool staged) {
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

std::uint32_t loaded_tile_places(std::uint32_t filter_blocks, Arithmetic arithmetic) {
  return tile_of(filter_blocks, 1, arithmetic).places;
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
  const double copied_us = has_space_to_depth(tiling.problem) ? input_copy_us(tiling) : 0;
  return copied_us + implicit_gemm_run_us(multiplied(tiling),
                                          kWhole * std::ceil(waves) + (1 - kWhole) * waves, staged);
}

}  // namespace megaconv
