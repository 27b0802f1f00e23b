// SPDX-License-Identifier: Apache-2.0
// openCNN's output transform: y = A^T M A with the epilogue, from products M that are spread over
// the registers of a thread block (paper, section 4.1).
//
// A warp holds two of the 16 positions of 64 filters x 32 tiles; a transform needs all 16 of one
// (filter, tile). They meet in shared memory, 512 of the 2,048 (filter, tile) a round.
//
// Fast and slow. Neighbours in y are neighbouring tiles (nchw, chwn) or filters (nhwc). That
// dimension is called fast, the other slow. A lane holds 8 fast x 8 slow of each position, in runs
// of four: with kFastGroups lanes along the fast dimension and kSlowGroups along the slow one,
//
//   fast = 4 fast_group + 0..3 + (0 or 4 kFastGroups)       tiles fast: 4 x 8 lanes
//   slow = 4 slow_group + 0..3 + (0 or 4 kSlowGroups)       filters fast: 8 x 4 lanes
//
// The paper has the first case only (its Figure 4: lanes are (filter group, tile group), below).
#pragma once

#include <cstdint>

#include "tasks/cuda/opencnn_blocking.hpp"
#include "tasks/cuda/opencnn_tile.cuh"
#include "tasks/cuda/opencnn_transforms.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/vec.cuh"

namespace megaconv::cuda::opencnn {

/// Lane of a warp -> its groups of four filters and of four tiles. Two lanes that differ in bit 0
/// load the same filters, two that differ in bit 1 the same tiles: what the hardware needs to serve
/// half a warp's 16-byte loads in one pass.
__host__ __device__ constexpr int filter_group(int lane) { return lane >> 1 & 7; }
__host__ __device__ constexpr int tile_group(int lane) { return (lane & 16) >> 3 | (lane & 1); }

/// Sums of one thread: [its position][filter][tile], filters and tiles in the order above.
using Accumulators = float[2][8][8];

inline constexpr int kRounds = 4;
inline constexpr int kRoundOutputs = kFilters * kTiles / kRounds;  // (filter, tile) of a round

/// What the four layouts share.
template <bool kTilesFast>
struct StagingShape {
  static constexpr int kFastGroups = kTilesFast ? 4 : 8;
  static constexpr int kSlowGroups = 32 / kFastGroups;
  static constexpr int kFast = 8 * kFastGroups;
  // Different fast groups among lanes 0-15 (or 16-31), and among lanes 0-7 (or the next eight,
  // ...).
  static constexpr int kFastGroupsOfHalfWarp = kTilesFast ? 2 : 8;
  static constexpr int kFastGroupsOfQuarterWarp = kTilesFast ? 2 : 4;

  __host__ __device__ static constexpr int fast_group(int lane) {
    return kTilesFast ? tile_group(lane) : filter_group(lane);
  }
  __host__ __device__ static constexpr int slow_group(int lane) {
    return kTilesFast ? filter_group(lane) : tile_group(lane);
  }
};

/// True when the `count` accesses bank(0), bank(1), ... fall into different ones of `banks`.
template <class Bank>
constexpr bool no_conflict(int count, int banks, const Bank& bank) {
  unsigned taken = 0;
  for (int i = 0; i < count; ++i) {
    const unsigned bit = 1u << bank(i) % banks;
    if ((taken & bit) != 0) return false;
    taken |= bit;
  }
  return true;
}

/// The layouts that store 8 bytes: in round r every lane stores its slow indices
/// 4 slow_group + r + 4 kSlowGroups which, which = 0, 1 (Figure 7: two matrices merged). A run of
/// four is cut into two pairs, kept in two matrices:
///
///   [position][pair][slow_group][which][upper][fast_group] of pairs, upper: fast >= 4 kFastGroups
///
/// A store of 16 lanes (half a warp is one pass of 128 bytes) goes to kFastGroupsOfHalfWarp
/// neighbours in each of several rows; it meets no bank twice when rows begin that many pairs
/// apart, modulo 16. Rows are 16 or 32 pairs, so they are padded by that many pairs, or, without
/// padding, rotated by that many more each (Figure 8).
template <OutputLayout kOutput, bool kTilesFast>
struct PairStaging : StagingShape<kTilesFast> {
  using Shape = StagingShape<kTilesFast>;
  static constexpr bool kCompact = kOutput == OutputLayout::optSTS64_compact;
  static constexpr bool kLoadsPairs = kOutput == OutputLayout::optLDS64;
  static constexpr int kBuffers = kCompact ? 2 : 1;

