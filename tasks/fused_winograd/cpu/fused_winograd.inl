// SPDX-License-Identifier: Apache-2.0
// x, U -> y: a task group through all three stages, with V and M in the worker's scratch.
#pragma once

#include "tasks/winograd/cpu/gemm.inl"
#include "tasks/winograd/cpu/input_transform.inl"
#include "tasks/winograd/cpu/output_transform.inl"

namespace megaconv::cpu::MEGACONV_ISA {

template <class T>
void fused_winograd(const TaskArgs& args, std::uint32_t group, std::byte* scratch) {
  const Extents extents(*args.tiling);
  float* const v = reinterpret_cast<float*>(scratch + extents.v_at);
  float* const m = reinterpret_cast<float*>(scratch + extents.m_at);
  const BlockRange tiles{0, TileRange(*args.tiling->tiles(), group).count};
  input_blocks<T>(args, extents, group, tiles, {0, extents.channel_blocks}, v, scratch);
  // Few filters at a time: their M stays in the cache, and leaves it to V, so that U is read for
  // more tiles.
  for (Size kb = 0; kb < extents.filter_blocks; kb += extents.m_blocks) {
    const BlockRange blocks(kb, min_of(kb + extents.m_blocks, extents.filter_blocks));
    gemm_blocks(args, extents, group, {0, extents.num_positions}, blocks, v, m, scratch);
    output_blocks<T>(args, extents, group, tiles, blocks, m, scratch);
  }
}

}  // namespace megaconv::cpu::MEGACONV_ISA
