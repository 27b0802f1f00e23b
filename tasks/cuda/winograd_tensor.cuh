// SPDX-License-Identifier: Apache-2.0
// Filter, input and output transform tasks for tensor cores: V and U are FP16 operands of a tensor
// tile. The transforms themselves are those of winograd_transforms.cuh, in FP32 and double; only
// what becomes of their results differs. x and w are scaled by guesses (scale_guess.cuh).
//
//   V, U   by positions, operands of Tile (TensorOperand); behind U a FilterFooter
#pragma once

#include <cuda/ptx>

#include "tasks/cuda/scale_guess.cuh"
#include "tasks/cuda/tensor_tile.cuh"
#include "tasks/cuda/winograd_transforms.cuh"

namespace megaconv::cuda {

/// What filter tasks leave behind U.
struct FilterFooter {
  float scale;                              ///< of U
  std::uint32_t tasks_taken, tasks_redone;  ///< whoever computes U again counts here
  MagnitudeBits most[1];                    ///< [filter tasks] largest |U| of each
};

template <int kM, Points kPoints, Layout kLayout, class Tile, class Stored>
struct WinogradTensorTransforms {
  static constexpr int kThreads = Tile::kThreads;
  using Operand = typename Tile::Operand;
  using Base = WinogradTransforms<kM, kPoints, kLayout, kThreads, Stored>;
  static constexpr int kPositions = Base::kPositions;

  // V and U in [least, most) keep all bits: of split numbers the low halves, too, of what is 2^5
  // times smaller. The guesses suit |V| from 1 to 2^13 and |U| from 2^-7 to 2^6, single numbers 2^5
  // less as well.
  static constexpr float kLeast = Operand::kParts == 2 ? 0x1p3f : 0x1p-2f, kMost = 0x1p16f;
  static constexpr ScaleGuess kInputGuess{0x1p3f, kLeast, kMost};
  static constexpr ScaleGuess kFilterGuess{0x1p10f, kLeast, kMost};

  /// Elements of a position of V or U.
  static __device__ std::int64_t position_stride(const TaskArgs& a, int rows) {
    return static_cast<std::int64_t>(a.c_padded) * rows * Operand::kParts;
  }
  static __device__ FilterFooter& footer(const TaskArgs& a) {
    const int chunks = (a.k_padded + a.filters_per_gemm_task - 1) / a.filters_per_gemm_task;
    return *reinterpret_cast<FilterFooter*>(
        reinterpret_cast<__half*>(a.u) + chunks * kPositions * position_stride(a, Tile::kFilters));
  }

  static __device__ void filter(const TaskArgs& a, std::uint32_t block) {
    const typename Base::FilterChunk chunk(a, block);
    const std::int64_t stride = position_stride(a, Tile::kFilters);
    LargestFinite most;
    // 8 neighbouring threads take 8 neighbouring channels of one filter.
    for (int item = threadIdx.x; item < chunk.num_k * chunk.num_c; item += kThreads) {
      const int k = chunk.first_k + item / 8 % chunk.num_k;
      const int c = chunk.first_c + item / 8 / chunk.num_k * 8 + item % 8;
      __half* u = reinterpret_cast<__half*>(a.u) +
                  k / a.filters_per_gemm_task * kPositions * stride +
                  Operand::octet(c / 8, Tile::kFilters) +
                  Tile::column(k % a.filters_per_gemm_task) * 8 + c % 8;
      Base::transform_filter(a, k, c, [&](int, float value) {
        most.add(value);
        put_number(u, Operand::next_part(Tile::kFilters), value * a.w_scale);
        u += stride;
      });
    }
    publish_to_copy_engine();
    note_magnitude<kThreads>(most, &footer(a).most[block]);
    if (block == 0 && threadIdx.x == 0) footer(a).scale = a.w_scale;
  }

  /// V of some channels of some tiles on their way to memory, collected in shared memory so that
  /// the copy engine writes long runs. Neighbouring threads take what lies side by side in x:
  /// channels in NHWC, else tiles, whose rows are a sector of memory each.
  struct Patch {
    static constexpr int kOctets = kLayout == Layout::nchw ? 1 : 2, kTiles = 64 / kOctets;
    static constexpr int kWarpChannels = kLayout == Layout::nchw ? 4 : 16;
    static constexpr int kWarpTiles = 32 / kWarpChannels;
    __half value[kPositions][Operand::kParts][kOctets][kTiles][8];
  };
  // While one is written to memory, the next is computed, if both fit.
  static constexpr int kPatches = 2 / Operand::kParts;
  static constexpr int kPatchBytes = kPatches * static_cast<int>(sizeof(Patch));

