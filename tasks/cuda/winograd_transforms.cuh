// SPDX-License-Identifier: Apache-2.0
// Filter, input and output transform tasks of F(m x m, 3 x 3) in FP32.
//
// A thread transforms one tile for kWidth neighbouring channels; all alpha^2 values stay in
// registers. Neighbouring threads take what lies side by side in memory, in x and y as well as in V
// and M:
//
//   NHWC   channels   V [v_slots][alpha^2][t][C']    M [m_slots][alpha^2][t][K']
//   NCHW   tiles      V [v_slots][alpha^2][C'][t']   M [m_slots][alpha^2][K'][t']
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

/// V or M of one slot: element (position, tile, channel) lies at
/// position * position_stride + tile * tile_stride + channel * channel_stride.
struct SlotStrides {
  std::int64_t position, tile, channel;
};
template <Layout kLayout>
__device__ inline SlotStrides slot_strides(const TaskArgs& a, int channels_padded) {
  const std::int64_t position = static_cast<std::int64_t>(a.group_tiles_padded) * channels_padded;
  if constexpr (kLayout == Layout::nchw) return {position, 1, a.group_tiles_padded};
  return {position, channels_padded, 1};
}

template <int kM, Points kPoints, Layout kLayout, int kThreads>
struct WinogradTransforms {
  using Transform = Winograd1D<kM, kPoints>;
  static constexpr int kAlpha = Transform::kAlpha;
  static constexpr int kPositions = kAlpha * kAlpha;
  static constexpr bool kTilesSideBySide = kLayout == Layout::nchw;
  // Channels a thread: what alpha^2 values of each leave of 128 registers.
  static constexpr int kWidth = kTilesSideBySide ? 1 : kM == 2 ? 4 : kM == 4 ? 2 : 1;

  /// U[p][c][k] of filters [first, first + filters_per_filter_task), in double and rounded once. A
  /// thread takes one (c, k); 16 neighbouring threads share c, so that their stores fill 64-byte
  /// segments.
  static __device__ void filter(const TaskArgs& a, std::uint32_t block) {
    const int first_k = static_cast<int>(block) * a.filters_per_filter_task;
    const int num_k = min(a.filters_per_filter_task, a.k_padded - first_k);
    const std::int64_t position_stride = static_cast<std::int64_t>(a.c) * a.k_padded;
    for (int item = threadIdx.x; item < num_k * a.c; item += kThreads) {
      const int k = first_k + item % num_k;
      const int c = item / num_k;
      using Number = Vec<1, double>;
      Number columns[kWinogradR][kAlpha];
#pragma unroll
      for (int s = 0; s < kWinogradR; ++s) {
        Number g[kWinogradR];
#pragma unroll
        for (int r = 0; r < kWinogradR; ++r) {
          const int tap = r * kWinogradR + s;
          const std::int64_t index =
              kLayout == Layout::nchw
                  ? (static_cast<std::int64_t>(k) * a.c + c) * (kWinogradR * kWinogradR) + tap
                  : (static_cast<std::int64_t>(k) * (kWinogradR * kWinogradR) + tap) * a.c + c;
          g[r].lane[0] = k < a.k ? a.w[index] : 0.0f;
        }
        Transform::filter(g, columns[s]);
      }
      float* u = a.u + static_cast<std::int64_t>(c) * a.k_padded + k;
#pragma unroll
      for (int row = 0; row < kAlpha; ++row) {
        const Number in[kWinogradR] = {columns[0][row], columns[1][row], columns[2][row]};
        Number out[kAlpha];
        Transform::filter(in, out);
#pragma unroll
        for (int col = 0; col < kAlpha; ++col) {
          *u = static_cast<float>(out[col].lane[0]);
          u += position_stride;
        }
      }
    }
  }

  /// V of one group, channels [block * channels_per_input_task, ...). Zero past C, and in NCHW for
  /// the up to 3 tiles that round a group to whole vectors.
  static __device__ void input(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
    if (a.c % kWidth == 0) {
      input_vectors<kWidth>(a, static_cast<int>(group), static_cast<int>(block));
    } else {
      input_vectors<1>(a, static_cast<int>(group), static_cast<int>(block));
    }
  }

  /// y of one group, filters [block * filters_per_output_task, ...).
  static __device__ void output(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
    if (a.k % kWidth == 0) {
      output_vectors<kWidth>(a, static_cast<int>(group), static_cast<int>(block));
    } else {
      output_vectors<1>(a, static_cast<int>(group), static_cast<int>(block));
    }
  }

 private:
  // Tile and channel vector of a work item: neighbouring items lie side by side in memory.
  struct Item {
    int tile, vector;
  };
  static __device__ Item split(int item, int num_tiles, int num_vectors) {
    return kTilesSideBySide ? Item{item % num_tiles, item / num_tiles}
                            : Item{item / num_vectors, item % num_vectors};
  }

