// SPDX-License-Identifier: Apache-2.0
// M -> y: A^T M A of every tile of a task group, for some filter blocks, with the epilogue.
#pragma once

#include "tasks/cpu/kernels.hpp"
#include "tasks/cpu/pixels.inl"
#include "tasks/winograd/cpu/input_transform.inl"
#include "tasks/winograd/cpu/winograd_1d.inl"

namespace megaconv::cpu::MEGACONV_ISA {

/// One tile: m[position] to H::kM x W::kM pixels, rows `row_stride` floats apart.
template <class H, class W>
void transform_output_tile(const float* m, Size position_stride, float* pixels, Size row_stride) {
  unroll<kBlockVecs>([&](auto part) __attribute__((always_inline)) {
    Vec columns[W::kAlpha][H::kM];  // (A^T M)^T
    for (int j = 0; j < W::kAlpha; ++j) {
      Vec in[H::kAlpha];
      unroll<H::kAlpha>([&](auto i) __attribute__((always_inline)) {
        in[i] = load(m + (i * W::kAlpha + j) * position_stride + part * kLanes);
      });
      output_1d<H>(in, columns[j]);
    }
    for (int i = 0; i < H::kM; ++i) {
      Vec in[W::kAlpha], out[W::kM];
      unroll<W::kAlpha>([&](auto j) __attribute__((always_inline)) { in[j] = columns[j][i]; });
      output_1d<W>(in, out);
      unroll<W::kM>([&](auto j) __attribute__((always_inline)) {
        store(pixels + i * row_stride + j * kBlock + part * kLanes, out[j]);
      });
    }
  });
}

/// An edge tile: m[position] to so many pixels.
template <class H, class W>
void transform_edge_output(Size outputs_h, Size outputs_w, const float* m, Size position_stride,
                           float* pixels, Size row_stride) {
  constexpr int kAlpha = W::kAlpha;
  alignas(64) float lines[H::kM * kAlpha * kBlock];  // [row of pixels][position of a column]
  Size col_positions[kAlpha], num_cols = 0;
  with_outputs<W>(outputs_w, [&](auto s) {
    using S = decltype(s);
    num_cols = S::kAlpha;
    for (int j = 0; j < S::kAlpha; ++j) col_positions[j] = S::position(j);
  });
  with_outputs<H>(outputs_h, [&](auto r) {
    using R = decltype(r);
    for (Size j = 0; j < num_cols; ++j) {
      const float* const m_col = m + col_positions[j] * position_stride;
      for (Size lane = 0; lane < kBlock; lane += kLanes) {
        Vec in[R::kAlpha], out[R::kM];
        unroll<R::kAlpha>([&](auto i) __attribute__((always_inline)) {
          in[i] = load(m_col + R::position(i) * kAlpha * position_stride + lane);
        });
        output_1d<R>(in, out);
        unroll<R::kM>([&](auto i) __attribute__((always_inline)) {
          store(lines + (i * num_cols + j) * kBlock + lane, out[i]);
        });
      }
    }
  });
  with_outputs<W>(outputs_w, [&](auto s) {
    using S = decltype(s);
    for (Size i = 0; i < outputs_h; ++i) {
      for (Size lane = 0; lane < kBlock; lane += kLanes) {
        Vec in[S::kAlpha], out[S::kM];
        unroll<S::kAlpha>([&](auto j) __attribute__((always_inline)) {
          in[j] = load(lines + (i * S::kAlpha + j) * kBlock + lane);
        });
        output_1d<S>(in, out);
        unroll<S::kM>([&](auto j) __attribute__((always_inline)) {
          store(pixels + i * row_stride + j * kBlock + lane, out[j]);
        });
      }
    }
  });
}

/// Some of the group's tiles and filter blocks; m: the first of the blocks in the group's slot.
template <class T>
void output_blocks(const TaskArgs& args, const Extents& extents, std::uint32_t group,
                   const BlockRange& part, const BlockRange& blocks, const float* m,
                   std::byte* scratch) {
  const WinogradTiles& tiles = *args.tiling->tiles();
  const TileOrder order(*args.tiling, group);
  float* const strip = reinterpret_cast<float*>(scratch);
  with_winograd(tiles, [&](auto h, auto w) {
    using H = decltype(h);
    using W = decltype(w);
    for (Size tile = part.first; tile < part.last;) {
      const TileOrder::Run run =
          order.run(tile, min_of(part.last - tile, kStripCols / (W::kM * W::kStride)));
      const Size row = run.tile_row * H::kM, col = run.tile_col * W::kM;
      const Size rows = min_of(H::kM, extents.p - row);
      const Size cols = min_of(run.count * W::kM, extents.q - col);
      const Size strip_row = run.count * W::kM * kBlock;
      const bool edge = run.outputs_h < H::kM || run.outputs_w < W::kM;
      for (Size kb = blocks.first; kb < blocks.last; ++kb) {
        for (Size i = 0; i < run.count; ++i) {
          const float* const m_tile = m + (kb - blocks.first) * extents.block_stride +
                                      row_offset(extents, extents.m_panel_stride, run.row + i);
          float* const pixels = strip + i * W::kM * kBlock;
          if (edge) {
            transform_edge_output<H, W>(run.outputs_h, run.outputs_w, m_tile,
                                        extents.position_stride, pixels, strip_row);
          } else {
            transform_output_tile<H, W>(m_tile, extents.position_stride, pixels, strip_row);
          }
        }
        const PixelWriter<T> writer(args, extents, run.image, kb * kBlock,
                                    min_of(kBlock, extents.filters - kb * kBlock));
        for (Size i = 0; i < rows; ++i) writer.write_row(strip + i * strip_row, row + i, col, cols);
      }
      tile += run.count;
    }
  });
  end_streaming();
}

template <class T>
void output_transform(const TaskArgs& args, std::uint32_t group, std::uint32_t block,
                      std::byte* scratch) {
  const WinogradCut& cut = winograd_cut(*args.tiling);
  const Extents extents(*args.tiling);
  // block = lane block chunk * tile chunks + tile chunk
  const BlockRange part(block % cut.tile_chunks(), cut.tiles_per_transform_task,
                        TileRange(cut, group).count);
  const BlockRange blocks(block / cut.tile_chunks(), cut.filter_blocks_per_output_task,
                          extents.filter_blocks);
  output_blocks<T>(
      args, extents, group, part, blocks,
      args.m + group % cut.window.m_slots * extents.m_slot + blocks.first * extents.block_stride,
      scratch);
}

}  // namespace megaconv::cpu::MEGACONV_ISA
