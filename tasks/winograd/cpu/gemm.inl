// SPDX-License-Identifier: Apache-2.0
// V, U -> M for some positions and some filter blocks of a task group.
#pragma once

#include "tasks/cpu/kernels.hpp"
#include "tasks/cpu/micro_kernel.inl"
#include "tasks/winograd/cpu/input_transform.inl"

namespace megaconv::cpu::MEGACONV_ISA {

/// Most channel blocks that are summed from zero before they are added to the rest: the rounding
/// error grows with the root of their number. Zen 4, relative L2 error of n4c256h56k256: 1.2e-6 in
/// one sum, 8.5e-7 with 8 blocks; at 2 % of the time.
inline constexpr Size kMostSumBlocks = 8;

/// Some positions and filter blocks. v: the group's slot; m: the first of the blocks in its slot.
inline void gemm_blocks(const TaskArgs& args, const Extents& extents, std::uint32_t group,
                        const BlockRange& positions, const BlockRange& blocks, const float* v,
                        float* m, std::byte* scratch) {
  const TileOrder order(*args.tiling, group);
  Panel* const panels = reinterpret_cast<Panel*>(scratch + extents.panels_at);
  for (Size cb = 0; cb < extents.channel_blocks; ++cb) {
    panels[cb] = {cb * extents.block_stride, min_of(kBlock, extents.channels - cb * kBlock)};
  }
  const Size u_block = extents.channels * kBlock;
  const auto u_at = [&](Size p, Size kb) {
    return args.u + (p * extents.filter_blocks + kb) * u_block;
  };
  const Size sum_blocks =
      ceil_div(extents.channel_blocks, ceil_div(extents.channel_blocks, kMostSumBlocks));
  for (Size p = positions.first; p < positions.last; ++p) {
    const TileOrder::Rows rows = order.rows_of(p);
    const Size num_rows = rows.last - rows.first;
    const Size first_panel = rows.first / extents.panel_tiles;
    const Size first_row = rows.first % extents.panel_tiles;
    // Of the next filters every kernel fetches a block. When the first one fetches all, a
    // core's requests to the L3 pile up. Sapphire Rapids, 28 tiles, U from the L3, GFLOP/s: 256
    // channels and filters 177, 206; 512 of them 159, 200. Without fetching 174 and 178.
    const Size fetch_lines = num_rows > kMaxRows ? 1 : kMaxBlocks;
    for (Size kb = blocks.first; kb < blocks.last; kb += kMaxBlocks) {
      const Size num_blocks = min_of(kMaxBlocks, blocks.last - kb);
      const float* const v_rows = v + p * extents.position_stride;
      const float* const first_v =
          v_rows + first_panel * extents.v_panel_stride + first_row * kBlock;
      float* const m_rows =
          m + (kb - blocks.first) * extents.block_stride + p * extents.position_stride;
      const float* const next_u = kb + kMaxBlocks < blocks.last ? u_at(p, kb + kMaxBlocks)
                                  : p + 1 < positions.last      ? u_at(p + 1, blocks.first)
                                                                : nullptr;
      // Some channels for all panels, so that U stays in the L1: with 512 channels 1.01 to 1.03.
      for (Size cb = 0; cb < extents.channel_blocks; cb += sum_blocks) {
        const Size u = cb * kBlock * kBlock;
        const float* fetched = next_u;
        Size unfetched = next_u != nullptr ? kMaxBlocks : 0;
        // After these channels: others of the same tiles, for the next filters, or of the next
        // position.
        const bool last_cb = cb + sum_blocks >= extents.channel_blocks;
        const bool last_kb = last_cb && kb + kMaxBlocks >= blocks.last;
        const float* const after = first_v + panels[last_cb ? 0 : cb + sum_blocks].offset +
                                   (last_kb ? extents.position_stride : 0);
        Size panel = first_panel, row = first_row;
        for (Size left = num_rows; left > 0;) {
          const Size count = first_rows(min_of(left, extents.panel_tiles - row));
          const float* const a = v_rows + panel * extents.v_panel_stride + row * kBlock;
          const float* const next_rows = row + count == extents.panel_tiles
                                             ? v_rows + (panel + 1) * extents.v_panel_stride
                                             : a + count * kBlock;
          multiply_few_rows<FloatProduct>(
              {
                  .a = a,
                  .panels = panels + cb,
                  .num_panels = min_of(sum_blocks, extents.channel_blocks - cb),
                  .u = u_at(p, kb) + u,
                  .u_block = u_block,
                  .out = m_rows + panel * extents.m_panel_stride + row * kBlock,
                  .out_block = extents.block_stride,
                  .next_u = unfetched > 0 ? fetched + u * fetch_lines : nullptr,
                  .fetch_lines = fetch_lines,
                  .next_a = left > count ? next_rows + panels[cb].offset : after,
                  .adds = cb > 0,
              },
              count, num_blocks);
          unfetched -= fetch_lines;
          if (unfetched > 0) fetched += u_block;
          left -= count;
          row += count;
          if (row == extents.panel_tiles) {
            row = 0;
            ++panel;
          }
        }
      }
    }
  }
}

/// Block j of the task is filter chunk j / position_chunks, position chunk j % position_chunks.
inline void gemm(const TaskArgs& args, std::uint32_t group, std::uint32_t block,
                 std::byte* scratch) {
  const WinogradCut& cut = winograd_cut(*args.tiling);
  const Extents extents(*args.tiling);
  const Size position_chunks = ceil_div(extents.num_positions, cut.positions_per_gemm_task);
  const BlockRange positions(block % position_chunks, cut.positions_per_gemm_task,
                             extents.num_positions);
  const BlockRange blocks(block / position_chunks, cut.filter_blocks_per_gemm_task,
                          extents.filter_blocks);
  gemm_blocks(
      args, extents, group, positions, blocks, args.v + group % cut.window.v_slots * extents.v_slot,
      args.m + group % cut.window.m_slots * extents.m_slot + blocks.first * extents.block_stride,
      scratch);
}

}  // namespace megaconv::cpu::MEGACONV_ISA
