// SPDX-License-Identifier: Apache-2.0
// Transform tasks whose V and U are split FP16 operands of a tensor tile. The transforms themselves
// are those of winograd_transforms.cuh, in FP32 and double; only what becomes of their results
// differs.
//
// 4 threads hold the 8 channels that lie side by side in an operand, 8 such rows of threads its
// neighbouring tiles, so that a warp stores 128 bytes in a row.
#pragma once

#include "tasks/cuda/tensor_tile.cuh"
#include "tasks/cuda/winograd_transforms.cuh"

namespace megaconv::cuda {

template <int kM, Points kPoints, Layout kLayout, class Tile>
struct WinogradSplitTransforms {
  static constexpr int kThreads = Tile::kThreads;
  using Base = WinogradTransforms<kM, kPoints, kLayout, kThreads>;
  static constexpr int kPositions = Base::kPositions;
  static constexpr int kPatchBytes = 0;
  static constexpr int kWidth = 2;  // channels a thread

  // Largest |V| / max |x| and |U| / max |w|: squared row sums of the matrices.
  static constexpr WinogradMatrices<kM> kMatrices = winograd_matrices<kM>(kPoints);
  template <int kRows, int kCols>
  static constexpr float squared_norm(const Rational (&matrix)[kRows][kCols]) {
    double most = 0;
    for (const auto& row : matrix) {
      double sum = 0;
      for (const Rational& value : row) {
        const double number = static_cast<double>(value);
        sum += number < 0 ? -number : number;
      }
      most = sum > most ? sum : most;
    }
    return static_cast<float>(most * most);
  }
  static constexpr float kInputGain = squared_norm(kMatrices.bt);
  static constexpr float kFilterGain = squared_norm(kMatrices.g);

  static __device__ float input_scale(const TaskArgs& a) {
    return split_scale(*a.x_magnitude, kInputGain);
  }
  static __device__ float filter_scale(const TaskArgs& a) {
    return split_scale(*a.w_magnitude, kFilterGain);
  }

  static __device__ void filter(const TaskArgs& a, std::uint32_t block) {
    const typename Base::FilterChunk chunk(a, block);
    const float scale = filter_scale(a);
    const std::int64_t position_stride =
        static_cast<std::int64_t>(a.c_padded) * Tile::kFilters * SplitOperand::kParts;
    // 8 neighbouring threads take 8 neighbouring channels of one filter.
    for (int item = threadIdx.x; item < chunk.num_k * chunk.num_c; item += kThreads) {
      const int k = chunk.first_k + item / 8 % chunk.num_k;
      const int c = chunk.first_c + item / 8 / chunk.num_k * 8 + item % 8;
      __half* u = reinterpret_cast<__half*>(a.u) +
                  k / a.filters_per_gemm_task * kPositions * position_stride +
                  SplitOperand::index(Tile::column(k % a.filters_per_gemm_task), c, Tile::kFilters);
      Base::transform_filter(a, k, c, [&](int, float value) {
        const SplitHalves halves = split(value * scale);
        u[0] = halves.hi;
        u[SplitOperand::lo_offset(Tile::kFilters)] = halves.lo;
        u += position_stride;
      });
    }
    publish_to_copy_engine();
  }

  static __device__ void input(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                               std::byte*) {
    if (kLayout == Layout::nhwc && a.c % kWidth == 0) {
      input_channels<true>(a, static_cast<int>(group), static_cast<int>(block));
    } else {
      input_channels<false>(a, static_cast<int>(group), static_cast<int>(block));
    }
    publish_to_copy_engine();
  }

  static __device__ void output(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
    const float scale = 1.0f / (input_scale(a) * filter_scale(a));
    Base::output(a, group, block, [scale](auto& values) {
      for (float& value : values.lane) value *= scale;
    });
  }

 private:
  template <bool kTogether>
  static __device__ void input_channels(const TaskArgs& a, int group, int block) {
    const typename Base::TileChunk tiles(a, group, block);
    const int chunk = block / a.tile_chunks;
    const int first_c = chunk * a.channels_per_input_task;
    const int end_c =
        chunk + 1 == a.input_channel_chunks ? a.c_padded : first_c + a.channels_per_input_task;
    const int octets = (end_c - first_c) / 8;
    const float scale = input_scale(a);
    const std::int64_t position_stride =
        static_cast<std::int64_t>(a.c_padded) * Tile::kRows * SplitOperand::kParts;
    __half* const slot =
        reinterpret_cast<__half*>(a.v) + group % a.v_slots * kPositions * position_stride;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int num_patches = (tiles.count + 7) / 8 * octets;
    for (int patch = warp; patch < num_patches; patch += kThreads / 32) {
      const int tile = tiles.first + patch / octets * 8 + lane / 4;
      const int c = first_c + patch % octets * 8 + lane % 4 * kWidth;
      if (tile >= tiles.first + tiles.count) continue;
      __half* v = slot + SplitOperand::index(tile, c, Tile::kRows);
      Base::template transform_tile<kWidth, kTogether>(
          a, group * a.group_tiles + tile, c, [&](int, Vec<kWidth> value) {
            const SplitHalves first = split(value.lane[0] * scale);
            const SplitHalves second = split(value.lane[1] * scale);
            *reinterpret_cast<__half2*>(v) = __halves2half2(first.hi, second.hi);
            *reinterpret_cast<__half2*>(v + SplitOperand::lo_offset(Tile::kRows)) =
                __halves2half2(first.lo, second.lo);
            v += position_stride;
          });
    }
  }
};

}  // namespace megaconv::cuda
