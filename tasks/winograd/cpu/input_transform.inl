// SPDX-License-Identifier: Apache-2.0
// x -> V: B^T d B of every tile of a task group, for some channel blocks.
#pragma once

#include "tasks/cpu/kernels.hpp"
#include "tasks/cpu/pixels.inl"
#include "tasks/winograd/cpu/tile_order.hpp"
#include "tasks/winograd/cpu/winograd_1d.inl"

namespace megaconv::cpu::MEGACONV_ISA {

/// Where a row of a group stands in its slot of V or M, in floats, for lane block 0.
MEGACONV_INLINE Size row_offset(const Extents& extents, Size panel_stride, Size row) {
  return row / extents.panel_tiles * panel_stride + row % extents.panel_tiles * kBlock;
}

/// One tile: pixels d[row][col] to v[position].
template <class H, class W, class T>
void transform_input_tile(const T* d, Size row_stride, Size col_stride, float* v,
                          Size position_stride) {
  // Two rows of B^T d at a time, so that they stay in registers. All of B^T d would be
  // stored and read again: 130 cycles, not 100, from the L1 (F(4x4), Emerald Rapids).
  unroll<kInputGroups<H>>([&](auto group) __attribute__((always_inline)) {
    unroll<kBlockVecs>([&](auto part) __attribute__((always_inline)) {
      Vec rows[2][W::kAlpha];
      unroll<W::kAlpha>([&](auto j) __attribute__((always_inline)) {
        Vec in[H::kAlpha], pair[2];
        unroll<H::kAlpha>([&](auto i) __attribute__((always_inline)) {
          in[i] = read(d + i * row_stride + j * col_stride + part * kLanes);
        });
        input_rows<H, group>(in, pair);
        rows[0][j] = pair[0];
        rows[1][j] = pair[1];
      });
      unroll<2>([&](auto i) __attribute__((always_inline)) {
        constexpr int kRow = input_row<H>(group, i);
        if constexpr (kRow < H::kAlpha) {
          Vec out[W::kAlpha];
          input_1d<W>(rows[i], out);
          unroll<W::kAlpha>([&](auto j) __attribute__((always_inline)) {
            store(v + (kRow * W::kAlpha + j) * position_stride + part * kLanes, out[j]);
          });
        }
      });
    });
  });
}

/// An edge tile: pixels [row][col], as many as its outputs need, to v[position].
template <class H, class W>
void transform_edge_input(Size outputs_h, Size outputs_w, const float* pixels, float* v,
                          Size position_stride) {
  constexpr int kAlpha = W::kAlpha;
  alignas(64) float lines[H::kAlpha * kAlpha * kBlock];  // [row of R][col]
  Size row_positions[H::kAlpha], num_rows = 0, num_cols = 0;
  with_outputs<W>(outputs_w, [&](auto s) { num_cols = decltype(s)::kAlpha; });
  with_outputs<H>(outputs_h, [&](auto r) {
    using R = decltype(r);
    num_rows = R::kAlpha;
    for (int i = 0; i < R::kAlpha; ++i) row_positions[i] = R::position(i);
    for (Size at = 0; at < num_cols * kBlock; at += kLanes) {
      Vec in[R::kAlpha], out[R::kAlpha];
      unroll<R::kAlpha>([&](auto i) __attribute__((always_inline)) {
        in[i] = load(pixels + i * num_cols * kBlock + at);
      });
      input_1d<R>(in, out);
      unroll<R::kAlpha>([&](auto i) __attribute__((always_inline)) {
        store(lines + i * num_cols * kBlock + at, out[i]);
      });
    }
  });
  with_outputs<W>(outputs_w, [&](auto s) {
    using S = decltype(s);
    for (Size i = 0; i < num_rows; ++i) {
      const float* const line = lines + i * S::kAlpha * kBlock;
      float* const v_row = v + row_positions[i] * kAlpha * position_stride;
      for (Size lane = 0; lane < kBlock; lane += kLanes) {
        Vec in[S::kAlpha], out[S::kAlpha];
        unroll<S::kAlpha>([&](auto j) __attribute__((always_inline)) {
          in[j] = load(line + j * kBlock + lane);
        });
        input_1d<S>(in, out);
        unroll<S::kAlpha>([&](auto j) __attribute__((always_inline)) {
          store(v_row + S::position(j) * position_stride + lane, out[j]);
        });
      }
    }
  });
}

/// The tiles of `run`; tile i goes to place(i).
template <class H, class W, class T, class Place>
MEGACONV_INLINE void transform_input_run(const ConvProblem& problem, const PixelReader<T>& reader,
                                         const TileOrder::Run& run, const Place& place,
                                         Size position_stride, float* strip) {
  constexpr Size kAlpha = W::kAlpha, kStep = W::kM * W::kStride;  // between tiles of a row
  const Size row = run.tile_row * H::kM * H::kStride - problem.pad_h;
  const Size col = run.tile_col * kStep - problem.pad_w;
  if (run.outputs_h < H::kM || run.outputs_w < W::kM) {
    constexpr Size kMore = kAlpha - kStep;  // in both dimensions
    const Size rows = run.outputs_h * H::kStride + kMore, cols = run.outputs_w * W::kStride + kMore;
    for (Size tile = 0; tile < run.count; ++tile) {
      reader.read_rectangle(row, col + tile * kStep, rows, cols, strip);
      transform_edge_input<H, W>(run.outputs_h, run.outputs_w, strip, place(tile), position_stride);
    }
    return;
  }
  if (problem.layout == Layout::nchw) {
    const Size cols = run.count * kStep + kAlpha - kStep;
    reader.read_rectangle(row, col, H::kAlpha, cols, strip);
    for (Size tile = 0; tile < run.count; ++tile) {
      transform_input_tile<H, W>(strip + tile * kStep * kBlock, cols * kBlock, kBlock, place(tile),
                                 position_stride);
    }
    return;
  }
  for (Size tile = 0; tile < run.count; ++tile) {
    const Size tile_col = col + tile * kStep;
    if (reader.in_place(row, tile_col, H::kAlpha, kAlpha)) {
      transform_input_tile<H, W>(reader.at(row, tile_col), reader.row_stride(), reader.col_stride(),
                                 place(tile), position_stride);
    } else {
      reader.read_rectangle(row, tile_col, H::kAlpha, kAlpha, strip);
      transform_input_tile<H, W>(strip, kAlpha * kBlock, kBlock, place(tile), position_stride);
    }
  }
}

/// Some of the group's tiles and channel blocks; v: the group's slot.
template <class T>
void input_blocks(const TaskArgs& args, const Extents& extents, std::uint32_t group,
                  const BlockRange& part, const BlockRange& blocks, float* v, std::byte* scratch) {
  const WinogradTiles& tiles = *args.tiling->tiles();
  const TileOrder order(*args.tiling, group);
  float* const strip = reinterpret_cast<float*>(scratch);
  with_winograd(tiles, [&](auto h, auto w) {
    using H = decltype(h);
    using W = decltype(w);
    for (Size tile = part.first; tile < part.last;) {
      const TileOrder::Run run =
          order.run(tile, min_of(part.last - tile, kStripCols / (W::kM * W::kStride)));
      for (Size cb = blocks.first; cb < blocks.last; ++cb) {
        const PixelReader<T> reader(args, run.image, cb * kBlock,
                                    min_of(kBlock, extents.channels - cb * kBlock));
        float* const v_cb = v + cb * extents.block_stride;
        transform_input_run<H, W>(
            args.tiling->problem, reader, run,
            [&](Size i) __attribute__((always_inline)) {
              return v_cb + row_offset(extents, extents.v_panel_stride, run.row + i);
            },
            extents.position_stride, strip);
      }
      tile += run.count;
    }
  });
}

template <class T>
void input_transform(const TaskArgs& args, std::uint32_t group, std::uint32_t block,
                     std::byte* scratch) {
  const WinogradCut& cut = winograd_cut(*args.tiling);
  const Extents extents(*args.tiling);
  // block = lane block chunk * tile chunks + tile chunk
  const BlockRange part(block % cut.tile_chunks(), cut.tiles_per_transform_task,
                        TileRange(cut, group).count);
  const BlockRange blocks(block / cut.tile_chunks(), cut.channel_blocks_per_input_task,
                          extents.channel_blocks);
  input_blocks<T>(args, extents, group, part, blocks,
                  args.v + group % cut.window.v_slots * extents.v_slot, scratch);
}

}  // namespace megaconv::cpu::MEGACONV_ISA