  static __device__ void input(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                               std::byte* shared) {
    const typename Base::TileChunk tiles(a, static_cast<int>(group), static_cast<int>(block));
    const int chunk = static_cast<int>(block) / a.tile_chunks;
    const int first_octet = chunk * a.channels_per_input_task / 8;
    const bool last = chunk + 1 == a.input_channel_chunks;
    const int end_octet = last ? a.c_padded / 8 : first_octet + a.channels_per_input_task / 8;
    Patch* const patches = reinterpret_cast<Patch*>(shared);
    const int patches_down = (tiles.count + Patch::kTiles - 1) / Patch::kTiles;
    const int num_patches = patches_down * ((end_octet - first_octet) / Patch::kOctets);
    const bool writer = threadIdx.x < 32;
    LargestFinite most;
    for (int i = 0; i < num_patches; ++i) {
      Patch& patch = patches[i % kPatches];
      const int tile = i % patches_down * Patch::kTiles;
      const int octet = first_octet + i / patches_down * Patch::kOctets;
      if (writer) {
        ::cuda::ptx::cp_async_bulk_wait_group_read(::cuda::ptx::n32_t<kPatches - 1>{});
      }
      __syncthreads();
      fill(a, patch, static_cast<int>(group) * a.group_tiles + tiles.first + tile,
           tiles.count - tile, octet * 8, most);
      ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
      __syncthreads();
      if (writer) write(a, patch, group, tiles.first + tile, tiles.count - tile, octet);
    }
    if (writer) {
      ::cuda::ptx::cp_async_bulk_wait_group(::cuda::ptx::n32_t<0>{});
      publish_to_copy_engine();
    }
    const std::uint32_t input_tasks = static_cast<std::uint32_t>(a.tile_chunks) *
                                      static_cast<std::uint32_t>(a.input_channel_chunks);
    note_magnitude<kThreads>(most, &a.x_magnitudes[group * input_tasks + block]);
  }

  static __device__ void output(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
    const float of_input = 1.0f / a.x_scale, of_filter = 1.0f / footer(a).scale;
    // The smaller factor first: no step overflows where the result does not.
    const float first = fminf(of_input, of_filter), second = fmaxf(of_input, of_filter);
    Base::output(a, group, block, [=](float sum) { return sum * first * second; });
  }

 private:
  // Number of an operand, its parts `next_part` elements apart.
  static __device__ void put_number(__half* to, int next_part, float scaled) {
    if constexpr (Operand::kParts == 2) {
      const SplitHalves halves = split(scaled);
      to[0] = halves.hi;
      to[next_part] = halves.lo;
    } else {
      to[0] = __float2half_rn(scaled);
    }
  }

  // The first num_tiles of a patch, from `first_tile` of all and from channel first_c on.
  static __device__ void fill(const TaskArgs& a, Patch& patch, int first_tile, int num_tiles,
                              int first_c, LargestFinite& most) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    constexpr bool kTilesFirst = Base::kTilesSideBySide;
    constexpr int kWarps = kThreads / 32, kUnitsDown = Patch::kTiles / Patch::kWarpTiles;
    constexpr int kUnits = kUnitsDown * Patch::kOctets * 8 / Patch::kWarpChannels;
    for (int unit = static_cast<int>(threadIdx.x) / 32; unit < kUnits; unit += kWarps) {
      const int tile = unit % kUnitsDown * Patch::kWarpTiles +
                       (kTilesFirst ? lane % Patch::kWarpTiles : lane / Patch::kWarpChannels);
      const int c = unit / kUnitsDown * Patch::kWarpChannels +
                    (kTilesFirst ? lane / Patch::kWarpTiles : lane % Patch::kWarpChannels);
      if (tile >= num_tiles) continue;
      __half* const to = &patch.value[0][0][c / 8][tile][c % 8];
      Base::template transform_tile<1>(
          a, first_tile + tile, first_c + c, [&](int position, Vec<1> value) {
            most.add(value.lane[0]);
            put_number(to + position * sizeof(patch.value[0]) / sizeof(__half),
                       sizeof(patch.value[0][0]) / sizeof(__half), value.lane[0] * a.x_scale);
          });
    }
  }

  // Hands the first num_tiles of a patch to the copy engine; by one warp.
  static __device__ void write(const TaskArgs& a, const Patch& patch, std::uint32_t group,
                               int tile_in_group, int num_tiles, int first_octet) {
    const auto num_bytes = static_cast<std::uint32_t>(min(num_tiles, Patch::kTiles) * 16);
    const std::int64_t stride = position_stride(a, Tile::kRows);
    __half* const slot = reinterpret_cast<__half*>(a.v) + group % a.v_slots * kPositions * stride;
    constexpr int kRuns = kPositions * Operand::kParts * Patch::kOctets;
    for (int run = static_cast<int>(threadIdx.x); run < kRuns; run += 32) {
      const int octet = run % Patch::kOctets, part = run / Patch::kOctets % Operand::kParts;
      const int position = run / Patch::kOctets / Operand::kParts;
      ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_global, ::cuda::ptx::space_shared,
                                 slot + position * stride +
                                     Operand::octet(first_octet + octet, Tile::kRows) +
                                     part * Operand::next_part(Tile::kRows) + tile_in_group * 8,
                                 &patch.value[position][part][octet], num_bytes);
    }
    ::cuda::ptx::cp_async_bulk_commit_group();
  }
};

}  // namespace megaconv::cuda
