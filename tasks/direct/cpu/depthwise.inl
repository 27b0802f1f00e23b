// SPDX-License-Identifier: Apache-2.0
// Depthwise tasks of NHWC and nchw16c: lanes are channels, each with its own filter, and x is read
// as it is.
//
//   y[pixel][channel] = sum over taps of x[pixel, tap][channel] u[tap][channel]
//
// Padding has no taps: a task's rectangle is cut into parts whose outputs have the same taps. The
// outputs of a tile are neighbours in a row, or in a column where that is longer.
#pragma once

#include "tasks/cpu/channel_blocks.inl"
#include "tasks/cpu/kernels.hpp"
#include "tasks/direct/cpu/taps.inl"

namespace megaconv::cpu::MEGACONV_ISA {

/// Some outputs of one channel block. Distances in elements, but for those of y.
template <class T>
struct DepthwiseTile {
  const T* x;                ///< first tap of the first output
  Size x_step;               ///< between outputs
  Size x_row, x_col;         ///< between rows and columns of taps
  Size rows, cols;           ///< of taps
  const float* u;            ///< [tap][16], from the first tap on
  Size u_row;                ///< words between rows of taps
  Size y, y_step;            ///< in pixels of y: the first output, and between outputs
  Size block, num_channels;  ///< first channel, and how many there are: 16 at most
  const ChannelWriter<T>* writer;
};

template <class T, int kPixels, bool kWhole>
void depthwise_kernel(const DepthwiseTile<T>& tile) {
  using Product = typename Products<T>::Depthwise;
  Vec sums[kPixels][kBlockVecs];
  unroll<kPixels * kBlockVecs>([&](auto i) __attribute__((always_inline)) {
    sums[i / kBlockVecs][i % kBlockVecs] = Vec{};
  });
  const Size x_step = tile.x_step, x_col = tile.x_col, cols = tile.cols;
  const Size channels = tile.num_channels;
  const T* x_row = tile.x;
  const float* u_row = tile.u;
  for (Size r = tile.rows; r > 0; --r, x_row += tile.x_row, u_row += tile.u_row) {
    const T* x = x_row;
    const float* u = u_row;
    for (Size s = cols; s > 0; --s, x += x_col, u += kBlock) {
      unroll<kBlockVecs>([&](auto part) __attribute__((always_inline)) {
        const Vec weights = load(u + part * kLanes);
        unroll<kPixels>([&](auto pixel) __attribute__((always_inline)) {
          const T* const from = x + pixel * x_step + part * kLanes;
          const Vec input = Product::read_pixel(from, kWhole ? kLanes : channels - part * kLanes);
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
    tile.writer->template write<kPixels>(block, tile.y, tile.y_step, tile.block, kLane,
                                         kWhole ? kLanes : channels - kLane);
  });
}

/// `outputs`: kPixels at most.
template <class T, int kPixels>
MEGACONV_INLINE void depthwise_tile(const DepthwiseTile<T>& tile, Size outputs) {
  if constexpr (kPixels > 1) {
    if (outputs < kPixels) return depthwise_tile<T, kPixels - 1>(tile, outputs);
  }
  tile.num_channels == kBlock ? depthwise_kernel<T, kPixels, true>(tile)
                              : depthwise_kernel<T, kPixels, false>(tile);
}

/// Channels of `blocks`.
template <class T>
void depthwise_channels(const TaskArgs& args, const Extents& extents, const PixelRect& rect,
                        const BlockRange& blocks) {
  constexpr Size kPixels = 8 / kBlockVecs;
  const ConvProblem& problem = args.tiling->problem;
  const ChannelBlocks x_blocks(problem.layout, problem.c, problem.h * problem.w);
  const ChannelWriter<T> writer(args, extents, rect.image);
  const Axis row_axis = Axis::rows(problem), col_axis = Axis::cols(problem);
  const T* const image = static_cast<const T*>(args.x) + rect.image * x_blocks.image();
  DepthwiseTile<T> tile;
  tile.u_row = problem.s * kBlock;
  tile.writer = &writer;

  // The outputs of some blocks [first, last) in a part with the same taps.
  const auto part = [&](const AlikeOutputs& rows, const AlikeOutputs& cols,
                        const BlockRange& some) {
    tile.rows = rows.taps.end - rows.taps.begin;
    tile.cols = cols.taps.end - cols.taps.begin;
    const bool down = rows.count > cols.count;
    const Size num_lines = down ? cols.count : rows.count;
    const Size outputs = down ? rows.count : cols.count;
    const Size parts = ceil_div(outputs, kPixels);
    const Size x_row = row_axis.stride * problem.w, x_col = col_axis.stride;
    const Size x_step = down ? x_row : x_col, x_line = down ? x_col : x_row;
    const Size y_line = down ? 1 : extents.q;
    tile.y_step = down ? extents.q : 1;
    const Size first_x =
        (row_axis.input(rows.first) + rows.taps.begin * row_axis.dilation) * problem.w +
        col_axis.input(cols.first) + cols.taps.begin * col_axis.dilation;
    const float* const u = args.u + (rows.taps.begin * problem.s + cols.taps.begin) * kBlock;
    for (Size line = 0; line < num_lines; ++line) {
      for (Size first = 0, left = parts; left > 0; --left) {
        const Size count = ceil_div(outputs - first, left);
        tile.y = rows.first * extents.q + cols.first + line * y_line + first * tile.y_step;
        for (Size kb = some.first; kb < some.last; ++kb) {
          tile.block = kb * kBlock;
          tile.num_channels = min_of(kBlock, extents.filters - tile.block);
          const Size pixel = x_blocks.pixel(tile.block);
          tile.x = image + x_blocks.first(tile.block) +
                   (first_x + line * x_line + first * x_step) * pixel;
          tile.x_step = x_step * pixel;
          tile.x_row = row_axis.dilation * problem.w * pixel;
          tile.x_col = col_axis.dilation * pixel;
          tile.u = u + kb * problem.r * problem.s * kBlock;
          depthwise_tile<T, kPixels>(tile, count);
        }
        first += count;
      }
    }
  };
  // Neighbours in memory follow each other: pixels of a block, or blocks of a pixel.
  if (x_blocks.blocked) {
    for (Size kb = blocks.first; kb < blocks.last; ++kb) {
      for_alike_parts(problem, rect, [&](const AlikeOutputs& rows, const AlikeOutputs& cols) {
        part(rows, cols, BlockRange(kb, kb + 1));
      });
    }
  } else {
    for_alike_parts(problem, rect, [&](const AlikeOutputs& rows, const AlikeOutputs& cols) {
      part(rows, cols, blocks);
    });
  }
}

}  // namespace megaconv::cpu::MEGACONV_ISA
