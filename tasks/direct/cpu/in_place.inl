// SPDX-License-Identifier: Apache-2.0
// Direct tasks that read x where it lies: channels are neighbours, as in NHWC and in nchw16c.
//
//   y[pixel][filter] = sum over runs, i:  x[run, pixel][i] u[run][i][filter]
//
// A run is what follows each other in U and lies in x in blocks at equal distances: channels of one
// tap, or of several. Lanes are filters. Words of x are broadcast from memory, and sums go from
// registers through the epilogue into y. Padding has no runs: a task's rectangle is cut into parts
// whose outputs have the same taps. The outputs of a tile are neighbours in a row, or in a column
// where that is longer.
//
// A tile of 14 x 32 sums loads 16 times for 28 multiply-adds, so these bind. Zen 4: 113 to 116
// GFLOP/s of 118, but 92 where 14 pixels share a cache set (NHWC, C % 1024 = 0). With AVX2 it has
// 6 x 16 sums, or 4 x 24 where so many filters are left.
#pragma once

#include <array>

#include "tasks/cpu/channel_blocks.inl"
#include "tasks/cpu/kernels.hpp"
#include "tasks/cpu/micro_kernel.inl"
#include "tasks/cpu/tile_product.inl"
#include "tasks/direct/cpu/taps.inl"

