// SPDX-License-Identifier: Apache-2.0
// Transform tasks whose V and U are split FP16 operands of a tensor tile. The transforms themselves
// are those of winograd_transforms.cuh, in FP32 and double; only what becomes of their results
// differs.
//
// 8 threads hold the 8 channels that lie side by side in an operand, 4 such rows of threads its
// neighbouring tiles: a warp stores 64 bytes in a row of hi, and as much of lo. (Two channels a
// thread would be 128 bytes in a row, but the 72 values of two channels and their halves spill.)
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
    const typename Base::TileChunk tiles(a, static_cast<int>(group), static_cast<int>(block));
    const int chunk = static_cast<int>(block) / a.tile_chunks;
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
    const bool odd = lane % 2 != 0;
    const int num_patches = (tiles.count + 3) / 4 * octets;
    for (int patch = warp; patch < num_patches; patch += kThreads / 32) {
      const int tile = patch / octets * 4 + lane / 8;
      const bool exists = tile < tiles.count;
      const int tile_in_group = tiles.first + (exists ? tile : 0);
      const int c = first_c + patch % octets * 8 + lane % 8;
      // Of a pair of channels the even thread stores both hi, the odd one both lo.
      __half* v = slot + SplitOperand::index(tile_in_group, c - odd, Tile::kRows) +
                  (odd ? SplitOperand::lo_offset(Tile::kRows) : 0);
      Base::template transform_tile<1>(
          a, static_cast<int>(group) * a.group_tiles + tile_in_group, c, [&](int, Vec<1> value) {
            const SplitHalves halves = split(value.lane[0] * scale);
            const unsigned own = __half_as_ushort(halves.hi) |
                                 static_cast<unsigned>(__half_as_ushort(halves.lo)) << 16;
            const unsigned other = __shfl_xor_sync(0xffffffffu, own, 1);
            const unsigned pair = __byte_perm(own, other, odd ? 0x3276 : 0x5410);
            if (exists) *reinterpret_cast<unsigned*>(v) = pair;
            v += position_stride;
          });
    }
    publish_to_copy_engine();
  }

  static __device__ void output(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
    const float of_input = 1.0f / input_scale(a), of_filter = 1.0f / filter_scale(a);
    // The smaller factor first: no step overflows where the result does not.
    const float first = fminf(of_input, of_filter), second = fmaxf(of_input, of_filter);
    Base::output(a, group, block, [=](auto& values) {
      for (float& value : values.lane) value = value * first * second;
    });
  }
};

}  // namespace megaconv::cuda
