// SPDX-License-Identifier: Apache-2.0
// Filter, input and output transform tasks of F(m x m, 3 x 3) in FP32, for blocks of kBlockThreads.
//
// A thread transforms one tile for kWidth neighbouring channels; all alpha^2 values stay in
// registers. In NHWC the channels of a warp are neighbours in memory on both sides. In NCHW
// neighbouring threads take neighbouring tiles, whose pixels are neighbours in memory, and V and M
// pass through shared memory, where the roles of tile and channel change places.
#pragma once

#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/winograd_1d.cuh"

namespace megaconv::cuda {

/// Where a tile lies: its image and the coordinates of its first output pixel.
struct TilePlace {
  int image, row, col;
};
template <int kM>
__device__ inline TilePlace tile_place(const TaskArgs& a, int tile) {
  const int tile_col = tile % a.tiles_w;
  const int rest = tile / a.tiles_w;
  return {rest / a.tiles_h, rest % a.tiles_h * kM, tile_col * kM};
}

/// Tiles of a group; the last group may be short.
__device__ inline int tiles_in_group(const TaskArgs& a, int group) {
  return min(a.group_tiles, a.num_tiles - group * a.group_tiles);
}

template <int kM, Points kPoints>
struct WinogradTransforms {
  using Transform = Winograd1D<kM, kPoints>;
  static constexpr int kAlpha = Transform::kAlpha;
  static constexpr int kPositions = kAlpha * kAlpha;
  // Channels a thread: what alpha^2 values of each leave of 128 registers.
  static constexpr int kWidth = kM == 2 ? 4 : kM == 4 ? 2 : 1;

  // NCHW staging: [position][tile][channel], 32 tiles of a warp x kStageChannels; the odd row
  // length keeps both directions free of bank conflicts.
  static constexpr int kStageTiles = 32;
  static constexpr int kStageChannels = kM == 6 ? 4 : kBlockThreads / kStageTiles;
  static constexpr int kStageRow = kStageChannels + 1;
  static constexpr int kSharedBytes = kPositions * kStageTiles * kStageRow * sizeof(float);

  /// U[p][c][k] of filters [first, first + filters_per_filter_task). A thread takes one (c, k); 16
  /// neighbouring threads share c, so that their stores fill 64-byte segments.
  static __device__ void filter(const TaskArgs& a, std::uint32_t block) {
    const int first_k = static_cast<int>(block) * a.filters_per_filter_task;
    const int num_k = min(a.filters_per_filter_task, a.k_padded - first_k);
    const std::int64_t position_stride = static_cast<std::int64_t>(a.c_padded) * a.k_padded;
    for (int item = threadIdx.x; item < num_k * a.c_padded; item += kBlockThreads) {
      const int k = first_k + item % num_k;
      const int c = item / num_k;
      Vec<1> columns[kWinogradR][kAlpha];
#pragma unroll
      for (int s = 0; s < kWinogradR; ++s) {
        Vec<1> g[kWinogradR];
#pragma unroll
        for (int r = 0; r < kWinogradR; ++r) {
          const int tap = r * kWinogradR + s;
          const std::int64_t index =
              a.layout == Layout::nchw
                  ? (static_cast<std::int64_t>(k) * a.c + c) * (kWinogradR * kWinogradR) + tap
                  : (static_cast<std::int64_t>(k) * (kWinogradR * kWinogradR) + tap) * a.c + c;
          g[r].lane[0] = k < a.k && c < a.c ? a.w[index] : 0.0f;
        }
        Transform::filter(g, columns[s]);
      }
      float* u = a.u + static_cast<std::int64_t>(c) * a.k_padded + k;
#pragma unroll
      for (int row = 0; row < kAlpha; ++row) {
        const Vec<1> in[kWinogradR] = {columns[0][row], columns[1][row], columns[2][row]};
        Vec<1> out[kAlpha];
        Transform::filter(in, out);
#pragma unroll
        for (int col = 0; col < kAlpha; ++col) {
          *u = out[col].lane[0];
          u += position_stride;
        }
      }
    }
  }

  /// V of one group, channels [block * channels_per_input_task, ...).
  static __device__ void input(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                               float* shared) {
    const int first_c = static_cast<int>(block) * a.channels_per_input_task;
    const int end_c = min(first_c + a.channels_per_input_task, a.c_padded);
    const int first_tile = static_cast<int>(group) * a.group_tiles;
    const int num_tiles = tiles_in_group(a, static_cast<int>(group));
    float* const v = a.v + static_cast<std::int64_t>(group % a.v_slots) * kPositions *
                               a.group_tiles * a.c_padded;
    if (a.layout == Layout::nchw) {
      input_nchw(a, v, first_tile, num_tiles, first_c, end_c, shared);
    } else if (a.c % kWidth == 0) {
      input_nhwc<kWidth>(a, v, first_tile, num_tiles, first_c, end_c);
    } else {
      input_nhwc<1>(a, v, first_tile, num_tiles, first_c, end_c);
    }
  }