  static constexpr int kShift = Shape::kFastGroupsOfHalfWarp;
  static constexpr int kRow = 4 * Shape::kFastGroups;                // pairs of data
  static constexpr int kRowStride = kRow + (kCompact ? 0 : kShift);  // pairs
  // optLDS64 reads both matrices at once, 8 pairs of each: they begin 8 pairs apart, modulo 16.
  static constexpr int kMatrix = Shape::kSlowGroups * kRowStride + (kLoadsPairs ? 8 : 0);
  static constexpr int kPosition = 2 * kMatrix;
  static constexpr int kBufferFloats = 2 * kPositions * kPosition;

  /// Of a pair, in pairs. `column`: (which, upper, fast_group) as one number.
  __host__ __device__ static constexpr int row(int slow_group) { return slow_group * kRowStride; }
  __host__ __device__ static constexpr int column(int slow_group, int column) {
    return kCompact ? (column + kShift * slow_group) % kRow : column;
  }

  /// Reading, thread t: half a pair (t % 2) of each matrix or, optLDS64, a pair of matrix t % 2.
  __host__ __device__ static constexpr int read_slow_group(int thread) { return thread / 2 / kRow; }
  __host__ __device__ static constexpr int read_pair(int thread) {
    const int slow_group = read_slow_group(thread);
    return row(slow_group) + column(slow_group, thread / 2 % kRow) +
           (kLoadsPairs ? thread % 2 * kMatrix : 0);
  }

  /// Every pass of a store (16 lanes of 8 bytes) and of a load (the same, or 32 lanes of 4 bytes).
  static constexpr bool conflict_free() {
    bool result = true;
    for (int first = 0; first < 32; first += 16) {
      for (int column_of_zero = 0; column_of_zero < kRow; column_of_zero += Shape::kFastGroups) {
        result &= no_conflict(16, 16, [&](int i) {
          const int lane = first + i, slow_group = Shape::slow_group(lane);
          return row(slow_group) + column(slow_group, column_of_zero + Shape::fast_group(lane));
        });
      }
    }
    constexpr int kPass = kLoadsPairs ? 16 : 32;
    for (int first = 0; first < kBlockThreads; first += kPass) {
      result &= no_conflict(kPass, kPass, [&](int i) {
        const int thread = first + i, pair = read_pair(thread);
        return kLoadsPairs ? pair : 2 * pair + thread % 2;
      });
    }
    return result;
  }
  /// The two neighbours that thread t transforms: fast and fast + 1 of one slow index.
  __host__ __device__ static constexpr int output_fast(int thread) { return 2 * (thread % kRow); }
  __host__ __device__ static constexpr int output_slow(int thread, int round) {
    return 4 * read_slow_group(thread) + round +
           4 * Shape::kSlowGroups * (thread / 2 % kRow / (kRow / 2));
  }
  /// Which two of a run of four are the pair of a matrix. Read in halves, the lanes 2i and 2i + 1
  /// shall receive 0, 1 and 2, 3: so the first matrix has 0 and 2 (y and z swapped, Figure 12).
  __host__ __device__ static constexpr int run_index(int matrix, int half) {
    return kLoadsPairs ? 2 * matrix + half : 2 * half + matrix;
  }

  __device__ static void store(float* buffer, const Accumulators& sums, int round) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int slow_group = Shape::slow_group(lane);
    float* at = buffer + 2 * (2 * warp * kPosition + row(slow_group));
#pragma unroll
    for (int which = 0; which < 2; ++which) {
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) {
        const int pair =
            column(slow_group, (2 * which + upper) * Shape::kFastGroups + Shape::fast_group(lane));
#pragma unroll
        for (int position = 0; position < 2; ++position) {
#pragma unroll
          for (int matrix = 0; matrix < 2; ++matrix) {
            const auto value = [&](int half) {
              const int slow = 4 * which + round, fast = 4 * upper + run_index(matrix, half);
              return kTilesFast ? sums[position][slow][fast] : sums[position][fast][slow];
            };
            cuda::store(at + 2 * (position * kPosition + matrix * kMatrix + pair),
                        Vec<2>{value(0), value(1)});
          }
        }
      }
    }
  }

  __device__ static void load(const float* buffer, float (&m)[2][kPositions]) {
    const int thread = static_cast<int>(threadIdx.x);
    const float* at = buffer + 2 * read_pair(thread) + (kLoadsPairs ? 0 : thread % 2);
#pragma unroll
    for (int position = 0; position < kPositions; ++position) {
      if constexpr (kLoadsPairs) {
        const Vec<2> pair = cuda::load<2>(at + 2 * position * kPosition);
        m[0][position] = pair.lane[0];
        m[1][position] = pair.lane[1];
      } else {
        m[0][position] = at[2 * position * kPosition];
        m[1][position] = at[2 * (position * kPosition + kMatrix)];
      }
    }
  }
};

