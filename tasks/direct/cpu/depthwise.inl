// SPDX-License-Identifier: Apache-2.0
// Depthwise tasks of NHWC and nchw16c: lanes are channels, each with its own filter, and x is read
// as it is.
//
//   y[pixel][channel] = sum over taps of x[pixel, tap][channel] u[tap][channel]
//
// A tile is some neighbouring outputs of a row. Rows of taps in the padding are left out; where
// single taps are in it, zeros are read instead. Two kernels: of rows of three taps, where what is
// loaded of x serves up to three outputs, so that multiply-adds bind; and of any taps, with a load
// for each of them.
#pragma once

#include <type_traits>

#include "tasks/cpu/channel_blocks.inl"
#include "tasks/cpu/kernels.hpp"
#include "tasks/cpu/micro_kernel.inl"
#include "tasks/direct/cpu/taps.inl"

namespace megaconv::cpu::MEGACONV_ISA {

/// Outputs at either end of a tile that may have taps in the padding.
inline constexpr int kTileEnds = 3;

/// What is read there: 16 numbers of any type.
alignas(64) inline constexpr float kPadding[kBlock] = {};

/// Outputs [begin, end) of an axis whose taps are all inside of the image.
struct InnerOutputs {
  InnerOutputs(const Axis& axis, Size filter_extent) : begin(ceil_div(axis.pad, axis.stride)) {
    const Size reach = axis.extent + axis.pad - filter_extent;  // the last whole one's first tap
    end = reach < 0 ? 0 : reach / axis.stride + 1;
  }
  bool have(Size first, Size count) const { return first >= begin && first + count <= end; }
  Size begin, end;
};

/// Some outputs of one channel block. Distances in elements, but where they are in pixels.
template <class T>
struct DepthwiseTile {
  const T* x;           ///< the first output's tap (0, 0), which may be outside
  Size x_step;          ///< between outputs
  Size x_row, x_col;    ///< between rows and columns of taps
  Size cols;            ///< of taps
  const float* u;       ///< [tap][16]
  Size first, width;    ///< columns of x: of the first output's tap 0, and how many there are
  Size step, dilation;  ///< columns of x: between outputs, and between taps
  Size y;               ///< in pixels of y: the first output
  Size x_down, y_down;  ///< to the tile below, in x and y
  Size row;             ///< of the output
  const Axis* row_axis;
  const InnerOutputs* inner_rows;
  Size block, num_channels;  ///< first channel, and how many there are: 16 at most
  const ChannelWriter<T>* writer;
  typename ChannelWriter<T>::Line lines[kBlockVecs];  ///< of the kernel of rows, from y on
};

template <class T, int kPixels, bool kPadded, bool kWhole>
void depthwise_kernel(const DepthwiseTile<T>& tile) {
  using Product = typename Products<T>::Depthwise;
  Vec sums[kPixels][kBlockVecs];
  unroll<kPixels * kBlockVecs>([&](auto i) __attribute__((always_inline)) {
    sums[i / kBlockVecs][i % kBlockVecs] = Vec{};
  });
  const Size x_step = tile.x_step, x_col = tile.x_col, cols = tile.cols;
  const Size width = tile.width, step = tile.step, dilation = tile.dilation;
  const Size channels = tile.num_channels;
  const TapRange taps(*tile.row_axis, tile.row);
  const T* x_row = tile.x + taps.begin * tile.x_row;
  const float* u = tile.u + taps.begin * cols * kBlock;
  for (Size r = taps.end - taps.begin; r > 0; --r, x_row += tile.x_row) {
    const T* x = x_row;
    Size col = tile.first;
    for (Size s = cols; s > 0; --s, x += x_col, col += dilation, u += kBlock) {
      const T* inputs[kPixels];
      unroll<kPixels>([&](auto pixel) __attribute__((always_inline)) {
        inputs[pixel] = x + pixel * x_step;
        if constexpr (kPadded && (pixel < kTileEnds || pixel >= kPixels - kTileEnds)) {
          const Size at = col + pixel * step;
          if (at < 0 || at >= width) inputs[pixel] = reinterpret_cast<const T*>(kPadding);
        }
      });
      unroll<kBlockVecs>([&](auto part) __attribute__((always_inline)) {
        const Vec weights = load(u + part * kLanes);
        unroll<kPixels>([&](auto pixel) __attribute__((always_inline)) {
          const Vec input = Product::read_pixel(inputs[pixel] + part * kLanes,
                                                kWhole ? kLanes : channels - part * kLanes);
          sums[pixel][part] = Product::multiply_add(sums[pixel][part], input, weights);
        });
      });
    }
  }
  unroll<kBlockVecs>([&](auto part) __attribute__((always_inline)) {
    Vec block[kPixels];
    unroll<kPixels>([&](auto pixel)
                        __attribute__((always_inline)) { block[pixel] = sums[pixel][part]; });
    constexpr int kLane = part * kLanes;
    tile.writer->template write<kPixels>(block, tile.y, 1, tile.block, kLane,
                                         kWhole ? kLanes : channels - kLane);
  });
}

/// Taps of a row, and most outputs, of the kernel of rows: 7 sums, 3 weights and a pixel are in
/// registers, and images of networks are 7 wide, or multiples.
inline constexpr int kRowTaps = 3, kRowPixels = 7;

/// Whether a tile of 16 channels is one of the kernel of rows: at most its first and last column of
/// x are in the padding.
inline bool has_short_rows(const ConvProblem& problem) {
  return problem.s == kRowTaps && problem.dilation_w == 1 && problem.stride_w <= 2 &&
         problem.pad_w <= 1;
}

/// `tiles`: one below the other, of which the first one's tap (0, 0) is at `x` and `u`. A call for
/// each took as long as a tile; one for each with the same taps, of 7 x 7 pixels, half as long.
template <class T, int kStep, int kPixels>
void depthwise_row_kernel(const DepthwiseTile<T>& tile, Size tiles) {
  using Product = typename Products<T>::Depthwise;
  constexpr int kColumns = (kPixels - 1) * kStep + kRowTaps;
  const T* const padding = reinterpret_cast<const T*>(kPadding);
  const bool left = tile.first<0, right = tile.first + kColumns> tile.width;
  const Size x_col = tile.x_col;
  const InnerOutputs inner_rows = *tile.inner_rows;
  const T* tap_row = tile.x;
  Size row = tile.row;
  typename ChannelWriter<T>::Line lines[kBlockVecs];
  for (int part = 0; part < kBlockVecs; ++part) lines[part] = tile.lines[part];
  for (; tiles > 0; --tiles, ++row, tap_row += tile.x_down) {
    TapRange taps(0, tile.row_axis->taps);
    if (!inner_rows.have(row, 1)) taps = TapRange(*tile.row_axis, row);
    const T* const first_row = tap_row + taps.begin * tile.x_row;
    for (int part = 0; part < kBlockVecs; ++part) {
      Vec sums[kPixels][1];
      unroll<kPixels>([&](auto i) __attribute__((always_inline)) { sums[i][0] = Vec{}; });
      const T* x_row = first_row + part * kLanes;
      const float* u = tile.u + taps.begin * kRowTaps * kBlock + part * kLanes;
      for (Size r = taps.end - taps.begin; r > 0;
           --r, x_row += tile.x_row, u += kRowTaps * kBlock) {
        Vec weights[kRowTaps];
        unroll<kRowTaps>([&](auto s)
                             __attribute__((always_inline)) { weights[s] = load(u + s * kBlock); });
        const T* x = x_row;
        unroll<kColumns>([&](auto col) __attribute__((always_inline)) {
          const T* from = x;
          if (col == 0 && left) from = padding;
          if (col == kColumns - 1 && right) from = padding;
          const Vec input = Product::read_pixel(from, kLanes);
          x += x_col;
          unroll<kRowTaps>([&](auto s) __attribute__((always_inline)) {
            constexpr int kFirst = col - s;
            if constexpr (kFirst >= 0 && kFirst % kStep == 0 && kFirst / kStep < kPixels) {
              Vec& sum = sums[kFirst / kStep][0];
              sum = Product::multiply_add(sum, input, weights[s]);
            }
          });
        });
      }
      tile.writer->write_tile(sums, lines[part]);
      tile.writer->advance(lines[part], tile.y_down - kPixels);
    }
  }
}

template <class T>
using DepthwiseKernel = void (*)(const DepthwiseTile<T>&, Size tiles);

/// By number of outputs - 1.
template <class T, int kStep>
inline constexpr DepthwiseKernel<T> kRowKernels[kRowPixels] = {
    depthwise_row_kernel<T, kStep, 1>, depthwise_row_kernel<T, kStep, 2>,
    depthwise_row_kernel<T, kStep, 3>, depthwise_row_kernel<T, kStep, 4>,
    depthwise_row_kernel<T, kStep, 5>, depthwise_row_kernel<T, kStep, 6>,
    depthwise_row_kernel<T, kStep, 7>};

/// `outputs`: one of the sizes that next_outputs() gives.
template <class T, int kPixels = kMaxRows>
MEGACONV_INLINE void depthwise_tile(const DepthwiseTile<T>& tile, Size outputs, bool padded) {
  if constexpr (kPixels > 1) {
    if (outputs < kPixels) return depthwise_tile<T, kPixels / 2>(tile, outputs, padded);
  }
  if (tile.num_channels < kBlock) return depthwise_kernel<T, kPixels, true, false>(tile);
  padded ? depthwise_kernel<T, kPixels, true, true>(tile)
         : depthwise_kernel<T, kPixels, false, true>(tile);
}

/// `tiles`: one below the other.
template <class T>
void depthwise_tiles(DepthwiseTile<T> tile, Size tiles, Size outputs, bool padded) {
  for (; tiles > 0; --tiles, ++tile.row, tile.x += tile.x_down, tile.y += tile.y_down) {
    depthwise_tile<T>(tile, outputs, padded);
  }
}

/// Outputs of the next tile from column `first` on, of which `left` are wanted: so many that only
/// its ends have taps in the padding.
inline Size next_outputs(const InnerOutputs& inner, Size first, Size left) {
  Size outputs = kMaxRows;
  while (outputs > left) outputs /= 2;
  const bool at_ends = inner.begin - first <= kTileEnds && first + outputs - inner.end <= kTileEnds;
  return at_ends ? outputs : 1;
}

/// What stays in a first-level cache of x.
inline constexpr Size kRowBytes = 24 << 10;

/// Blocks whose rows of x stay there until the filter has gone over them.
inline Size blocks_at_once(const ConvProblem& problem, Size number_bytes) {
  return max_of(1, kRowBytes / (problem.r * problem.w * kBlock * number_bytes));
}

/// Rows of outputs of a block whose x about fills such a cache. Fewer rows are more calls: Emerald
/// Rapids, n1c32h112k32g32: 1 row 0.059 ms, 2 0.053, 4 0.050; but n1c96h112k96g96u2, 1 or 2 rows
/// 0.094, 4 0.097.
inline constexpr Size kBandBytes = 42 << 10;
inline Size rows_at_once(const ConvProblem& problem, Size number_bytes) {
  const Size rows = kBandBytes / (problem.w * kBlock * number_bytes);
  return max_of(1, (rows - problem.r) / problem.stride_h + 1);
}

/// Channels of `blocks`.
template <class T>
void depthwise_channels(const TaskArgs& args, const Extents& extents, const PixelRect& rect,
                        const BlockRange& blocks) {
  const ConvProblem& problem = args.tiling->problem;
  const ChannelBlocks x_blocks(problem.layout, problem.c, problem.h * problem.w, x_pitches(args));
  const Size x_width = x_blocks.pitches.row, y_width = y_pitches(args, extents).row;
  const ChannelWriter<T> writer(args, extents, rect.image);
  const Axis row_axis = Axis::rows(problem), col_axis = Axis::cols(problem);
  const InnerOutputs inner(col_axis, extents.extent_w);
  const bool short_rows = has_short_rows(problem);
  const EvenParts parts(rect.cols, kRowPixels);
  const auto& row_kernels = col_axis.stride == 1 ? kRowKernels<T, 1> : kRowKernels<T, 2>;
  const T* const image = static_cast<const T*>(args.x) + rect.image * x_blocks.image();
  const InnerOutputs inner_rows(row_axis, extents.extent_h);
  DepthwiseTile<T> tile;
  tile.cols = problem.s;
  tile.width = problem.w;
  tile.step = col_axis.stride;
  tile.dilation = col_axis.dilation;
  tile.writer = &writer;
  tile.y_down = y_width;
  tile.row_axis = &row_axis;
  tile.inner_rows = &inner_rows;

  // Neighbours in memory follow each other: pixels of a block, or blocks of a pixel.
  const Size at_once = x_blocks.blocked ? 1 : blocks_at_once(problem, sizeof(T));
  const Size band = x_blocks.blocked ? rows_at_once(problem, sizeof(T)) : 1;
  for (Size first = blocks.first; first < blocks.last; first += at_once) {
    const Size last = min_of(first + at_once, blocks.last);
    for (Size row = rect.row, rows; row < rect.row + rect.rows; row += rows) {
      rows = min_of(band, rect.row + rect.rows - row);
      tile.row = row;
      for (Size kb = first; kb < last; ++kb) {
        tile.block = kb * kBlock;
        tile.num_channels = min_of(kBlock, extents.filters - tile.block);
        const Size pixel = x_blocks.pixel(tile.block);
        tile.first = col_axis.input(rect.col);
        tile.x = image + x_blocks.first(tile.block) +
                 (row_axis.input(row) * x_width + tile.first) * pixel;
        tile.x_step = col_axis.stride * pixel;
        tile.x_row = row_axis.dilation * x_width * pixel;
        tile.x_col = col_axis.dilation * pixel;
        tile.x_down = row_axis.stride * x_width * pixel;
        tile.u = args.u + kb * problem.r * problem.s * kBlock;
        tile.y = row * y_width + rect.col;
        const bool rows_of_taps = short_rows && tile.num_channels == kBlock;
        for (int part = 0; rows_of_taps && part < kBlockVecs; ++part) {
          const int lane = part * kLanes;
          tile.lines[part] = writer.template line<1>(tile.y, 1, tile.block, lane, kBlock - lane);
        }
        for (Size left = rect.cols, outputs, part = 0; left > 0; left -= outputs, ++part) {
          if (rows_of_taps) {
            outputs = parts[part];
            row_kernels[outputs - 1](tile, rows);
            for (auto& line : tile.lines) writer.advance(line, outputs);
          } else {
            const Size col = rect.col + rect.cols - left;
            outputs = next_outputs(inner, col, left);
            depthwise_tiles<T>(tile, rows, outputs, !inner.have(col, outputs));
          }
          tile.first += outputs * tile.step;
          tile.x += outputs * tile.x_step;
          tile.y += outputs;
        }
      }
    }
  }
}

}  // namespace megaconv::cpu::MEGACONV_ISA
