// SPDX-License-Identifier: Apache-2.0
// The FP32 matrix tile that GEMM and direct tasks share: kRows rows (Winograd tiles, or output
// pixels) by kFilters filters, over a sequence of steps of kDepth = 16 channels.
//
//   sum[row][filter] = sum over steps, over 16 channels: A[step][row][channel] *
//   B[step][channel][filter]
//
// 256 threads hold 8 x 8 sums each. Global memory is read one step ahead into registers, shared
// memory is double-buffered, so that one barrier a step suffices:
//
//   registers <- step s + 1        (global loads in flight)
//   sums += shared[s % 2]          (FFMA)
//   shared[(s + 1) % 2] <- registers
//   barrier
//
// A lies in shared memory as [channel][row]: a thread loads channels of one row and stores them to
// kDepth / ... rows of shared memory, neighbouring threads to neighbouring words. Each thread reads
// two runs of 4 rows, kRows / 2 apart, and two runs of 4 filters, so that a warp's 16-byte reads
// cover 128 or 64 consecutive bytes and are served at once.
#pragma once

#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/vec.cuh"

namespace megaconv::cuda {

template <int kRows, int kFilters>
struct SimtTile {
  static_assert(kRows * kFilters == 64 * kBlockThreads);
  static constexpr int kDepth = 16;
  static constexpr int kSharedBytes = 2 * kDepth * (kRows + kFilters) * sizeof(float);

  // A: kThreadsPerRow threads share a row, each takes kRowChannels of its 16 channels.
  static constexpr int kThreadsPerRow = kBlockThreads / kRows > 0 ? kBlockThreads / kRows : 1;
  static constexpr int kRowChannels = kDepth / kThreadsPerRow;
  // B: 16 rows of kFilters, in runs of 4.
  static constexpr int kRunsPerRow = kFilters / 4;
  static constexpr int kFilterRuns = kDepth * kRunsPerRow / kBlockThreads;

  // A warp covers 4 x 8 threads: 4 runs of rows, 8 runs of filters.
  static constexpr int kWarpsAcross = kFilters / 64;

  /// Row and first channel (within a step) that this thread loads of A.
  static __device__ int load_row() { return static_cast<int>(threadIdx.x) % kRows; }
  static __device__ int load_channel() {
    return static_cast<int>(threadIdx.x) / kRows * kRowChannels;
  }
  /// Rows and filters of this thread's sums: first_row() + 4 * {0: 0, 1: kRowGap} + 0..3, likewise
  /// filters.
  static constexpr int kRowGap = 16, kFilterGap = 32;
  static __device__ int first_row() {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    return warp / kWarpsAcross * 32 + lane / 8 * 4;
  }
  static __device__ int first_filter() {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    return warp % kWarpsAcross * 64 + lane % 8 * 4;
  }

  struct Sums {
    float value[8][8];  // [row][filter]; rows 0-3 from first_row(), 4-7 kRowGap further; filters
                        // likewise
    __device__ void clear() {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) value[i][j] = 0.0f;
      }
    }
  };

  /// What is on its way from global to shared memory.
  struct Staged {
    float a[kRowChannels];
    Vec<4> b[kFilterRuns];
  };

  struct Shared {
    float a[2][kDepth][kRows];
    float b[2][kDepth][kFilters];
  };

  /// Loads B rows [0, 16) of a step from `rows` (row stride in floats); runs past `num_filters` are
  /// zero.
  static __device__ void load_filters(const float* rows, std::int64_t stride, int num_filters,
                                      Staged& staged) {
#pragma unroll
    for (int i = 0; i < kFilterRuns; ++i) {
      const int run = static_cast<int>(threadIdx.x) + i * kBlockThreads;
      const int filter = run % kRunsPerRow * 4;
      staged.b[i] =
          filter < num_filters ? load<4>(rows + run / kRunsPerRow * stride + filter) : zero<4>();
    }
  }

  static __device__ void store_staged(const Staged& staged, int buffer, Shared& shared) {
#pragma unroll
    for (int i = 0; i < kRowChannels; ++i) {
      shared.a[buffer][load_channel() + i][load_row()] = staged.a[i];
    }
#pragma unroll
    for (int i = 0; i < kFilterRuns; ++i) {
      const int run = static_cast<int>(threadIdx.x) + i * kBlockThreads;
      store(&shared.b[buffer][run / kRunsPerRow][run % kRunsPerRow * 4], staged.b[i]);
    }
  }

  static __device__ void multiply(const Shared& shared, int buffer, Sums& sums) {
    const int row = first_row(), filter = first_filter();
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
      const Vec<4> a[2] = {load<4>(&shared.a[buffer][depth][row]),
                           load<4>(&shared.a[buffer][depth][row + kRowGap])};
      const Vec<4> b[2] = {load<4>(&shared.b[buffer][depth][filter]),
                           load<4>(&shared.b[buffer][depth][filter + kFilterGap])};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          sums.value[i][j] = fmaf(a[i / 4].lane[i % 4], b[j / 4].lane[j % 4], sums.value[i][j]);
        }
      }
    }
  }
};

}  // namespace megaconv::cuda
