// SPDX-License-Identifier: Apache-2.0
// Depthwise tasks of NHWC and nchw16c: lanes are channels, each with its own filter, and x is read
// as it is.
//
//   y[pixel][channel] = sum over taps of x[pixel, tap][channel] u[tap][channel]
//
// A tile is some neighbouring outputs of a row. Rows of taps in the padding are left out; where
// single taps are in it, zeros are read instead. Zen 4: a multiply-add for each load of x is what
// both ports give, so 9 cycles for 16 outputs of a 3x3 filter.
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

/// Some outputs of one channel block. Distances in elements, but where they are in pixels.
template <class T>
struct DepthwiseTile {
  const T* x;                ///< the first output's tap (first row inside, column 0)
  Size x_step;               ///< between outputs
  Size x_row, x_col;         ///< between rows and columns of taps
  Size rows, cols;           ///< of taps
  const float* u;            ///< [tap][16], from the first row inside on
  Size first, width;         ///< columns of x: of the first output's tap 0, and how many there are
  Size step, dilation;       ///< columns of x: between outputs, and between taps
  Size y;                    ///< in pixels of y: the first output
  Size block, num_channels;  ///< first channel, and how many there are: 16 at most
  const ChannelWriter<T>* writer;
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
  const T* x_row = tile.x;
  const float* u = tile.u;
  for (Size r = tile.rows; r > 0; --r, x_row += tile.x_row) {
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

/// Columns [begin, end) of the output whose taps are all inside of the image.
struct InnerColumns {
  InnerColumns(const ConvProblem& problem, const Extents& extents)
      : begin(ceil_div(problem.pad_w, problem.stride_w)) {
    const Size reach = problem.w + problem.pad_w - extents.extent_w;  // the last whole one's column
    end = reach < 0 ? 0 : reach / problem.stride_w + 1;
  }
  bool have(Size first, Size count) const { return first >= begin && first + count <= end; }
  Size begin, end;
};

/// Outputs of the next tile from column `first` on, of which `left` are wanted: so many that only
/// its ends have taps in the padding.
inline Size next_outputs(const InnerColumns& inner, Size first, Size left) {
  Size outputs = kMaxRows;
  while (outputs > left) outputs /= 2;
  const bool at_ends = inner.begin - first <= kTileEnds && first + outputs - inner.end <= kTileEnds;
  return at_ends ? outputs : 1;
}

/// Channels of `blocks`.
template <class T>
void depthwise_channels(const TaskArgs& args, const Extents& extents, const PixelRect& rect,
                        const BlockRange& blocks) {
  const ConvProblem& problem = args.tiling->problem;
  const ChannelBlocks x_blocks(problem.layout, problem.c, problem.h * problem.w);
  const ChannelWriter<T> writer(args, extents, rect.image);
  const Axis row_axis = Axis::rows(problem), col_axis = Axis::cols(problem);
  const InnerColumns inner(problem, extents);
  const T* const image = static_cast<const T*>(args.x) + rect.image * x_blocks.image();
  DepthwiseTile<T> tile;
  tile.cols = problem.s;
  tile.width = problem.w;
  tile.step = col_axis.stride;
  tile.dilation = col_axis.dilation;
  tile.writer = &writer;

  const auto row_of_blocks = [&](Size row, const BlockRange& some) {
    const TapRange taps(row_axis, row);
    tile.rows = taps.end - taps.begin;
    const Size x_row = (row_axis.input(row) + taps.begin * row_axis.dilation) * problem.w;
    for (Size col = rect.col; col < rect.col + rect.cols;) {
      const Size outputs = next_outputs(inner, col, rect.col + rect.cols - col);
      const bool padded = !inner.have(col, outputs);
      tile.first = col_axis.input(col);
      tile.y = row * extents.q + col;
      for (Size kb = some.first; kb < some.last; ++kb) {
        tile.block = kb * kBlock;
        tile.num_channels = min_of(kBlock, extents.filters - tile.block);
        const Size pixel = x_blocks.pixel(tile.block);
        tile.x = image + x_blocks.first(tile.block) + (x_row + tile.first) * pixel;
        tile.x_step = col_axis.stride * pixel;
        tile.x_row = row_axis.dilation * problem.w * pixel;
        tile.x_col = col_axis.dilation * pixel;
        tile.u = args.u + (kb * problem.r + taps.begin) * problem.s * kBlock;
        depthwise_tile<T>(tile, outputs, padded);
      }
      col += outputs;
    }
  };
  // Neighbours in memory follow each other: pixels of a block, or blocks of a pixel.
  const Size last_row = rect.row + rect.rows;
  if (x_blocks.blocked) {
    for (Size kb = blocks.first; kb < blocks.last; ++kb) {
      for (Size row = rect.row; row < last_row; ++row) row_of_blocks(row, BlockRange(kb, kb + 1));
    }
  } else {
    for (Size row = rect.row; row < last_row; ++row) row_of_blocks(row, blocks);
  }
}

}  // namespace megaconv::cpu::MEGACONV_ISA
