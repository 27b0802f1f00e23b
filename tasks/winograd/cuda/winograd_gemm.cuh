// SPDX-License-Identifier: Apache-2.0
// GEMM tasks of Winograd: M[p][tile][k] = sum over c of V[p][c][tile] U[p][c][k], for some
// positions p and one chunk of filters. V and U are laid out for the tile that computes it: what
// the task reads of either is one contiguous run, over all its positions. The steps of all
// positions form one pipeline: while the last channels of a position are multiplied, the first of
// the next are on their way.
#pragma once

#include "tasks/winograd/cuda/winograd_transforms.cuh"

namespace megaconv::cuda {

/// kTile: SimtTile or TensorTile.
template <int kM, Layout kLayout, class Tile>
struct WinogradGemm {
  using Shared = typename Tile::Shared;
  static constexpr int kPositions = (kM + kWinogradR - 1) * (kM + kWinogradR - 1);

  /// block = filter chunk * position chunks + position chunk.
  static __device__ void run(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                             Shared& shared) {
    const Part part(a, block);
    const int steps_per_position = a.c_padded / Tile::kDepth;
    const int num_steps = part.num_positions * steps_per_position;
    // From a step to the next, in floats, whatever the operands are made of.
    constexpr int kNextV = sizeof(shared.a[0]) / sizeof(float);
    constexpr int kNextU = sizeof(shared.b[0]) / sizeof(float);
    const std::int64_t first_v =
        static_cast<std::int64_t>(group % a.v_slots) * kPositions + part.first_position;
    const std::int64_t first_u =
        static_cast<std::int64_t>(part.chunk) * kPositions + part.first_position;
    const float* v = a.v + first_v * steps_per_position * kNextV;
    const float* u = a.u + first_u * steps_per_position * kNextU;

    typename Tile::Pipeline pipeline(shared.pipeline);
    int next_step = 0;  // to be started
    const auto start_next = [&] {
      const int stage = pipeline.start_stage();
      pipeline.start(next_step < num_steps, {{shared.a[stage], v, sizeof(shared.a[stage])},
                                             {shared.b[stage], u, sizeof(shared.b[stage])}});
      v += kNextV;
      u += kNextU;
      ++next_step;
    };
    for (int i = 0; i < Tile::kStages - 1; ++i) start_next();
    for (int position = 0; position < part.num_positions; ++position) {
      typename Tile::Sums sums = {};
      for (int step = 0; step < steps_per_position; ++step) {
        Tile::step(pipeline, shared, sums, start_next);
      }
      Tile::finish(sums);
      store_sums(a, sums, group, block, position);
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
    const auto slot =
        slot_of_m<typename Tile::NumberOfM, kLayout>(a, group % a.m_slots, kPositions);
    Tile::store_sums(sums, slot.from(part.first_position + position, first_k, 0), num_tiles, num_k);
  }
};

}  // namespace megaconv::cuda
