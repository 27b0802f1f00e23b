// SPDX-License-Identifier: Apache-2.0
// GEMM tasks of Winograd: M[p][tile][k] = sum over c of V[p][tile][c] U[p][c][k], for some
// positions p and one block of filters. The steps of all positions form one pipeline: while the
// last channels of a position are multiplied, the first of the next are already on their way.
#pragma once

#include "tasks/cuda/simt_tile.cuh"
#include "tasks/cuda/winograd_transforms.cuh"

namespace megaconv::cuda {

template <int kM, int kTiles, int kFilters>
struct WinogradGemm {
  using Tile = SimtTile<kTiles, kFilters>;
  static constexpr int kPositions = (kM + kWinogradR - 1) * (kM + kWinogradR - 1);
  static constexpr int kSharedBytes = Tile::kSharedBytes;

  /// block = filter chunk * position chunks + position chunk.
  static __device__ void run(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                             typename Tile::Shared& shared) {
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

    const std::int64_t v_position = static_cast<std::int64_t>(a.group_tiles) * a.c_padded;
    const std::int64_t m_position = static_cast<std::int64_t>(a.group_tiles) * a.k_padded;
    const std::int64_t u_position = static_cast<std::int64_t>(a.c_padded) * a.k_padded;
    const bool row_exists = Tile::load_row() < num_tiles;
    const float* v =
        a.v +
        (static_cast<std::int64_t>(group % a.v_slots) * kPositions + first_position) * v_position +
        static_cast<std::int64_t>(Tile::load_row()) * a.c_padded + Tile::load_channel();
    const float* u = a.u + first_position * u_position + first_k;
    float* m =
        a.m +
        (static_cast<std::int64_t>(group % a.m_slots) * kPositions + first_position) * m_position +
        first_k;

    typename Tile::Staged staged;
    int load_step = 0;  // within the position that is being loaded
    const auto load_next = [&] {
#pragma unroll
      for (int i = 0; i < Tile::kRowChannels; i += 4) {
        const Vec<4> part = row_exists ? load<4>(v + i) : zero<4>();
#pragma unroll
        for (int j = 0; j < 4; ++j) staged.a[i + j] = part.lane[j];
      }
      Tile::load_filters(u, a.k_padded, num_k, staged);
      // U's positions follow each other; V's rows of one position do not reach the next.
      u += static_cast<std::int64_t>(Tile::kDepth) * a.k_padded;
      v += Tile::kDepth;
      if (++load_step == steps_per_position) {
        load_step = 0;
        v += v_position - a.c_padded;
      }
    };

    typename Tile::Sums sums;
    sums.clear();
    load_next();
    Tile::store_staged(staged, 0, shared);
    __syncthreads();
    int position_step = 0;
    for (int step = 0; step < num_steps; ++step) {
      const bool more = step + 1 < num_steps;
      if (more) load_next();
      Tile::multiply(shared, step % 2, sums);
      if (more) Tile::store_staged(staged, (step + 1) % 2, shared);
      if (++position_step == steps_per_position) {
        store_sums(a, sums, m, num_tiles, num_k);
        sums.clear();
        position_step = 0;
        m += m_position;
      }
      __syncthreads();
    }
  }

 private:
  static __device__ void store_sums(const TaskArgs& a, const typename Tile::Sums& sums, float* m,
                                    int num_tiles, int num_k) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int row = Tile::first_row() + i / 4 * Tile::kRowGap + i % 4;
      if (row >= num_tiles) continue;
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        const int filter = Tile::first_filter() + j / 4 * Tile::kFilterGap;
        if (filter >= num_k) continue;
        store(m + static_cast<std::int64_t>(row) * a.k_padded + filter,
              Vec<4>{{sums.value[i][j], sums.value[i][j + 1], sums.value[i][j + 2],
                      sums.value[i][j + 3]}});
      }
    }
  }
};

}  // namespace megaconv::cuda
