// SPDX-License-Identifier: Apache-2.0
// openCNN's output transform: y = activation(scale A^T M A + bias + residual), in rounds.
#pragma once

#include <cstdint>

#include "tasks/cuda/activation.cuh"
#include "tasks/opencnn/cuda/opencnn_staging.cuh"
#include "tasks/opencnn/cuda/opencnn_tile.cuh"
#include "tasks/opencnn/cuda/opencnn_transforms.cuh"

namespace megaconv::cuda::opencnn {

/// The output transform of one task. A thread computes two (filter, tile) a round, neighbours along
/// the fast dimension or (baseline) with the same fast index.
template <OutputLayout kOutput, Layout kLayout>
class OutputTransform {
  static constexpr bool kTilesFast = kLayout != Layout::nhwc;
  using Staging = typename StagingOf<kOutput, kTilesFast>::Type;
  static_assert(Staging::conflict_free());
  static constexpr bool kNeighbours = kOutput != OutputLayout::baseline;

 public:
  struct SharedStorage {
    alignas(16) float buffers[Staging::kBuffers][Staging::kBufferFloats];
  };

  __device__ OutputTransform(const TaskArgs& args, std::uint32_t group, std::uint32_t block)
      : args_(args), first_filter_(static_cast<int>(block) * kFilters) {
    strides_ = strides_of<kLayout>(args.n, args.k, args.p, args.q);
    // Each lane locates one tile; the others ask it.
    const Tile tile = locate<kLayout>(args, group, static_cast<int>(threadIdx.x) % 32);
    place_.rows = tile.exists ? min(kOutputTile, args.p - kOutputTile * tile.row) : 0;
    place_.cols = min(kOutputTile, args.q - kOutputTile * tile.col);
    place_.offset = tile.n * strides_.image + kOutputTile * tile.row * strides_.row +
                    kOutputTile * tile.col * strides_.column;
    const int pair_extent = kLayout == Layout::nchw   ? args.q
                            : kLayout == Layout::nhwc ? args.k
                                                      : args.n;
    vectors_ = (kNeighbours || kLayout == Layout::nchw) && pair_extent % 2 == 0;
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int k = filter(round, i);
        bias_[round][i] = args.bias != nullptr && k < args.k ? __ldg(args.bias + k) : 0.0f;
      }
    }
  }

  /// Begins and ends when no thread uses `shared` for anything else.
  __device__ void run(SharedStorage& shared, const Accumulators& sums) const {
    Place places[2];
    if constexpr (kTilesFast) find_places(0, places);
    if constexpr (Staging::kBuffers == 2) {
      Staging::store(shared.buffers[0], sums, 0);
      __syncthreads();
    }
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      float* buffer = shared.buffers[round % Staging::kBuffers];
      if constexpr (Staging::kBuffers == 2) {
        if (round + 1 < kRounds) Staging::store(shared.buffers[(round + 1) % 2], sums, round + 1);
      } else {
        Staging::store(buffer, sums, round);
      }
      if constexpr (!kTilesFast) find_places(round, places);
      const Pairs pairs = find_pairs(round, places);
      Vec<2> addend[kPairs] = {};
      if (args_.residual != nullptr) load_residual(pairs, addend);
      if constexpr (Staging::kBuffers == 1) __syncthreads();
      float m[2][kPositions];
      Staging::load(buffer, m);
      if (round + 1 < kRounds) __syncthreads();
      finish(round, pairs, m, addend);
    }
  }

 private:
  /// A tile's outputs in y: those of filter 0, and how many are inside the image.
  struct Place {
    std::int64_t offset;
    int rows, cols;
  };

  /// The eight outputs of a thread are stored as four pairs: in nchw the two columns of a row of a
  /// tile, else the same pixel of both (filter, tile).
  static constexpr int kPairs = 4;
  struct Pair {
    std::int64_t offset;  // of the first
    bool inside[2];
  };
  struct Pairs {
    Pair pair[kPairs];
    std::int64_t gap;  // from the first to the second: 1 if they are neighbours
  };

  /// Of output i of this thread: its index along the slow and the fast dimension.
  __device__ static int slow_index(int round, int i) {
    const int thread = static_cast<int>(threadIdx.x);
    return Staging::output_slow(kNeighbours ? thread : thread + i * kBlockThreads, round);
  }
  __device__ static int fast_index(int i) {
    return Staging::output_fast(static_cast<int>(threadIdx.x)) + (kNeighbours ? i : 0);
  }
  __device__ int filter(int round, int i) const {
    return first_filter_ + (kTilesFast ? slow_index(round, i) : fast_index(i));
  }

  /// Of the tiles of this thread's two outputs.
  __device__ void find_places(int round, Place (&places)[2]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int tile = kTilesFast ? fast_index(i) : slow_index(round, i);
      places[i].offset = __shfl_sync(0xffffffffu, place_.offset, tile);
      places[i].rows = __shfl_sync(0xffffffffu, place_.rows, tile);
      places[i].cols = __shfl_sync(0xffffffffu, place_.cols, tile);
    }
  }

  __device__ Pairs find_pairs(int round, const Place (&places)[2]) const {
    Pairs pairs;
    std::int64_t offset[2];
    bool exists[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int k = filter(round, i);
      offset[i] = places[i].offset + k * strides_.channel;
      exists[i] = k < args_.k;
    }
    pairs.gap = kNeighbours || kLayout == Layout::nchw ? 1 : offset[1] - offset[0];
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      pairs.pair[p].offset =
          offset[output_of(p, 0)] + row_of(p) * strides_.row + col_of(p, 0) * strides_.column;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const Place& place = places[output_of(p, j)];
        pairs.pair[p].inside[j] =
            exists[output_of(p, j)] && row_of(p) < place.rows && col_of(p, j) < place.cols;
      }
    }
    return pairs;
  }
  /// Member j of a pair is pixel (row, col) of the thread's output i.
  __device__ static constexpr int output_of(int pair, int j) {
    return kLayout == Layout::nchw ? pair / 2 : j;
  }
  __device__ static constexpr int row_of(int pair) {
    return kLayout == Layout::nchw ? pair % 2 : pair / 2;
  }
  __device__ static constexpr int col_of(int pair, int j) {
    return kLayout == Layout::nchw ? j : pair % 2;
  }

  __device__ void load_residual(const Pairs& pairs, Vec<2> (&addend)[kPairs]) const {
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      const Pair& pair = pairs.pair[p];
      const float* from = args_.residual + pair.offset;
      if (vectors_) {
        if (pair.inside[0]) addend[p] = load<2>(from);
      } else {
        if (pair.inside[0]) addend[p].lane[0] = *from;
        if (pair.inside[1]) addend[p].lane[1] = from[pairs.gap];
      }
    }
  }

  __device__ void finish(int round, const Pairs& pairs, const float (&m)[2][kPositions],
                         const Vec<2> (&addend)[kPairs]) const {
    float out[2][2][2];
    transform(m[0], out[0]);
    transform(m[1], out[1]);
    Vec<2> y[kPairs];
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int i = output_of(p, j);
        float sum = out[i][row_of(p)][col_of(p, j)];
        if (args_.scale != nullptr) sum *= __ldg(args_.scale + min(filter(round, i), args_.k - 1));
        y[p].lane[j] = activate(args_.activation, sum + bias_[round][i] + addend[p].lane[j]);
      }
    }
    if (vectors_) {
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        if (pairs.pair[p].inside[0]) store(args_.y + pairs.pair[p].offset, y[p]);
      }
    } else {
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        float* to = args_.y + pairs.pair[p].offset;
        if (pairs.pair[p].inside[0]) *to = y[p].lane[0];
        if (pairs.pair[p].inside[1]) to[pairs.gap] = y[p].lane[1];
      }
    }
  }

  __device__ static void transform(const float (&m)[kPositions], float (&out)[2][2]) {
    float columns[4][2];  // (A^T M)^T
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float column[4] = {m[j], m[4 + j], m[8 + j], m[12 + j]};
      output_transform_1d(column, columns[j]);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float row[4] = {columns[0][i], columns[1][i], columns[2][i], columns[3][i]};
      output_transform_1d(row, out[i]);
    }
  }

  const TaskArgs& args_;
  int first_filter_;
  Strides strides_;
  Place place_;
  bool vectors_;  // pairs lie in an even extent: they are 8-byte aligned, and both inside or none
  float bias_[kRounds][2];
};

}  // namespace megaconv::cuda::opencnn
