// SPDX-License-Identifier: Apache-2.0
// V, U -> M for some positions and some filter blocks of a task group.
#pragma once

#include "tasks/cpu/kernels.hpp"
#include "tasks/cpu/micro_kernel.inl"

namespace megaconv::cpu::MEGACONV_ISA {

/// Block j of the task is filter chunk j / position_chunks, position chunk j % position_chunks.
inline void gemm(const TaskArgs& args, std::uint32_t group, std::uint32_t block,
                 std::byte* scratch) {
  const Tiling& tiling = *args.tiling;
  const Extents extents(tiling);
  const Size num_rows = TileRange(tiling, extents, group).count;
  const Size position_chunks = ceil_div(extents.num_positions, tiling.positions_per_gemm_task);
  const BlockRange positions(block % position_chunks, tiling.positions_per_gemm_task,
                             extents.num_positions);
  const BlockRange blocks(block / position_chunks, tiling.filter_blocks_per_gemm_task,
                          extents.filter_blocks);

  const Size panel = static_cast<Size>(tiling.group_tiles) * kBlock;
  Panel* const panels = reinterpret_cast<Panel*>(scratch + extents.panels_at);
  for (Size cb = 0; cb < extents.channel_blocks; ++cb) {
    panels[cb] = {cb * panel, min_of(kBlock, extents.channels - cb * kBlock)};
  }

  const Size v_position = extents.channel_blocks * panel;
  const Size m_position = extents.filter_blocks * panel;
  const float* const v = args.v + group % tiling.v_slots * extents.num_positions * v_position;
  float* const m = args.m + group % tiling.m_slots * extents.num_positions * m_position;
  const Size u_block = extents.channels * kBlock;
  for (Size p = positions.first; p < positions.last; ++p) {
    for (Size kb = blocks.first; kb < blocks.last; kb += kMaxBlocks) {
      const MicroArgs micro{
          .a = v + p * v_position,
          .panels = panels,
          .num_panels = extents.channel_blocks,
          .u = args.u + (p * extents.filter_blocks + kb) * u_block,
          .u_block = u_block,
          .out = m + p * m_position + kb * panel,
          .out_block = panel,
      };
      multiply_rows(micro, num_rows, min_of(kMaxBlocks, blocks.last - kb));
    }
  }
}

}  // namespace megaconv::cpu::MEGACONV_ISA
