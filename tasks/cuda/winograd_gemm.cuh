// SPDX-License-Identifier: Apache-2.0
// GEMM tasks of Winograd: M[p][tile][k] = sum over c of V[p][tile][c] U[p][c][k], for some
// positions p and one block of filters. The steps of all positions form one pipeline: while the
// last channels of a position are multiplied, the first of the next are already on their way.
#pragma once

#include <type_traits>

#include "tasks/cuda/simt_tile.cuh"
#include "tasks/cuda/winograd_transforms.cuh"

namespace megaconv::cuda {

template <int kM, Layout kLayout, int kTiles, int kFilters>
struct WinogradGemm {
  using Tile = SimtTile<kTiles, kFilters>;
  using Shared = typename Tile::Shared;
  using TileBlock =
      std::conditional_t<kLayout == Layout::nchw, typename Tile::template StraightBlock<kTiles>,
                         typename Tile::template TurnedBlock<kTiles>>;
  using FilterBlock = typename Tile::template StraightBlock<kFilters>;
  static constexpr int kPositions = (kM + kWinogradR - 1) * (kM + kWinogradR - 1);

  /// block = filter chunk * position chunks + position chunk.
  static __device__ void run(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                             Shared& shared) {
    const int position_chunks =
        (kPositions + a.positions_per_gemm_task - 1) / a.positions_per_gemm_task;
    const int first_position =
        static_cast<int>(block) % position_chunks * a.positions_per_gemm_task;
    const int end_position = min(first_position + a.positions_per_gemm_task, kPositions);
    const int first_k = static_cast<int>(block) / position_chunks * a.filters_per_gemm_task;
    const int num_k = min(a.filters_per_gemm_task, a.k_padded - first_k);
    const int num_tiles = tiles_in_group(a, static_cast<int>(group));
    const int steps_per_position = a.c_padded / Tile::kDepth;
    const int num_steps = (end_position - first_position) * steps_per_position;

    const SlotStrides v_strides = slot_strides<kLayout>(a, a.c_padded);
    const SlotStrides m_strides = slot_strides<kLayout>(a, a.k_padded);
    const float* v = a.v + (group % a.v_slots * kPositions + first_position) * v_strides.position;
    const float* u = a.u + static_cast<std::int64_t>(first_position) * a.c * a.k_padded + first_k;
    float* m = a.m + (group % a.m_slots * kPositions + first_position) * m_strides.position +
               first_k * m_strides.channel;

    TileBlock tile_block;
    FilterBlock filter_block;
    int load_channel = 0;  // of the position that is being loaded
    const auto start_load = [&](int buffer) {
      if constexpr (kLayout == Layout::nchw) {
        tile_block.start(shared.a[buffer], v + load_channel * v_strides.channel, v_strides.channel,
                         Tile::kDepth, num_tiles);
      } else {
        tile_block.start(v + load_channel, v_strides.tile, num_tiles);
      }
      filter_block.start(shared.b[buffer], u + static_cast<std::int64_t>(load_channel) * a.k_padded,
                         a.k_padded, a.c - load_channel, num_k);
      __pipeline_commit();
      load_channel += Tile::kDepth;
      if (load_channel == a.c_padded) {
        load_channel = 0;
        v += v_strides.position;
        u += static_cast<std::int64_t>(a.c) * a.k_padded;
      }
    };

    typename Tile::Sums sums;
    sums.clear();
    start_load(0);
    tile_block.finish(shared.a[0]);
    int position_step = 0;
    for (int step = 0; step < num_steps; ++step) {
      const int buffer = step % 2;
      __pipeline_wait_prior(0);
      __syncthreads();
      const bool more = step + 1 < num_steps;
      if (more) start_load(1 - buffer);
      Tile::multiply(shared, buffer, sums);
      if (more) tile_block.finish(shared.a[1 - buffer]);
      if (++position_step == steps_per_position) {
        store_sums(sums, m, m_strides, num_tiles, num_k);
        sums.clear();
        position_step = 0;
        m += m_strides.position;
      }
    }
  }

 private:
  static __device__ void store_sums(const typename Tile::Sums& sums, float* m,
                                    const SlotStrides& strides, int num_tiles, int num_k) {
#pragma unroll
    for (int i = 0; i < Tile::kThreadRows; i += 4) {
#pragma unroll
      for (int j = 0; j < Tile::kThreadFilters; j += 4) {
        const int row = Tile::row(i), filter = Tile::filter(j);
        if (filter >= num_k) continue;
#pragma unroll
        for (int l = 0; l < 4; ++l) {
          if constexpr (kLayout == Layout::nchw) {
            if (row >= num_tiles) continue;
            store(m + row + (filter + l) * strides.channel,
                  Vec<4>{{sums.value[i][j + l], sums.value[i + 1][j + l], sums.value[i + 2][j + l],
                          sums.value[i + 3][j + l]}});
          } else {
            if (row + l >= num_tiles) continue;
            store(m + (row + l) * strides.tile + filter,
                  Vec<4>{{sums.value[i + l][j], sums.value[i + l][j + 1], sums.value[i + l][j + 2],
                          sums.value[i + l][j + 3]}});
          }
        }
      }
    }
  }
};

}  // namespace megaconv::cuda
