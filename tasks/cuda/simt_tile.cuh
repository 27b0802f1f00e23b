// SPDX-License-Identifier: Apache-2.0
// The FP32 matrix tile that GEMM and direct tasks share: kRows rows (Winograd tiles, or output
// pixels) by kFilters filters, over a sequence of steps of kDepth channels.
//
//   sum[row][filter] = sum over steps, over kDepth channels: A[step][row][channel] *
//   B[step][channel][filter]
//
// A thread holds 8 x 8 sums. Shared memory is double-buffered and filled by asynchronous copies, so
// that one barrier a step suffices and no register waits for global memory:
//
//   wait for the copies of step s; barrier
//   start the copies of step s + 1 into the other buffer
//   sums += shared[s % 2]
//
// Shared memory holds both operands with the channel as the slow index. A thread reads two runs of
// 4 rows, 16 apart, and two runs of 4 filters, 32 apart, so that a warp's reads are free of bank
// conflicts.
//
// Tried on an H200: 8 x 16 sums a thread (a quarter less shared-memory traffic, 255 registers, 8
// warps an SM) is 1.3 times slower than 8 x 8 with 16 warps.
#pragma once

#include <cuda_pipeline.h>

#include "tasks/cuda/task_args.hpp"
#include "tasks/cuda/vec.cuh"

namespace megaconv::cuda {

template <int kRows, int kFilters>
struct SimtTile {
  static constexpr int kThreadRows = 8, kThreadFilters = 8;
  static constexpr int kThreads = kRows * kFilters / (kThreadRows * kThreadFilters);
  static constexpr int kDepth = 16;

  struct Shared {
    float a[2][kDepth][kRows];
    float b[2][kDepth][kFilters];
  };

  // A warp is 4 x 8 threads.
  static constexpr int kRowGap = 16, kFilterGap = 32;
  static constexpr int kWarpRows = 4 * kThreadRows, kWarpFilters = 8 * kThreadFilters;
  static constexpr int kWarpsAcross = kFilters / kWarpFilters;
  static_assert(kRows % kWarpRows == 0 && kFilters % kWarpFilters == 0);

  /// Rows of this thread's sums: row(0) to row(0) + 3, row(4) to row(4) + 3, ...; filters likewise.
  static __device__ int row(int i) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    return warp / kWarpsAcross * kWarpRows + lane / 8 * 4 + i / 4 * kRowGap;
  }
  static __device__ int filter(int j) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    return warp % kWarpsAcross * kWarpFilters + lane % 8 * 4 + j / 4 * kFilterGap;
  }

  struct Sums {
    float value[kThreadRows][kThreadFilters];
    __device__ void clear() {
#pragma unroll
      for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
        for (int j = 0; j < kThreadFilters; ++j) value[i][j] = 0.0f;
      }
    }
  };

  /// An operand block of kDepth channels x kCount elements on its way from global to shared memory,
  /// when the elements of a channel are neighbours in both: 16-byte asynchronous copies.
  template <int kCount>
  struct StraightBlock {
    static constexpr int kRunsPerChannel = kCount / 4;
    static constexpr int kRuns = kDepth * kRunsPerChannel / kThreads;

    /// `channel_stride` in floats; channels past num_channels and runs past num_elements become
    /// zero.
    __device__ void start(float (&shared)[kDepth][kCount], const float* block,
                          std::int64_t channel_stride, int num_channels, int num_elements) {
#pragma unroll
      for (int i = 0; i < kRuns; ++i) {
        const int index = static_cast<int>(threadIdx.x) + i * kThreads;
        const int channel = index / kRunsPerChannel, element = index % kRunsPerChannel * 4;
        const bool exists = channel < num_channels && element < num_elements;
        __pipeline_memcpy_async(&shared[channel][element],
                                exists ? block + channel * channel_stride + element : block,
                                sizeof(Vec<4>), exists ? 0 : sizeof(Vec<4>));
      }
    }
    __device__ void finish(float (&)[kDepth][kCount]) {}
  };

  /// The same when the channels of an element are neighbours in global memory: a thread takes some
  /// channels of one element through registers and turns them over; neighbouring threads meet
  /// neighbouring words.
  template <int kCount>
  struct TurnedBlock {
    static constexpr int kThreadsPerElement = kThreads > kCount ? kThreads / kCount : 1;
    static constexpr int kElements = kThreads > kCount ? 1 : kCount / kThreads;
    static constexpr int kChannels = kDepth / kThreadsPerElement;
    float value[kElements][kChannels];

    static __device__ int element(int i) {
      return static_cast<int>(threadIdx.x) % kCount + i * kThreads;
    }
    static __device__ int first_channel() {
      return static_cast<int>(threadIdx.x) / kCount * kChannels;
    }
    /// `element_stride` in floats; all channels exist, elements past num_elements become zero.
    __device__ void start(const float* block, std::int64_t element_stride, int num_elements) {
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        const bool exists = element(i) < num_elements;
        const float* const source = block + element(i) * element_stride + first_channel();
#pragma unroll
        for (int c = 0; c < kChannels; c += 4) {
          const Vec<4> part = exists ? load<4>(source + c) : zero<4>();
#pragma unroll
          for (int j = 0; j < 4; ++j) value[i][c + j] = part.lane[j];
        }
      }
    }
    __device__ void finish(float (&shared)[kDepth][kCount]) {
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
#pragma unroll
        for (int c = 0; c < kChannels; ++c) shared[first_channel() + c][element(i)] = value[i][c];
      }
    }
  };

  /// Adds the products of one step.
  static __device__ void multiply(const Shared& shared, int buffer, Sums& sums) {
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
      Vec<4> a[kThreadRows / 4], b[kThreadFilters / 4];
#pragma unroll
      for (int i = 0; i < kThreadRows; i += 4) a[i / 4] = load<4>(&shared.a[buffer][depth][row(i)]);
#pragma unroll
      for (int j = 0; j < kThreadFilters; j += 4) {
        b[j / 4] = load<4>(&shared.b[buffer][depth][filter(j)]);
      }
#pragma unroll
      for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
        for (int j = 0; j < kThreadFilters; ++j) {
          sums.value[i][j] = fmaf(a[i / 4].lane[i % 4], b[j / 4].lane[j % 4], sums.value[i][j]);
        }
      }
    }
  }
};

}  // namespace megaconv::cuda
