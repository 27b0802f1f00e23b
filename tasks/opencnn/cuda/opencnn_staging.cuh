// SPDX-License-Identifier: Apache-2.0
// How an openCNN task's products M go from the registers that hold them through shared memory to
// the threads that transform them (paper, section 4.1).
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

#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/vec.cuh"
#include "tasks/opencnn/opencnn_blocking.hpp"

namespace megaconv::cuda::opencnn {

/// Lane of a warp -> its groups of four filters and of four tiles. Two lanes that differ in bit 0
/// load the same filters, two that differ in bit 1 the same tiles: what the hardware needs to serve
/// half a warp's 16-byte loads in one pass.
__host__ __device__ constexpr int filter_group(int lane) { return lane >> 1 & 7; }
__host__ __device__ constexpr int tile_group(int lane) { return (lane & 16) >> 3 | (lane & 1); }

/// Sums of one thread: [its position][filter][tile], filters and tiles in the order above.
using Accumulators = float[2][8][8];

inline constexpr int kRounds = 4;

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

  /// Place of a pair, in pairs. `index`: (which, upper, fast_group) as one number.
  __host__ __device__ static constexpr int row(int slow_group) { return slow_group * kRowStride; }
  __host__ __device__ static constexpr int column(int slow_group, int index) {
    return kCompact ? (index + kShift * slow_group) % kRow : index;
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
      for (int index = 0; index < kRow; index += Shape::kFastGroups) {
        result &= no_conflict(16, 16, [&](int i) {
          const int lane = first + i, slow_group = Shape::slow_group(lane);
          return row(slow_group) + column(slow_group, index + Shape::fast_group(lane));
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

}  // namespace megaconv::cuda::opencnn