/// The reference layout that the paper starts from (Figure 5): whole runs of four in one store, so
/// a round has room for half the lanes only.
///
///   [position][0..3][slow_group of the round][upper][fast_group] of runs
///
/// A quarter of a warp is one pass: rows begin kFastGroupsOfQuarterWarp runs apart, modulo 8.
template <bool kTilesFast>
struct RunStaging : StagingShape<kTilesFast> {
  using Shape = StagingShape<kTilesFast>;
  static constexpr int kBuffers = 1;
  static constexpr int kRow = 2 * Shape::kFastGroups;                        // runs of data
  static constexpr int kRowStride = kRow + Shape::kFastGroupsOfQuarterWarp;  // runs
  static constexpr int kRoundGroups = Shape::kSlowGroups / 2;
  static constexpr int kPosition = 4 * kRoundGroups * kRowStride;
  static constexpr int kBufferFloats = 4 * kPositions * kPosition;

  /// Thread t transforms one fast index of two slow ones: words t and t + 256 of the rows.
  __host__ __device__ static constexpr int output_fast(int thread) { return thread % Shape::kFast; }
  __host__ __device__ static constexpr int output_slow(int thread, int round) {
    const int row = thread / Shape::kFast;
    return 4 * (round % 2 * kRoundGroups + row % kRoundGroups) + row / kRoundGroups +
           4 * Shape::kSlowGroups * (round / 2);
  }

  /// Every pass of a store: the lanes of 8 that take part, 16 bytes each. Loads are rows of words.
  static constexpr bool conflict_free() {
    bool result = true;
    for (int first = 0; first < 32; first += 8) {
      int runs[8] = {}, count = 0;
      for (int lane = first; lane < first + 8; ++lane) {
        if (Shape::slow_group(lane) / kRoundGroups != 0) continue;
        runs[count++] = Shape::slow_group(lane) * kRowStride + Shape::fast_group(lane);
      }
      result &= no_conflict(count, 8, [&](int i) { return runs[i]; });
    }
    return result;
  }

  __device__ static void store(float* buffer, const Accumulators& sums, int round) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int slow_group = Shape::slow_group(lane);
    if (slow_group / kRoundGroups != round % 2) return;
    float* at = buffer + 4 * (2 * warp * kPosition + slow_group % kRoundGroups * kRowStride +
                              Shape::fast_group(lane));
#pragma unroll
    for (int position = 0; position < 2; ++position) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int upper = 0; upper < 2; ++upper) {
          Vec<4> run;
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const int slow = 4 * (round / 2) + i, fast = 4 * upper + j;
            run.lane[j] = kTilesFast ? sums[position][slow][fast] : sums[position][fast][slow];
          }
          cuda::store(at + 4 * (position * kPosition + i * kRoundGroups * kRowStride +
                                upper * Shape::kFastGroups),
                      run);
        }
      }
    }
  }

  __device__ static void load(const float* buffer, float (&m)[2][kPositions]) {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int word = thread + i * kBlockThreads;
      const float* at = buffer + 4 * (word / Shape::kFast * kRowStride) + word % Shape::kFast;
#pragma unroll
      for (int position = 0; position < kPositions; ++position) {
        m[i][position] = at[4 * position * kPosition];
      }
    }
  }
};

/// Staging of a layout.
template <OutputLayout kOutput, bool kTilesFast>
struct StagingOf {
  using Type = PairStaging<kOutput, kTilesFast>;
};
template <bool kTilesFast>
struct StagingOf<OutputLayout::baseline, kTilesFast> {
  using Type = RunStaging<kTilesFast>;
};