namespace megaconv::cpu::MEGACONV_ISA {

/// Vectors of filters of a tile: usually, and at most, when all that are left fit; in steps.
inline constexpr int kTileVecs = kMaxBlocks * kBlockVecs;
inline constexpr int kMostVecs = kLanes >= 8 ? 3 : kTileVecs;
inline constexpr int kVecStep = kLanes >= 8 ? 1 : kBlockVecs;
/// Rows that leave registers for so many.
constexpr int most_rows(Size vecs) { return vecs <= kTileVecs ? kMaxRows : kLanes == 16 ? 9 : 4; }

/// Words of a tile's pixels past which each block of it is fetched into the L1 during the one
/// before. Zen 3, nchw16c, GFLOP/s with and without: n1c256h56k64r1 89, 92; n1c1024h14k256r1 94,
/// 86; n1c2048h7k512r1 92, 79. With AVX-512 the next tile is fetched, if it has fewer: Sapphire
/// Rapids, speed by that without, 128 filters: 16 channels 1.05, 64 1.03; with 160 channels 0.98,
/// and 1.03 by blocks.
inline constexpr Size kUncachedWords = kLanes == 16 ? 3 << 9 : 3 << 10;
inline constexpr bool kFetchesTile = kLanes == 16;

inline constexpr Size kFloat = sizeof(float);

/// A tile of outputs of one image.
struct InPlaceTile {
  const float* x;  ///< the image
  const float* u;  ///< first filter block
  Size u_block;    ///< floats between filter blocks
  const ChannelWriter<float>* writer;
  Size filter, end_filter;
  const Run *begin = nullptr, *end = nullptr;
  Size first = 0, step = 0;  ///< in pixels of x: tap (0, 0) of the first output; between outputs
  Size end_first = 0, next_first = 0;  ///< first past the line, and of the line that comes next
  Size y = 0, y_step = 0;              ///< in pixels of y: the first output; between outputs
  const float *next_u = nullptr, *end_u = nullptr;  ///< what is still to be fetched into the L2,
  Size fetch = 0;                                   ///< in so many cache lines for kStepWords
  bool fetches_block = false;                       ///< of a tile's x, as kUncachedWords says
};

/// So many tiles of a line, one behind the other: in a call of its own each began 30 cycles later.
template <int kRows, int kVecs>
void in_place_kernel(InPlaceTile& tile, Size tiles) {
  const Size reach = kRows * tile.step;
  TileProduct product{.x = tile.x,
                      .u = tile.u,
                      .u_block_bytes = tile.u_block * kFloat,
                      .begin = tile.begin,
                      .end = tile.end,
                      .first = tile.first,
                      .step = tile.step * kFloat,
                      .next_u = tile.next_u,
                      .end_u = tile.end_u,
                      .fetch = tile.fetch,
                      .pixels_ahead = 0,
                      .by_blocks = tile.fetches_block};
  auto line = tile.writer->template line<kVecs>(tile.y, tile.y_step, tile.filter, 0,
                                                tile.end_filter - tile.filter);
  for (Size left = tiles; left > 0; --left) {
    if (kFetchesTile) {
      const bool is_last = product.first + reach == tile.end_first;
      product.pixels_ahead = is_last ? tile.next_first - product.first : reach;
    }
    Vec sums[kRows][kVecs];
    multiply_tile(product, sums);
    tile.writer->write_tile(sums, line);
    product.first += reach;
  }
  tile.next_u = product.next_u;
  tile.first = product.first;
  tile.y += tiles * kRows * tile.y_step;
}

using InPlaceKernel = void (*)(InPlaceTile&, Size tiles);

/// By number of rows - 1.
template <int kVecs, int... kRow>
constexpr auto make_in_place_kernels() {
  constexpr int kNumRows = sizeof...(kRow);
  if constexpr (kNumRows == most_rows(kVecs)) {
    return std::array<InPlaceKernel, kNumRows>{in_place_kernel<kRow + 1, kVecs>...};
  } else {
    return make_in_place_kernels<kVecs, kRow..., kNumRows>();
  }
}
template <int kVecs>
inline constexpr auto kInPlaceKernels = make_in_place_kernels<kVecs>();

template <int kVecs = kMostVecs>
InPlaceKernel in_place_kernel_for(Size rows, Size vecs) {
  if constexpr (kVecs > kVecStep) {
    if (vecs < kVecs) return in_place_kernel_for<kVecs - kVecStep>(rows, vecs);
  }
  return kInPlaceKernels<kVecs>.begin()[rows - 1];
}

/// A line of `outputs` from those of `tile` on, in tiles of even size.
inline void multiply_line(InPlaceTile& tile, Size outputs, Size vecs) {
  const EvenParts parts(outputs, most_rows(vecs));
  if (parts.larger > 0) in_place_kernel_for(parts.least + 1, vecs)(tile, parts.larger);
  in_place_kernel_for(parts.least, vecs)(tile, parts.count - parts.larger);
}

/// Runs of one part, for channels [first, first + extents.channels).
inline const Run* list_runs(const ConvProblem& problem, const Extents& extents,
                            const ChannelBlocks& blocks, Size first, const TapRange& rows,
                            const TapRange& cols, Run* runs) {
  const Size last = first + extents.channels;
  // In one block, that is all of x's, taps of a row follow each other.
  const bool taps_join = first == 0 && blocks.pixel(0) == extents.channels &&
                         problem.dilation_w == 1 && last == blocks.channels;
  // If these are all, so do the rows of taps in U.
  if (taps_join && cols.end - cols.begin == problem.s) {
    const Size row = problem.dilation_h * blocks.pitches.row * extents.channels;
    *runs++ = {.x = rows.begin * row,
               .pixel = extents.channels,
               .u = rows.begin * problem.s * extents.channels * kBlock,
               .words = problem.s * extents.channels,
               .blocks = rows.end - rows.begin,
               .distance = row};
    return runs;
  }
  for (Size r = rows.begin; r < rows.end; ++r) {
    for (Size s = cols.begin; s < cols.end; ++s) {
      const Size pixel = r * problem.dilation_h * blocks.pitches.row + s * problem.dilation_w;
      const Size u = (r * problem.s + s) * extents.channels * kBlock;
      const Size taps = taps_join ? cols.end - cols.begin : 1;
      for (Size c = first; c < last;) {
        const Size block = blocks.blocked ? c / kBlock * kBlock : 0;
        const Size end = min_of(last, blocks.blocked ? block + kBlock : blocks.channels);
        const Size stride = blocks.pixel(block);
        const Size alike = blocks.blocked && c == block ? max_of(1, (last - c) / kBlock) : 1;
        *runs++ = {.x = blocks.first(block) + c - block + pixel * stride,
                   .pixel = stride,
                   .u = u + (c - first) * kBlock,
                   .words = (end - c) * taps,
                   .blocks = alike,
                   .distance = blocks.first(kBlock)};
        c = end + (alike - 1) * kBlock;
      }
      if (taps_join) break;
    }
  }
  return runs;
}

/// `part`: filter blocks of one conv group.
inline void in_place(const TaskArgs& args, const Extents& extents, const PixelRect& rect,
                     Size conv_group, const BlockRange& part, std::byte* scratch) {
  const ConvProblem& problem = args.tiling->problem;
  const ChannelBlocks x_blocks(problem.layout, problem.c, problem.h * problem.w, x_pitches(args));
  const Size x_width = x_blocks.pitches.row, y_width = y_pitches(args, extents).row;
  const ChannelWriter<float> writer(args, extents, rect.image);
  Run* const runs = reinterpret_cast<Run*>(scratch + extents.panels_at);
  const Size words = problem.r * problem.s * extents.channels;
  const Size first_block = conv_group * extents.filter_blocks_per_conv_group;
  const Size first_filter = conv_group * extents.filters;
  const Axis row_axis = Axis::rows(problem), col_axis = Axis::cols(problem);
  // Of such a filter the pixels of all rows follow each other.
  const bool rows_join = words == extents.channels && row_axis.stride == 1 &&
                         rect.cols == problem.w && rect.cols == x_width && rect.cols == y_width;

  const auto list = [&](const TapRange& rows, const TapRange& cols) {
    return list_runs(problem, extents, x_blocks, conv_group * extents.channels, rows, cols, runs);
  };
  for (Size kb = part.first, blocks; kb < part.last; kb += blocks) {
    const Size filter = (kb - first_block) * kBlock;  // in the conv group
    const Size left = min_of((part.last - kb) * kBlock, extents.filters - filter);
    const Size left_vecs = ceil_div(left, kVecStep * kLanes) * kVecStep;
    const Size vecs = left_vecs <= kMostVecs ? left_vecs : kTileVecs;
    blocks = ceil_div(vecs, kBlockVecs);
    const Size num_tiles = ceil_div(rect.rows * rect.cols, most_rows(vecs));  // about
    const float* const next_u = args.u + (kb + blocks) * words * kBlock;
    const Size next_blocks = min_of(blocks, part.last - kb - blocks);
    InPlaceTile tile{
        .x = static_cast<const float*>(args.x) + rect.image * x_blocks.image(),
        .u = args.u + kb * words * kBlock,
        .u_block = words * kBlock,
        .writer = &writer,
        .filter = first_filter + filter,
        .end_filter = first_filter + extents.filters,
        .next_u = next_u,
        .end_u = next_u + next_blocks * words * kBlock,
        .fetch = ceil_div(next_blocks * kStepWords, num_tiles),
        .fetches_block = words * kMaxRows >= kUncachedWords,
    };
    for_alike_parts(problem, rect, [&](const AlikeOutputs& rows, const AlikeOutputs& cols) {
      tile.begin = runs;
      tile.end = list(rows.taps, cols.taps);
      const bool down = !rows_join && rows.count > cols.count;
      Size num_lines = down ? cols.count : rows.count, outputs = down ? rows.count : cols.count;
      if (rows_join) outputs *= num_lines, num_lines = 1;
      const Size x_row = row_axis.stride * x_width, x_col = col_axis.stride;
      tile.step = down ? x_row : x_col;
      tile.y_step = down ? y_width : 1;
      const Size begin = row_axis.input(rows.first) * x_width + col_axis.input(cols.first);
      const Size next_line = down ? x_col : x_row;
      for (Size line = 0; line < num_lines; ++line) {
        tile.first = begin + line * next_line;
        tile.end_first = tile.first + outputs * tile.step;
        // After the last line its first one follows, with other filters.
        tile.next_first = line + 1 < num_lines ? tile.first + next_line : begin;
        tile.y = rows.first * y_width + cols.first + line * (down ? 1 : y_width);
        multiply_line(tile, outputs, vecs);
      }
    });
  }
}

}  // namespace megaconv::cpu::MEGACONV_ISA
