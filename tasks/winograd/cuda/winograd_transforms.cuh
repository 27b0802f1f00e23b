// SPDX-License-Identifier: Apache-2.0
// Filter, input and output transform tasks of F(m x m, 3 x 3), in FP32 whatever the tensors' type.
//
// A thread transforms one tile for kWidth neighbouring channels; all alpha^2 values stay in
// registers. Neighbouring threads take what lies side by side in memory: tiles in NCHW, channels in
// NHWC. V has the tiles of a channel side by side in both, as GEMM tasks read it; in NHWC it is
// turned over in shared memory. task_args.hpp has the layouts of U, V and M.
#pragma once

#include "tasks/cuda/activation.cuh"
#include "tasks/cuda/block_pipeline.cuh"
#include "tasks/cuda/m_strides.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/winograd/cuda/winograd_1d.cuh"

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
template <int kM, Points kPoints, Layout kLayout, int kThreads, class Stored = float,
          class NumberOfM = float>
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
      transform_filter<1, double>(a, k, c, [&](const Vec<1>& value) {
        *u = value.lane[0];
        u += position_stride;
      });
    }
    publish_to_copy_engine();
  }

  /// Calls put(values) for all positions of U in order, of one filter and kChannels channels,
  /// computed in Scalar.
  template <int kChannels, class Scalar, class Put>
  static __device__ void transform_filter(const TaskArgs& a, int k, int first_c, Put&& put) {
    using Number = Vec<kChannels, Scalar>;
    Number columns[kWinogradR][kAlpha];
#pragma unroll
    for (int s = 0; s < kWinogradR; ++s) {
      Number g[kWinogradR];
#pragma unroll
      for (int r = 0; r < kWinogradR; ++r) {
        const int tap = r * kWinogradR + s;
#pragma unroll
        for (int i = 0; i < kChannels; ++i) {
          const int c = first_c + i;
          const std::int64_t index =
              kLayout == Layout::nchw
                  ? (static_cast<std::int64_t>(k) * a.c + c) * (kWinogradR * kWinogradR) + tap
                  : (static_cast<std::int64_t>(k) * (kWinogradR * kWinogradR) + tap) * a.c + c;
          const bool exists = k < a.k && c < a.c;
          g[r].lane[i] = exists ? static_cast<float>(stored(a.w)[index]) : 0.0f;
        }
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
        Vec<kChannels> values;
#pragma unroll
        for (int i = 0; i < kChannels; ++i) {
          values.lane[i] =
              static_cast<float>(static_cast<Scalar>(Transform::kGScale) * out[col].lane[i]);
        }
        put(values);
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

  /// The input under a tile: where it begins in channel 0, and which of its rows and columns exist.
  struct Window {
    const Stored* start;
    unsigned rows, cols;  // a bit for each
    __device__ Window(const TaskArgs& a, int tile) : rows(0), cols(0) {
      const TilePlace place = tile_place<kM>(a, tile);
      const int row = place.row - a.pad_h, col = place.col - a.pad_w;
      start = stored(a.x) + static_cast<std::int64_t>(place.image) * a.h * a.w_in * a.c +
              static_cast<std::int64_t>(row) * row_stride(a) + col * col_stride(a);
#pragma unroll
      for (int i = 0; i < kAlpha; ++i) {
        rows |= static_cast<unsigned>(row + i >= 0 && row + i < a.h) << i;
        cols |= static_cast<unsigned>(col + i >= 0 && col + i < a.w_in) << i;
      }
    }
  };

  /// Channels [c, c + kLanes) of a window, [row][column]; zero in the padding and past C.
  template <int kLanes>
  static __device__ void load_tile(const TaskArgs& a, const Window& window, int c,
                                   Vec<kLanes> (&d)[kAlpha][kAlpha]) {
    const std::int64_t channel_stride =
        kLayout == Layout::nchw ? static_cast<std::int64_t>(a.h) * a.w_in : 1;
    const Stored* line = window.start + c * channel_stride;
    const unsigned rows = c < a.c ? window.rows : 0;
    // In NCHW, the four pixels in the middle of a tile's rows are one load if they are aligned.
    if constexpr (kTilesSideBySide && kM == 4) {
      if (a.w_in % 4 == 0 && a.pad_w == 1 &&
          reinterpret_cast<std::uintptr_t>(a.x) % sizeof(Vec<4, Stored>) == 0) {
#pragma unroll
        for (int row = 0; row < kAlpha; ++row, line += row_stride(a)) {
          const bool inside = (rows >> row & 1) != 0;
          const Vec<4> middle = inside ? load<4>(line + 1) : zero<4>();
          d[row][0] = inside && (window.cols & 1) != 0 ? load<1>(line) : zero<1>();
#pragma unroll
          for (int i = 0; i < 4; ++i) d[row][i + 1].lane[0] = middle.lane[i];
          d[row][5] = inside && (window.cols >> 5 & 1) != 0 ? load<1>(line + 5) : zero<1>();
        }
        return;
      }
    }
#pragma unroll
    for (int row = 0; row < kAlpha; ++row, line += row_stride(a)) {
#pragma unroll
      for (int col = 0; col < kAlpha; ++col) {
        const bool inside = (rows >> row & window.cols >> col & 1) != 0;
        d[row][col] = to_floats(load_if<kLanes>(inside, line + col * col_stride(a)));
      }
    }
  }

  /// The same of any number of channels, so many with each load.
  template <int kOfLoad, int kLanes>
  static __device__ void load_channels(const TaskArgs& a, const Window& window, int c,
                                       Vec<kLanes> (&d)[kAlpha][kAlpha]) {
    if constexpr (kOfLoad == kLanes) {
      load_tile(a, window, c, d);
    } else {
#pragma unroll
      for (int first = 0; first < kLanes; first += kOfLoad) {
        Vec<kOfLoad> some[kAlpha][kAlpha];
        load_tile(a, window, c + first, some);
#pragma unroll
        for (int i = 0; i < kAlpha * kAlpha * kOfLoad; ++i) {
          const int pixel = i / kOfLoad;
          d[pixel / kAlpha][pixel % kAlpha].lane[first + i % kOfLoad] =
              some[pixel / kAlpha][pixel % kAlpha].lane[i % kOfLoad];
        }
      }
    }
  }

  /// Calls put(column, values) with the rows of all columns of V in order, of channels
  /// [c, c + kLanes) of one tile. More than one: they lie side by side in x, and C is a multiple of
  /// kLanes.
  template <int kLanes, class Put>
  static __device__ void transform_tile(const TaskArgs& a, const Window& window, int c, Put&& put) {
    Vec<kLanes> d[kAlpha][kAlpha];
    load_tile(a, window, c, d);
    transform_input(d, put);
  }
  /// The same of a tile that has been loaded, [row][column], and is overwritten.
  template <int kLanes, class Put>
  static __device__ void transform_input(Vec<kLanes> (&d)[kAlpha][kAlpha], Put&& put) {
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
      put(col, out);
    }
  }

  /// y of some tiles and filters of one group. block = filter chunk * tile chunks + tile chunk.
  /// `shared`: kOutputBytes.
  static __device__ void output(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                                std::byte* shared) {
    output(a, group, block, shared, [](float sum) { return sum; });
  }
  /// The same of M scaled; unscale(sum) undoes that.
  template <class Unscale>
  static __device__ void output(const TaskArgs& a, std::uint32_t group, std::uint32_t block,
                                std::byte* shared, Unscale unscale) {
    const OutputPart part(a, static_cast<int>(group), static_cast<int>(block));
    if constexpr (kInLines) {
      output_lines(a, part, *reinterpret_cast<Lines*>(shared), unscale);
    } else if (a.k % kWidth == 0) {
      output_vectors<kWidth>(a, part, unscale);
    } else {
      output_vectors<1>(a, part, unscale);
    }
  }

  /// Outputs of the 32 tiles of each warp on their way to threads that store neighbouring ones.
  struct Lines {
    float value[kThreads / 32][kM][32 * kM];
  };
  static constexpr bool kInLines = kTilesSideBySide && kM == 4;
  static constexpr int kOutputBytes = kInLines ? static_cast<int>(sizeof(Lines)) : 0;

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

  static __device__ int row_stride(const TaskArgs& a) {
    return kLayout == Layout::nchw ? a.w_in : a.w_in * a.c;
  }
  static __device__ int col_stride(const TaskArgs& a) { return kLayout == Layout::nchw ? 1 : a.c; }

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
        transform_tile<1>(a, Window(a, first_tile + tile), first_c + c,
                          [&](int col, const Vec<1>(&rows)[kAlpha]) {
#pragma unroll
                            for (int row = 0; row < kAlpha; ++row) {
                              to[(row * kAlpha + col) * position_stride] = rows[row].lane[0];
                            }
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
              a, Window(a, first_tile + tile), first_c + c,
              [&](int col, const Vec<kLanes>(&rows)[kAlpha]) {
#pragma unroll
                for (int row = 0; row < kAlpha; ++row) {
                  store(to + (row * kAlpha + col) * ThisPatch::kTiles * ThisPatch::kChannels,
                        rows[row]);
                }
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

  // What becomes of the sums of one filter.
  struct FilterTerms {
    float scale, bias;
    __device__ FilterTerms(const TaskArgs& a, int k)
        : scale(a.scale != nullptr ? static_cast<float>(stored(a.scale)[k]) : 1.0f),
          bias(a.bias != nullptr ? static_cast<float>(stored(a.bias)[k]) : 0.0f) {}
    __device__ float operator()(float sum) const { return sum * scale + bias; }
  };

  // What an output task is.
  struct OutputPart {
    TileChunk tiles;
    int first_tile;  // of all
    int first_k, end_k;
    PartOfM<NumberOfM> slot;
    __device__ OutputPart(const TaskArgs& a, int group, int block)
        : tiles(a, group, block),
          first_tile(group * a.group_tiles + tiles.first),
          first_k(block / a.tile_chunks * a.filters_per_output_task),
          end_k(min(first_k + a.filters_per_output_task, a.k)),
          slot(slot_of_m<NumberOfM, kLayout>(a, static_cast<std::uint32_t>(group % a.m_slots),
                                             kPositions)) {}
    /// Of its tile and of a filter.
    __device__ PartOfM<NumberOfM> sums(int tile, int k) const {
      return slot.from(0, k, tiles.first + tile);
    }
  };

  // Calls put(row, outputs) for the rows of a tile's outputs, from its sums of M on.
  template <int kLanes, class Unscale, class Put>
  static __device__ void transform_sums(const PartOfM<NumberOfM>& m, Unscale unscale, Put&& put) {
    Vec<kLanes> rows[kAlpha][kM];  // [column of M][output row]
#pragma unroll
    for (int col = 0; col < kAlpha; ++col) {
      Vec<kLanes> in[kAlpha];
#pragma unroll
      for (int row = 0; row < kAlpha; ++row) {
        const int position = row * kAlpha + col;
        in[row] = load<kLanes>(m.sums + position * m.strides.position);
        if constexpr (PartOfM<NumberOfM>::kScaled) {
          const float factor = m.factors[position * m.next_position()];
#pragma unroll
          for (float& sum : in[row].lane) sum *= factor;
        }
      }
      Transform::output(in, rows[col]);
    }
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
      put(row, out);
    }
  }

  // NCHW, m = 4: a warp takes 32 neighbouring tiles in one filter after the other. Rows of y that
  // are aligned to vectors are stored by the thread that computed them. Others would fill 4 bytes
  // of every sector at a time: they go through shared memory, so that neighbours are stored
  // together.
  template <class Unscale>
  static __device__ void output_lines(const TaskArgs& a, const OutputPart& part, Lines& lines,
                                      Unscale unscale) {
    constexpr int kWarps = kThreads / 32;
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    auto& line = lines.value[warp];
    const bool aligned = a.q % kM == 0;
    const std::int64_t plane = static_cast<std::int64_t>(a.p) * a.q;
    for (int first = 0; first < part.tiles.count; first += 32) {
      // The first row of outputs that this thread stores: its own tile's, or each 32nd of all.
      const int first_image = tile_place<kM>(a, part.first_tile + first).image;
      std::uint32_t index[kM];  // in filter 0, from the first image on
      int rows[kM];             // that exist
#pragma unroll
      for (int i = 0; i < kM; ++i) {
        const int tile = first + (aligned ? lane : i * (32 / kM) + lane / kM);
        const TilePlace place = tile_place<kM>(a, part.first_tile + tile);
        const int col = place.col + (aligned ? 0 : lane % kM);
        rows[i] = tile < part.tiles.count && col < a.q ? a.p - place.row : 0;
        index[i] = static_cast<std::uint32_t>((place.image - first_image) * a.k * plane +
                                              place.row * a.q + col);
      }
      for (int k = part.first_k + warp; k < part.end_k; k += kWarps) {
        const FilterTerms filter(a, k);
        const std::int64_t of_filter = (static_cast<std::int64_t>(first_image) * a.k + k) * plane;
        if (first + lane < part.tiles.count) {
          transform_sums<1>(part.sums(first + lane, k), unscale,
                            [&](int row, const Vec<1>(&out)[kM]) {
                              Vec<kM> run;
#pragma unroll
                              for (int i = 0; i < kM; ++i) run.lane[i] = filter(out[i].lane[0]);
                              if (!aligned) {
                                store(&line[row][lane * kM], run);
                              } else if (row < rows[0]) {
                                store_outputs(a, of_filter + index[0] + row * a.q, run);
                              }
                            });
        }
        if (aligned) continue;
        __syncwarp();
#pragma unroll
        for (int row = 0; row < kM; ++row) {
#pragma unroll
          for (int i = 0; i < kM; ++i) {
            if (row < rows[i]) {
              store_outputs(a, of_filter + index[i] + row * a.q,
                            load<1>(&line[row][i * 32 + lane]));
            }
          }
        }
        __syncwarp();
      }
    }
  }

  template <int kLanes, class Unscale>
  static __device__ void output_vectors(const TaskArgs& a, const OutputPart& part,
                                        Unscale unscale) {
    const int num_vectors = (part.end_k - part.first_k) / kLanes;
    for (int i = threadIdx.x; i < part.tiles.count * num_vectors; i += kThreads) {
      const Item item = split(i, part.tiles.count, num_vectors);
      const int k = part.first_k + item.vector * kLanes;
      const TilePlace place = tile_place<kM>(a, part.first_tile + item.tile);
      const std::int64_t image = place.image;
      transform_sums<kLanes>(part.sums(item.tile, k), unscale, [&](int row, auto& out) {
        if (place.row + row >= a.p) return;
        if constexpr (kLayout == Layout::nchw) {
          store_row(a, out, k, ((image * a.k + k) * a.p + place.row + row) * a.q + place.col,
                    a.q - place.col);
        } else {
          std::int64_t index = ((image * a.p + place.row + row) * a.q + place.col) * a.k + k;
#pragma unroll
          for (int col = 0; col < kM; ++col, index += a.k) {
            if (place.col + col >= a.q) continue;
            Vec<kLanes> run = out[col];
            if (a.scale != nullptr) run = run * load<kLanes>(stored(a.scale) + k);
            if (a.bias != nullptr) run = run + load<kLanes>(stored(a.bias) + k);
            store_outputs(a, index, run);
          }
        }
      });
    }
  }

  // One output row of a tile in NCHW: kM neighbouring pixels of filter k from y[index] on, of which
  // `room` exist. Vectors where all rows of y are aligned to them.
  static __device__ void store_row(const TaskArgs& a, const Vec<1> (&out)[kM], int k,
                                   std::int64_t index, int room) {
    constexpr int kRun = 2;
    const FilterTerms filter(a, k);
    const bool aligned = a.q % kRun == 0;
#pragma unroll
    for (int col = 0; col < kM; col += kRun) {
      Vec<kRun> run;
#pragma unroll
      for (int i = 0; i < kRun; ++i) run.lane[i] = filter(out[col + i].lane[0]);
      if (aligned) {
        if (col < room) store_outputs(a, index + col, run);
      } else {
#pragma unroll
        for (int i = 0; i < kRun; ++i) {
          if (col + i < room) store_outputs(a, index + col + i, Vec<1>{{run.lane[i]}});
        }
      }
    }
  }

  // Stores y[index] and what follows it, with residual and activation.
  template <int kLanes>
  static __device__ void store_outputs(const TaskArgs& a, std::int64_t index, Vec<kLanes> sum) {
    if (a.residual != nullptr) sum = sum + load<kLanes>(stored(a.residual) + index);
    activate(a.activation, sum.lane);
    store(reinterpret_cast<Stored*>(a.y) + index, sum);
  }
};

}  // namespace megaconv::cuda
