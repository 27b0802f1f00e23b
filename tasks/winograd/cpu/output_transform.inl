// SPDX-License-Identifier: Apache-2.0
// M -> y: A^T M A of every tile of a task group, for some filter blocks, with the epilogue.
#pragma once

#include "tasks/cpu/kernels.hpp"
#include "tasks/cpu/pixels.inl"
#include "tasks/winograd/cpu/input_transform.inl"
#include "tasks/winograd/cpu/winograd_1d.inl"

namespace megaconv::cpu::MEGACONV_ISA {

/// One tile: m[position] to kM x kM pixels, rows `row_stride` floats apart.
template <class W>
void transform_output_tile(const float* m, Size position_stride, float* pixels, Size row_stride) {
  unroll<kBlockVecs>([&](auto part) __attribute__((always_inline)) {
    Vec columns[W::kAlpha][W::kM];  // (A^T M)^T
    for (int j = 0; j < W::kAlpha; ++j) {
      Vec in[W::kAlpha];
      unroll<W::kAlpha>([&](auto i) __attribute__((always_inline)) {
        in[i] = load(m + (i * W::kAlpha + j) * position_stride + part * kLanes);
      });
      output_1d<W>(in, columns[j]);
    }
    for (int i = 0; i < W::kM; ++i) {
      Vec in[W::kAlpha], out[W::kM];
      unroll<W::kAlpha>([&](auto j) __attribute__((always_inline)) { in[j] = columns[j][i]; });
      output_1d<W>(in, out);
      unroll<W::kM>([&](auto j) __attribute__((always_inline)) {
        store(pixels + i * row_stride + j * kBlock + part * kLanes, out[j]);
      });
    }
  });
}

/// Some of the group's tiles and filter blocks; m: the first of the blocks in the group's slot.
template <class T>
void output_blocks(const TaskArgs& args, const Extents& extents, std::uint32_t group,
                   const BlockRange& part, const BlockRange& blocks, const float* m,
                   std::byte* scratch) {
  const WinogradTiles& tiles = *args.tiling->tiles();
  const Size first_tile = TileRange(tiles, group).first;
  float* const strip = reinterpret_cast<float*>(scratch);
  with_winograd(tiles, [&](auto winograd) {
    using W = decltype(winograd);
    for (Size tile = part.first; tile < part.last;) {
      const TileRun run(tiles, first_tile + tile, part.last - tile);
      const Size row = run.tile_row * W::kM, col = run.tile_col * W::kM;
      const Size rows = min_of(W::kM, extents.p - row);
      const Size cols = min_of(run.count * W::kM, extents.q - col);
      const Size strip_row = run.count * W::kM * kBlock;
      for (Size kb = blocks.first; kb < blocks.last; ++kb) {
        for (Size i = 0; i < run.count; ++i) {
          transform_output_tile<W>(m + (kb - blocks.first) * extents.block_stride +
                                       tile_offset(extents, extents.m_panel_stride, tile + i),
                                   extents.position_stride, strip + i * W::kM * kBlock, strip_row);
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