  /// y of one group, filters [block * filters_per_output_task, ...).
  static __device__ void output(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                                float* shared) {
    const int first_k = static_cast<int>(block) * a.filters_per_output_task;
    const int end_k = min(first_k + a.filters_per_output_task, a.k);
    const int first_tile = static_cast<int>(group) * a.group_tiles;
    const int num_tiles = tiles_in_group(a, static_cast<int>(group));
    const float* const m = a.m + static_cast<std::int64_t>(group % a.m_slots) * kPositions *
                                     a.group_tiles * a.k_padded;
    if (a.layout == Layout::nchw) {
      output_nchw(a, m, first_tile, num_tiles, first_k, end_k, shared);
    } else if (a.k % kWidth == 0) {
      output_nhwc<kWidth>(a, m, first_tile, num_tiles, first_k, end_k);
    } else {
      output_nhwc<1>(a, m, first_tile, num_tiles, first_k, end_k);
    }
  }

 private:
  // B^T d B of the tile at `place`, d read from `pixels` (image and channel applied) with the given
  // strides; pixels outside the image are zero. `emit(position, value)` takes the results.
  template <int kLanes, class Emit>
  static __device__ void transform_input(const TaskArgs& a, const float* pixels, TilePlace place,
                                         bool valid, int row_stride, int col_stride, Emit&& emit) {
    const int top = place.row - a.pad_h, left = place.col - a.pad_w;
    Vec<kLanes> rows[kAlpha][kAlpha];  // [column][row after the vertical transform]
#pragma unroll
    for (int col = 0; col < kAlpha; ++col) {
      const bool col_inside =
          valid && static_cast<unsigned>(left + col) < static_cast<unsigned>(a.w_in);
      Vec<kLanes> d[kAlpha];
#pragma unroll
      for (int row = 0; row < kAlpha; ++row) {
        const bool inside =
            col_inside && static_cast<unsigned>(top + row) < static_cast<unsigned>(a.h);
        d[row] = inside ? load<kLanes>(pixels + static_cast<std::int64_t>(top + row) * row_stride +
                                       static_cast<std::int64_t>(left + col) * col_stride)
                        : zero<kLanes>();
      }
      Transform::input(d, rows[col]);
    }
#pragma unroll
    for (int row = 0; row < kAlpha; ++row) {
      Vec<kLanes> in[kAlpha], out[kAlpha];
#pragma unroll
      for (int col = 0; col < kAlpha; ++col) in[col] = rows[col][row];
      Transform::input(in, out);
#pragma unroll
      for (int col = 0; col < kAlpha; ++col) emit(row * kAlpha + col, out[col]);
    }
  }

  // A^T M A: `fetch(position)` gives M, `emit(row, col, value)` takes the m x m outputs.
  template <int kLanes, class Fetch, class Emit>
  static __device__ void transform_output(Fetch&& fetch, Emit&& emit) {
    Vec<kLanes> rows[kAlpha][kM];  // [column of M][output row]
#pragma unroll
    for (int col = 0; col < kAlpha; ++col) {
      Vec<kLanes> in[kAlpha];
#pragma unroll
      for (int row = 0; row < kAlpha; ++row) in[row] = fetch(row * kAlpha + col);
      Transform::output(in, rows[col]);
    }
#pragma unroll
    for (int row = 0; row < kM; ++row) {
      Vec<kLanes> in[kAlpha], out[kM];
#pragma unroll
      for (int col = 0; col < kAlpha; ++col) in[col] = rows[col][row];
      Transform::output(in, out);
#pragma unroll
      for (int col = 0; col < kM; ++col) emit(row, col, out[col]);
    }
  }

  // bias, residual and ReLU of kLanes neighbouring filters, whose first output element is y[index].
  template <int kLanes>
  static __device__ Vec<kLanes> epilogue(const TaskArgs& a, Vec<kLanes> sum, int k,
                                         std::int64_t index) {
    if (a.bias != nullptr) sum = sum + load<kLanes>(a.bias + k);
    if (a.residual != nullptr) sum = sum + load<kLanes>(a.residual + index);
    if (a.relu) {
#pragma unroll
      for (int i = 0; i < kLanes; ++i) sum.lane[i] = fmaxf(sum.lane[i], 0.0f);
    }
    return sum;
  }

  template <int kLanes>
  static __device__ void input_nhwc(const TaskArgs& a, float* v, int first_tile, int num_tiles,
                                    int first_c, int end_c) {
    const int num_vectors = (end_c - first_c) / kLanes;
    const std::int64_t position_stride = static_cast<std::int64_t>(a.group_tiles) * a.c_padded;
    for (int item = threadIdx.x; item < num_tiles * num_vectors; item += kBlockThreads) {
      const int tile = item / num_vectors;
      const int c = first_c + item % num_vectors * kLanes;
      const TilePlace place = tile_place<kM>(a, first_tile + tile);
      const float* pixels = a.x + static_cast<std::int64_t>(place.image) * a.h * a.w_in * a.c + c;
      float* const target = v + static_cast<std::int64_t>(tile) * a.c_padded + c;
      transform_input<kLanes>(a, pixels, place, c < a.c, a.w_in * a.c, a.c,
                              [&](int position, Vec<kLanes> value) {
                                store(target + position * position_stride, value);
                              });
    }
  }

