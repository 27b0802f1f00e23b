// SPDX-License-Identifier: Apache-2.0
// Filter, input and output transform tasks of F(m x m, 3 x 3), in FP32 whatever the tensors' type.
//
// A thread transforms one tile for kWidth neighbouring channels; all alpha^2 values stay in
// registers. Neighbouring threads take what lies side by side in memory: tiles in NCHW, channels in
// NHWC. V has the tiles of a channel side by side in both, as GEMM tasks read it; in NHWC it is
// turned over in shared memory. task_args.hpp has the layouts of U, V and M.
#pragma once

#include "tasks/cuda/block_pipeline.cuh"
#include "tasks/cuda/m_strides.cuh"
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

/// Stored: the numbers of x, w, bias, residual and y.
template <int kM, Points kPoints, Layout kLayout, int kThreads, class Stored = float>
struct WinogradTransforms {
  using Transform = Winograd1D<kM, kPoints>;
  static constexpr int kAlpha = Transform::kAlpha;
  static constexpr int kPositions = kAlpha * kAlpha;
  static constexpr bool kTilesSideBySide = kLayout == Layout::nchw;
  // Channels a thread: what alpha^2 values of each leave of 128 registers.
  static constexpr int kWidth = kTilesSideBySide ? 1 : kM == 2 ? 4 : kM == 4 ? 2 : 1;

  /// The filters and channels of a filter task. block = filter chunk * channel chunks + channel
  /// chunk; the last channel chunk reaches to c_padded.
  struct FilterChunk {
    int first_c, num_c, first_k, num_k;
    __device__ FilterChunk(const TaskArgs& a, std::uint32_t block) {
      const int chunk = static_cast<int>(block) % a.filter_channel_chunks;
      first_c = chunk * a.channels_per_filter_task;
      num_c = (chunk + 1 == a.filter_channel_chunks ? a.c_padded
                                                    : first_c + a.channels_per_filter_task) -
              first_c;
      first_k = static_cast<int>(block) / a.filter_channel_chunks * a.filters_per_filter_task;
      num_k = min(a.filters_per_filter_task, a.k_padded - first_k);
    }
  };

  /// U of some filters and channels, in double and rounded once. Zero past K, and past C, where V
  /// is zero, too. A thread takes one (c, k); 16 neighbouring threads share c, so that their stores
  /// fill 64-byte segments.
  static __device__ void filter(const TaskArgs& a, std::uint32_t block) {
    const FilterChunk chunk(a, block);
    const std::int64_t position_stride = static_cast<std::int64_t>(a.c_padded) * a.gemm_filters;
    for (int item = threadIdx.x; item < chunk.num_k * chunk.num_c; item += kThreads) {
      const int k = chunk.first_k + item % chunk.num_k;
      const int c = chunk.first_c + item / chunk.num_k;
      float* u = a.u + k / a.filters_per_gemm_task * kPositions * position_stride +
                 static_cast<std::int64_t>(c) * a.gemm_filters + k % a.filters_per_gemm_task;
      transform_filter(a, k, c, [&](int, float value) {
        *u = value;
        u += position_stride;
      });
    }
    publish_to_copy_engine();
  }

  /// Calls put(position, value) for all positions of U in order, of one filter and channel.
  template <class Put>
  static __device__ void transform_filter(const TaskArgs& a, int k, int c, Put&& put) {
    const bool exists = k < a.k && c < a.c;
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
        g[r].lane[0] = exists ? static_cast<float>(stored(a.w)[index]) : 0.0f;
      }
      Transform::filter(g, columns[s]);
    }