  template <int kLanes>
  static __device__ void input_vectors(const TaskArgs& a, int group, int block) {
    const int first_c = block * a.channels_per_input_task;
    const int num_vectors =
        (min(first_c + a.channels_per_input_task, a.c_padded) - first_c) / kLanes;
    const int existing = tiles_in_group(a, group);
    const int num_tiles = kTilesSideBySide ? (existing + 3) / 4 * 4 : existing;
    const SlotStrides strides = slot_strides<kLayout>(a, a.c_padded);
    float* const slot = a.v + group % a.v_slots * kPositions * strides.position;
    for (int index = threadIdx.x; index < num_tiles * num_vectors; index += kThreads) {
      const Item item = split(index, num_tiles, num_vectors);
      const int c = first_c + item.vector * kLanes;
      const bool exists = c < a.c && item.tile < existing;
      const TilePlace place =
          tile_place<kM>(a, min(group * a.group_tiles + item.tile, a.num_tiles - 1));
      const std::int64_t image = place.image;
      const float* const pixels = kLayout == Layout::nchw ? a.x + (image * a.c + c) * a.h * a.w_in
                                                          : a.x + image * a.h * a.w_in * a.c + c;
      const int row_stride = kLayout == Layout::nchw ? a.w_in : a.w_in * a.c;
      const int col_stride = kLayout == Layout::nchw ? 1 : a.c;
      const int top = place.row - a.pad_h, left = place.col - a.pad_w;

      Vec<kLanes> rows[kAlpha][kAlpha];  // [column][row after the vertical transform]
#pragma unroll
      for (int col = 0; col < kAlpha; ++col) {
        const bool col_inside =
            exists && static_cast<unsigned>(left + col) < static_cast<unsigned>(a.w_in);
        Vec<kLanes> d[kAlpha];
#pragma unroll
        for (int row = 0; row < kAlpha; ++row) {
          const bool inside =
              col_inside && static_cast<unsigned>(top + row) < static_cast<unsigned>(a.h);
          d[row] = inside
                       ? load<kLanes>(pixels + static_cast<std::int64_t>(top + row) * row_stride +
                                      static_cast<std::int64_t>(left + col) * col_stride)
                       : zero<kLanes>();
        }
        Transform::input(d, rows[col]);
      }
      float* v = slot + item.tile * strides.tile + c * strides.channel;
#pragma unroll
      for (int row = 0; row < kAlpha; ++row) {
        Vec<kLanes> in[kAlpha], out[kAlpha];
#pragma unroll
        for (int col = 0; col < kAlpha; ++col) in[col] = rows[col][row];
        Transform::input(in, out);
#pragma unroll
        for (int col = 0; col < kAlpha; ++col) {
          store(v, out[col]);
          v += strides.position;
        }
      }
    }
  }

  template <int kLanes>
  static __device__ void output_vectors(const TaskArgs& a, int group, int block) {
    const int first_k = block * a.filters_per_output_task;
    const int num_vectors = (min(first_k + a.filters_per_output_task, a.k) - first_k) / kLanes;
    const int num_tiles = tiles_in_group(a, group);
    const SlotStrides strides = slot_strides<kLayout>(a, a.k_padded);
    const float* const slot = a.m + group % a.m_slots * kPositions * strides.position;
    for (int index = threadIdx.x; index < num_tiles * num_vectors; index += kThreads) {
      const Item item = split(index, num_tiles, num_vectors);
      const int k = first_k + item.vector * kLanes;
      const TilePlace place = tile_place<kM>(a, group * a.group_tiles + item.tile);
      const float* const m = slot + item.tile * strides.tile + k * strides.channel;

      Vec<kLanes> rows[kAlpha][kM];  // [column of M][output row]
#pragma unroll
      for (int col = 0; col < kAlpha; ++col) {
        Vec<kLanes> in[kAlpha];
#pragma unroll
        for (int row = 0; row < kAlpha; ++row) {
          in[row] = load<kLanes>(m + (row * kAlpha + col) * strides.position);
        }
        Transform::output(in, rows[col]);
      }
      const std::int64_t image = place.image;
#pragma unroll
      for (int row = 0; row < kM; ++row) {
        Vec<kLanes> in[kAlpha], out[kM];
#pragma unroll
        for (int col = 0; col < kAlpha; ++col) in[col] = rows[col][row];
        Transform::output(in, out);
        if (place.row + row >= a.p) continue;
        if constexpr (kLayout == Layout::nchw) {
          store_row(a, out, k, ((image * a.k + k) * a.p + place.row + row) * a.q + place.col,
                    a.q - place.col);
        } else {
          std::int64_t index_y = ((image * a.p + place.row + row) * a.q + place.col) * a.k + k;
#pragma unroll
          for (int col = 0; col < kM; ++col) {
            if (place.col + col < a.q) {
              const Vec<kLanes> bias =
                  a.bias != nullptr ? load<kLanes>(a.bias + k) : zero<kLanes>();
              store(a.y + index_y, epilogue(a, out[col] + bias, index_y));
            }
            index_y += a.k;
          }
        }
      }
    }
  }

  // One output row of a tile in NCHW: kM neighbouring pixels of filter k from y[index] on, of which
  // `room` exist. Vectors where all rows of y are aligned to them.
  static __device__ void store_row(const TaskArgs& a, const Vec<1> (&out)[kM], int k,
                                   std::int64_t index, int room) {
    constexpr int kRun = kM % 4 == 0 ? 4 : 2;
    const float bias = a.bias != nullptr ? a.bias[k] : 0.0f;
    const bool aligned = a.q % kRun == 0;
#pragma unroll
    for (int col = 0; col < kM; col += kRun) {
      Vec<kRun> run;
#pragma unroll
      for (int i = 0; i < kRun; ++i) run.lane[i] = out[col + i].lane[0] + bias;
      if (aligned) {
        if (col < room) store(a.y + index + col, epilogue(a, run, index + col));
      } else {
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
          if (col + i < room) {
            store(a.y + index + col + i, epilogue(a, Vec<1>{{run.lane[i]}}, index + col + i));
          }
        }
      }
    }
  }

  // Residual and ReLU of the sums that belong to y[index] and what follows it.
  template <int kLanes>
  static __device__ Vec<kLanes> epilogue(const TaskArgs& a, Vec<kLanes> sum, std::int64_t index) {
    if (a.residual != nullptr) sum = sum + load<kLanes>(a.residual + index);
    if (a.relu) {
#pragma unroll
      for (int i = 0; i < kLanes; ++i) sum.lane[i] = fmaxf(sum.lane[i], 0.0f);
    }
    return sum;
  }
};

}  // namespace megaconv::cuda