/// The output transform of one task.
template <OutputLayout kOutput, Layout kLayout>
class OutputTransform {
  static constexpr bool kTilesFast = kLayout != Layout::nhwc;
  using Staging = typename StagingOf<kOutput, kTilesFast>::Type;
  static_assert(Staging::conflict_free());
  // The two outputs of a thread are neighbours along the fast dimension, or (baseline) not.
  static constexpr bool kFastPairs = kOutput != OutputLayout::baseline;

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
    even_ = pair_extent % 2 == 0;
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
        __syncthreads();
      }
      float m[2][kPositions];
      Staging::load(buffer, m);
      if (round + 1 < kRounds) __syncthreads();
      if constexpr (!kTilesFast) find_places(round, places);
      finish(round, places, m);
    }
  }

 private:
  /// A tile's outputs in y: those of filter 0, and how many are inside the image.
  struct Place {
    std::int64_t offset;
    int rows, cols;
  };

  /// Of the tiles of this thread's two outputs.
  __device__ void find_places(int round, Place (&places)[2]) const {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int tile =
          kTilesFast ? Staging::output_fast(thread) + (kFastPairs ? i : 0) : slow_index(round, i);
      places[i].offset = __shfl_sync(0xffffffffu, place_.offset, tile);
      places[i].rows = __shfl_sync(0xffffffffu, place_.rows, tile);
      places[i].cols = __shfl_sync(0xffffffffu, place_.cols, tile);
    }
  }

  __device__ static int slow_index(int round, int i) {
    const int thread = static_cast<int>(threadIdx.x);
    return Staging::output_slow(kFastPairs ? thread : thread + i * kBlockThreads, round);
  }
  __device__ static int fast_index(int i) {
    return Staging::output_fast(static_cast<int>(threadIdx.x)) + (kFastPairs ? i : 0);
  }

  __device__ void finish(int round, const Place (&places)[2],
                         const float (&m)[2][kPositions]) const {
    float out[2][2][2];
    float bias[2];
    bool exists[2];
    std::int64_t at[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      transform(m[i], out[i]);
      const int k = first_filter_ + (kTilesFast ? slow_index(round, i) : fast_index(i));
      exists[i] = k < args_.k;
      bias[i] = args_.bias != nullptr && exists[i] ? args_.bias[k] : 0.0f;
      at[i] = places[i].offset + k * strides_.channel;
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      if constexpr (kLayout == Layout::nchw) {
        // The columns of a tile are neighbours.
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const bool inside = exists[i] && row < places[i].rows;
          put_pair(at[i] + row * strides_.row, {out[i][row][0], out[i][row][1]}, {bias[i], bias[i]},
                   inside, inside && places[i].cols == 2);
        }
      } else {
#pragma unroll
        for (int col = 0; col < 2; ++col) {
          const std::int64_t pixel = row * strides_.row + col * strides_.column;
          bool inside[2];
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            inside[i] = exists[i] && row < places[i].rows && col < places[i].cols;
          }
          if constexpr (kFastPairs) {
            put_pair(at[0] + pixel, {out[0][row][col], out[1][row][col]}, {bias[0], bias[1]},
                     inside[0], inside[1]);
          } else {
            if (inside[0]) put<1>(at[0] + pixel, {out[0][row][col]}, {bias[0]});
            if (inside[1]) put<1>(at[1] + pixel, {out[1][row][col]}, {bias[1]});
          }
        }
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

  /// Two neighbours in memory; together when the extent they lie in is even, which also says that
  /// both exist or none and that they are 8-byte aligned.
  __device__ void put_pair(std::int64_t at, Vec<2> sum, Vec<2> bias, bool first,
                           bool second) const {
    if (even_) {
      if (first) put<2>(at, sum, bias);
    } else {
      if (first) put<1>(at, {sum.lane[0]}, {bias.lane[0]});
      if (second) put<1>(at + 1, {sum.lane[1]}, {bias.lane[1]});
    }
  }

  /// y = relu(sum + bias + residual)
  template <int kWidth>
  __device__ void put(std::int64_t at, Vec<kWidth> sum, Vec<kWidth> bias) const {
    sum = sum + bias;
    if (args_.residual != nullptr) sum = sum + load<kWidth>(args_.residual + at);
    if (args_.relu) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum.lane[i] = sum.lane[i] < 0.0f ? 0.0f : sum.lane[i];
    }
    store(args_.y + at, sum);
  }

  const TaskArgs& args_;
  int first_filter_;
  Strides strides_;
  Place place_;
  bool even_;
};

}  // namespace megaconv::cuda::opencnn