#pragma unroll
    for (int row = 0; row < kAlpha; ++row) {
      const Number in[kWinogradR] = {columns[0][row], columns[1][row], columns[2][row]};
      Number out[kAlpha];
      Transform::filter(in, out);
#pragma unroll
      for (int col = 0; col < kAlpha; ++col) {
        put(row * kAlpha + col, static_cast<float>(Transform::kGScale * out[col].lane[0]));
      }
    }
  }

  /// One patch of V on its way from threads that hold neighbouring channels to threads that write
  /// neighbouring tiles: [position][tile][channel], rotated against bank conflicts. Runs of V are
  /// what counts: H200, us of the input stage of n64c256h56k256, for 128 threads of 2 channels
  /// each: patches of 8 tiles x 32 channels (32 bytes of V in a row) 633, 16 x 16 400, 32 x 8 300.
  template <int kLanes>
  struct Patch {
    static constexpr int kChannels = kLanes == 4 ? 16 : 8;
    static constexpr int kTiles = kThreads * kLanes / kChannels;
    static constexpr int kQuads = kTiles / 4;  // a thread writes four neighbouring tiles
    float value[kPositions][kTiles * kChannels];

    static __device__ int index(int tile, int channel) {
      return (tile * kChannels + channel) ^ (tile / 4 * (32 / kQuads));
    }
  };
  static constexpr int kPatchBytes = kTilesSideBySide ? 0 : static_cast<int>(sizeof(Patch<kWidth>));

  /// V of some tiles and channels of one group; zero past C. block = channel chunk * tile chunks +
  /// tile chunk. `shared`: kPatchBytes.
  static __device__ void input(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                               std::byte* shared) {
    if (a.c % kWidth == 0) {
      input_vectors<kWidth>(a, static_cast<int>(group), static_cast<int>(block), shared);
    } else {
      input_vectors<1>(a, static_cast<int>(group), static_cast<int>(block), shared);
    }
    publish_to_copy_engine();
  }

  /// Calls put(position, value) for all positions of V, column by column, of channels
  /// [c, c + kLanes) of one tile. More than one: they lie side by side in x, and C is a multiple of
  /// kLanes.
  template <int kLanes, class Put>
  static __device__ void transform_tile(const TaskArgs& a, int tile, int c, Put&& put) {
    Vec<kLanes> d[kAlpha][kAlpha];  // [row][column]
    load_tile(a, tile_place<kM>(a, tile), c, d);
#pragma unroll
    for (int row = 0; row < kAlpha; ++row) {
      Vec<kLanes> out[kAlpha];
      Transform::input(d[row], out);
#pragma unroll
      for (int col = 0; col < kAlpha; ++col) d[row][col] = out[col];
    }
#pragma unroll
    for (int col = 0; col < kAlpha; ++col) {
      Vec<kLanes> in[kAlpha], out[kAlpha];
#pragma unroll
      for (int row = 0; row < kAlpha; ++row) in[row] = d[row][col];
      Transform::input(in, out);
#pragma unroll
      for (int row = 0; row < kAlpha; ++row) put(row * kAlpha + col, out[row]);
    }
  }

  /// y of some tiles and filters of one group. block = filter chunk * tile chunks + tile chunk.
  static __device__ void output(const TaskArgs& a, std::uint32_t group, std::uint32_t block) {
    output(a, group, block, [](float sum) { return sum; });
  }
  /// The same of M scaled; unscale(sum) undoes that.
  template <class Unscale>
  static __device__ void output(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                                Unscale unscale) {
    if (a.k % kWidth == 0) {
      output_vectors<kWidth>(a, static_cast<int>(group), static_cast<int>(block), unscale);
    } else {
      output_vectors<1>(a, static_cast<int>(group), static_cast<int>(block), unscale);
    }
  }

  /// The tiles of its group that a transform task takes.
  struct TileChunk {
    int first, count;
    __device__ TileChunk(const TaskArgs& a, int group, int block) {
      first = block % a.tile_chunks * a.tiles_per_transform_task;
      count = min(a.tiles_per_transform_task, tiles_in_group(a, group) - first);
    }
  };

 private:
  // TaskArgs has all tensors as floats.
  static __device__ const Stored* stored(const float* tensor) {
    return reinterpret_cast<const Stored*>(tensor);
  }

  // The input under a tile, channels [c, c + kLanes); zero in the padding and past C. Pixels there
  // are loaded from the nearest one of the image and then set to zero, so that no load waits for a
  // branch.
  template <int kLanes>
  static __device__ void load_tile(const TaskArgs& a, const TilePlace& place, int c,
                                   Vec<kLanes> (&d)[kAlpha][kAlpha]) {
    const std::int64_t image = place.image;
    const int channel_stride = kLayout == Layout::nchw ? a.h * a.w_in : 1;
    const Stored* const pixels = stored(a.x) + image * a.h * a.w_in * a.c +
                                 static_cast<std::int64_t>(min(c, a.c - kLanes)) * channel_stride;
    const int row_stride = kLayout == Layout::nchw ? a.w_in : a.w_in * a.c;
    const int col_stride = kLayout == Layout::nchw ? 1 : a.c;
    int row_offset[kAlpha], col_offset[kAlpha];
    unsigned rows_inside = 0, cols_inside = 0;
#pragma unroll
    for (int i = 0; i < kAlpha; ++i) {
      const int row = place.row - a.pad_h + i, col = place.col - a.pad_w + i;
      rows_inside |= static_cast<unsigned>(row >= 0 && row < a.h) << i;
      cols_inside |= static_cast<unsigned>(c < a.c && col >= 0 && col < a.w_in) << i;
      row_offset[i] = min(max(row, 0), a.h - 1) * row_stride;
      col_offset[i] = min(max(col, 0), a.w_in - 1) * col_stride;
    }
    // In NCHW, the four pixels in the middle of a tile's rows are one load if they are aligned.
    bool in_runs = false;
    if constexpr (kTilesSideBySide && kM == 4) {
      in_runs = a.w_in % 4 == 0 && a.pad_w == 1 &&
                reinterpret_cast<std::uintptr_t>(a.x) % sizeof(Vec<4, Stored>) == 0;
      if (in_runs) {
#pragma unroll
        for (int row = 0; row < kAlpha; ++row) {
          const Stored* const line = pixels + row_offset[row];
          const Vec<4> middle = load<4>(line + place.col);
          d[row][0] = load<1>(line + col_offset[0]);
#pragma unroll
          for (int i = 0; i < 4; ++i) d[row][i + 1].lane[0] = middle.lane[i];
          d[row][kAlpha - 1] = load<1>(line + col_offset[kAlpha - 1]);
        }
      }
    }
    if (!in_runs) {
#pragma unroll
      for (int row = 0; row < kAlpha; ++row) {
#pragma unroll
        for (int col = 0; col < kAlpha; ++col) {
          d[row][col] = load<kLanes>(pixels + (row_offset[row] + col_offset[col]));
        }
      }
    }
#pragma unroll
    for (int row = 0; row < kAlpha; ++row) {
#pragma unroll
      for (int col = 0; col < kAlpha; ++col) {
        if ((rows_inside >> row & cols_inside >> col & 1) == 0) d[row][col] = zero<kLanes>();
      }
    }
  }

  // Tile and channel vector of a work item: neighbouring items lie side by side in memory.
  struct Item {
    int tile, vector;
  };
  static __device__ Item split(int item, int num_tiles, int num_vectors) {
    return kTilesSideBySide ? Item{item % num_tiles, item / num_tiles}
                            : Item{item / num_vectors, item % num_vectors};
  }

  template <int kLanes>
  static __device__ void input_vectors(const TaskArgs& a, int group, int block, std::byte* shared) {
    const TileChunk tiles(a, group, block);
    const int first_c = block / a.tile_chunks * a.channels_per_input_task;
    const int num_c = min(a.channels_per_input_task, a.c_padded - first_c);
    const std::int64_t position_stride = static_cast<std::int64_t>(a.c_padded) * a.gemm_tiles;
    float* const v = a.v + group % a.v_slots * kPositions * position_stride +
                     static_cast<std::int64_t>(first_c) * a.gemm_tiles + tiles.first;
    const int first_tile = group * a.group_tiles + tiles.first;
    if constexpr (kTilesSideBySide) {
      static_assert(kLanes == 1);
      for (int item = threadIdx.x; item < tiles.count * num_c; item += kThreads) {
        const int tile = item % tiles.count, c = item / tiles.count;
        float* const to = v + static_cast<std::int64_t>(c) * a.gemm_tiles + tile;
        transform_tile<1>(a, first_tile + tile, first_c + c, [&](int position, Vec<1> value) {
          to[position * position_stride] = value.lane[0];
        });
      }
    } else {
      using ThisPatch = Patch<kLanes>;
      ThisPatch& patch = *reinterpret_cast<ThisPatch*>(shared);
      constexpr int kVectors = ThisPatch::kChannels / kLanes;
      const int vector = static_cast<int>(threadIdx.x) % kVectors;
      const int patch_tile = static_cast<int>(threadIdx.x) / kVectors;
      const int patches_across = (num_c + ThisPatch::kChannels - 1) / ThisPatch::kChannels;
      const int num_patches =
          (tiles.count + ThisPatch::kTiles - 1) / ThisPatch::kTiles * patches_across;
      for (int i = 0; i < num_patches; ++i) {
        const int patch_c = i % patches_across * ThisPatch::kChannels;
        const int first = i / patches_across * ThisPatch::kTiles;
        const int tile = first + patch_tile, c = patch_c + vector * kLanes;
        if (tile < tiles.count && c < num_c) {
          float* const to = &patch.value[0][ThisPatch::index(patch_tile, vector * kLanes)];
          transform_tile<kLanes>(
              a, first_tile + tile, first_c + c, [&](int position, Vec<kLanes> value) {
                store(to + position * ThisPatch::kTiles * ThisPatch::kChannels, value);
              });
        }
        __syncthreads();
        write_patch(a, patch, v + static_cast<std::int64_t>(patch_c) * a.gemm_tiles + first,
                    position_stride, tiles.count - first, num_c - patch_c);
        __syncthreads();
      }
    }
  }

  // The first num_tiles and num_channels of a patch; tiles in whole quads, so that up to three
  // which exist in no group are written as they come.
  template <class ThisPatch>
  static __device__ void write_patch(const TaskArgs& a, const ThisPatch& patch, float* v,
                                     std::int64_t position_stride, int num_tiles,
                                     int num_channels) {
    constexpr int kQuads = ThisPatch::kQuads;
    const int tile = static_cast<int>(threadIdx.x) % kQuads * 4;
    if (tile >= num_tiles) return;
    for (int row = static_cast<int>(threadIdx.x) / kQuads; row < kPositions * ThisPatch::kChannels;
         row += kThreads / kQuads) {
      const int position = row / ThisPatch::kChannels, c = row % ThisPatch::kChannels;
      if (c >= num_channels) continue;
      Vec<4> quad;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        quad.lane[j] = patch.value[position][ThisPatch::index(tile + j, c)];
      }
      store(v + position * position_stride + static_cast<std::int64_t>(c) * a.gemm_tiles + tile,
            quad);
    }
  }

  template <int kLanes, class Unscale>
  static __device__ void output_vectors(const TaskArgs& a, int group, int block, Unscale unscale) {
    const TileChunk tiles(a, group, block);
    const int first_k = block / a.tile_chunks * a.filters_per_output_task;
    const int num_vectors = (min(first_k + a.filters_per_output_task, a.k) - first_k) / kLanes;
    const MStrides strides = m_strides<kLayout>(a);
    const float* const slot = a.m + group % a.m_slots * kPositions * strides.position;
    Stored* const y = reinterpret_cast<Stored*>(a.y);
    for (int index = threadIdx.x; index < tiles.count * num_vectors; index += kThreads) {
      const Item item = split(index, tiles.count, num_vectors);
      const int k = first_k + item.vector * kLanes;
      const int tile = tiles.first + item.tile;
      const TilePlace place = tile_place<kM>(a, group * a.group_tiles + tile);
      const float* const m = slot + tile * strides.tile + k * strides.filter;
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
#pragma unroll
        for (int col = 0; col < kM; ++col) {
#pragma unroll
          for (int i = 0; i < kLanes; ++i) out[col].lane[i] = unscale(out[col].lane[i]);
        }
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
                  a.bias != nullptr ? load<kLanes>(stored(a.bias) + k) : zero<kLanes>();
              store(y + index_y, epilogue(a, out[col] + bias, index_y));
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
    const float bias = a.bias != nullptr ? static_cast<float>(stored(a.bias)[k]) : 0.0f;
    Stored* const y = reinterpret_cast<Stored*>(a.y);
    const bool aligned = a.q % kRun == 0;
#pragma unroll
    for (int col = 0; col < kM; col += kRun) {
      Vec<kRun> run;
#pragma unroll
      for (int i = 0; i < kRun; ++i) run.lane[i] = out[col + i].lane[0] + bias;
      if (aligned) {
        if (col < room) store(y + index + col, epilogue(a, run, index + col));
      } else {
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
          if (col + i < room) {
            store(y + index + col + i, epilogue(a, Vec<1>{{run.lane[i]}}, index + col + i));
          }
        }
      }
    }
  }

  // Residual and ReLU of the sums that belong to y[index] and what follows it.
  template <int kLanes>
  static __device__ Vec<kLanes> epilogue(const TaskArgs& a, Vec<kLanes> sum, std::int64_t index) {
    if (a.residual != nullptr) sum = sum + load<kLanes>(stored(a.residual) + index);
    if (a.relu) {
#pragma unroll
      for (int i = 0; i < kLanes; ++i) sum.lane[i] = fmaxf(sum.lane[i], 0.0f);
    }
    return sum;
  }
};

}  // namespace megaconv::cuda
