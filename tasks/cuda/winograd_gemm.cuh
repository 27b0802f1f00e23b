// SPDX-License-Identifier: Apache-2.0
// GEMM tasks of Winograd: M[p][tile][k] = sum over c of V[p][c][tile] U[p][c][k], for some
// positions p and one chunk of filters. V and U are laid out for it: what the task reads of either
// is one contiguous run, over all its positions. The steps of all positions form one pipeline:
// while the last channels of a position are multiplied, the first of the next are on their way.
#pragma once

#include "tasks/cuda/simt_tile.cuh"
#include "tasks/cuda/winograd_transforms.cuh"

namespace megaconv::cuda {

template <int kM, Layout kLayout, int kTiles, int kFilters>
struct WinogradGemm {
  using Tile = SimtTile<kTiles, kFilters>;
  using Shared = typename Tile::Shared;
  static constexpr int kPositions = (kM + kWinogradR - 1) * (kM + kWinogradR - 1);

  /// block = filter chunk * position chunks + position chunk.
  static __device__ void run(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                             Shared& shared) {
    const Part part(a, block);
    const int steps_per_position = a.c_padded / Tile::kDepth;
    const int num_steps = part.num_positions * steps_per_position;
    const std::int64_t first_v =
        static_cast<std::int64_t>(group % a.v_slots) * kPositions + part.first_position;
    const std::int64_t first_u =
        static_cast<std::int64_t>(part.chunk) * kPositions + part.first_position;
    const float* v = a.v + first_v * a.c_padded * kTiles;
    const float* u = a.u + first_u * a.c_padded * kFilters;

    typename Tile::Pipeline pipeline(shared.pipeline);
    const auto start = [&](int step) {
      Tile::start(pipeline, shared, step < num_steps, v, u);
      v += Tile::kDepth * kTiles;
      u += Tile::kDepth * kFilters;
    };
    for (int step = 0; step < Tile::kStages - 1; ++step) start(step);
    typename Tile::Sums sums;
    sums.clear();
    int next_position_step = steps_per_position;
    for (int step = 0; step < num_steps;) {
      pipeline.wait();
      start(step + Tile::kStages - 1);
      Tile::multiply(shared, pipeline.stage(), sums);
      if (++step == next_position_step) {
        store_sums(a, sums, group, block, step / steps_per_position - 1);
        sums.clear();
        next_position_step += steps_per_position;
      }
    }
    pipeline.close();
  }

 private:
  // What a block of a group is.
  struct Part {
    int first_position, num_positions, chunk;
    __device__ Part(const TaskArgs& a, std::uint32_t block) {
      const int position_chunks =
          (kPositions + a.positions_per_gemm_task - 1) / a.positions_per_gemm_task;
      first_position = static_cast<int>(block) % position_chunks * a.positions_per_gemm_task;
      num_positions = min(a.positions_per_gemm_task, kPositions - first_position);
      chunk = static_cast<int>(block) / position_chunks;
    }
  };

  static __device__ void store_sums(const TaskArgs& a, const typename Tile::Sums& sums,
                                    std::uint32_t group, std::uint32_t block, int position) {
    // All that a store needs is computed here anew; kept from one to the next, it would take
    // registers from the sums.
    asm volatile("" : "+r"(block), "+r"(group));
    const Part part(a, block);
    const int first_k = part.chunk * a.filters_per_gemm_task;
    const int num_k = min(a.filters_per_gemm_task, a.k_padded - first_k);
    const int num_tiles = tiles_in_group(a, static_cast<int>(group));
    const MStrides strides = m_strides<kLayout>(a);
    float* const m =
        a.m + (group % a.m_slots * kPositions + part.first_position + position) * strides.position +
        first_k * strides.filter;
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
            store(m + row + (filter + l) * strides.filter,
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