  template <int kLanes>
  static __device__ void output_nhwc(const TaskArgs& a, const float* m, int first_tile,
                                     int num_tiles, int first_k, int end_k) {
    const int num_vectors = (end_k - first_k) / kLanes;
    const std::int64_t position_stride = static_cast<std::int64_t>(a.group_tiles) * a.k_padded;
    for (int item = threadIdx.x; item < num_tiles * num_vectors; item += kBlockThreads) {
      const int tile = item / num_vectors;
      const int k = first_k + item % num_vectors * kLanes;
      const TilePlace place = tile_place<kM>(a, first_tile + tile);
      const float* const source = m + static_cast<std::int64_t>(tile) * a.k_padded + k;
      transform_output<kLanes>(
          [&](int position) { return load<kLanes>(source + position * position_stride); },
          [&](int row, int col, Vec<kLanes> sum) {
            if (place.row + row >= a.p || place.col + col >= a.q) return;
            const std::int64_t index =
                ((static_cast<std::int64_t>(place.image) * a.p + place.row + row) * a.q +
                 place.col + col) *
                    a.k +
                k;
            store(a.y + index, epilogue(a, sum, k, index));
          });
    }
  }

  static __device__ void input_nchw(const TaskArgs& a, float* v, int first_tile, int num_tiles,
                                    int first_c, int end_c, float* shared) {
    const int lane_tile = threadIdx.x % kStageTiles, lane_c = threadIdx.x / kStageTiles;
    for (int tile0 = 0; tile0 < num_tiles; tile0 += kStageTiles) {
      const int tile = tile0 + lane_tile;
      const TilePlace place = tile_place<kM>(a, min(first_tile + tile, a.num_tiles - 1));
      for (int c0 = first_c; c0 < end_c; c0 += kStageChannels) {
        const int c = c0 + lane_c;
        if (lane_c < kStageChannels) {
          const float* pixels =
              a.x + (static_cast<std::int64_t>(place.image) * a.c + c) * a.h * a.w_in;
          transform_input<1>(a, pixels, place, c < a.c && tile < num_tiles, a.w_in, 1,
                             [&](int position, Vec<1> value) {
                               shared[stage_index(position, lane_tile, lane_c)] = value.lane[0];
                             });
        }
        __syncthreads();
        for (int item = threadIdx.x; item < kPositions * kStageTiles * kStageChannels;
             item += kBlockThreads) {
          const int channel = item % kStageChannels;
          const int row = item / kStageChannels % kStageTiles;
          const int position = item / (kStageChannels * kStageTiles);
          if (tile0 + row < num_tiles && c0 + channel < end_c) {
            v[(static_cast<std::int64_t>(position) * a.group_tiles + tile0 + row) * a.c_padded +
              c0 + channel] = shared[stage_index(position, row, channel)];
          }
        }
        __syncthreads();
      }
    }
  }

  static __device__ void output_nchw(const TaskArgs& a, const float* m, int first_tile,
                                     int num_tiles, int first_k, int end_k, float* shared) {
    const int lane_tile = threadIdx.x % kStageTiles, lane_k = threadIdx.x / kStageTiles;
    for (int tile0 = 0; tile0 < num_tiles; tile0 += kStageTiles) {
      const int tile = tile0 + lane_tile;
      const TilePlace place = tile_place<kM>(a, min(first_tile + tile, a.num_tiles - 1));
      for (int k0 = first_k; k0 < end_k; k0 += kStageChannels) {
        for (int item = threadIdx.x; item < kPositions * kStageTiles * kStageChannels;
             item += kBlockThreads) {
          const int channel = item % kStageChannels;
          const int row = item / kStageChannels % kStageTiles;
          const int position = item / (kStageChannels * kStageTiles);
          if (tile0 + row < num_tiles && k0 + channel < end_k) {
            shared[stage_index(position, row, channel)] =
                m[(static_cast<std::int64_t>(position) * a.group_tiles + tile0 + row) * a.k_padded +
                  k0 + channel];
          }
        }
        __syncthreads();
        const int k = k0 + lane_k;
        if (lane_k < kStageChannels && k < end_k && tile < num_tiles) {
          transform_output<1>(
              [&](int position) {
                return load<1>(shared + stage_index(position, lane_tile, lane_k));
              },
              [&](int row, int col, Vec<1> sum) {
                if (place.row + row >= a.p || place.col + col >= a.q) return;
                const std::int64_t index =
                    ((static_cast<std::int64_t>(place.image) * a.k + k) * a.p + place.row + row) *
                        a.q +
                    place.col + col;
                store(a.y + index, epilogue(a, sum, k, index));
              });
        }
        __syncthreads();
      }
    }
  }

  static __device__ int stage_index(int position, int tile, int channel) {
    return (position * kStageTiles + tile) * kStageRow + channel;
  }
};

}  // namespace megaconv::cuda
