// SPDX-License-Identifier: Apache-2.0
// The FP32 matrix tile of GEMM tasks: kRows rows (Winograd tiles) by kFilters filters, over a
// sequence of steps of kDepth channels.
//
//   sum[row][filter] = sum over steps, over kDepth channels: A[step][channel][row] *
//   B[step][channel][filter]
//
// Both operands lie in memory as they lie in shared memory, channel by channel, so that a step of
// either is one contiguous block and a whole tile is a stream of them.
//
// A thread holds 8 x 8 sums, and reads the operands of a channel while it multiplies those of the
// one before. It reads two runs of 4 rows, 16 apart, and two runs of 4 filters, 32 apart, so that a
// warp's reads are free of bank conflicts.
//
// H200, 36 x 12,544 x 256 x 256, TFLOP/s, cuBLAS 48.2: this tile in four blocks an SM 53.0, three
// 50.5, two 46.4, one 38.4; without the early reads 51.3; blocks of 256 threads 49.7; 8 x 16 sums a
// thread (two blocks of 128 threads) 47.7; 16 x 8 sums 50.1; kDepth 8 47.8, 32 49.1.
#pragma once

#include "tasks/cuda/block_pipeline.cuh"
#include "tasks/cuda/m_strides.cuh"
#include "tasks/cuda/vec.cuh"

namespace megaconv::cuda {

template <int kNumRows, int kNumFilters, Layout kLayout>
struct SimtTile {
  static constexpr int kRows = kNumRows, kFilters = kNumFilters;
  static constexpr int kThreadRows = 8, kThreadFilters = 8;
  static constexpr int kThreads = kRows * kFilters / (kThreadRows * kThreadFilters);
  static constexpr int kBlocksPerSm = 512 / kThreads;  // 128 registers a thread
  static constexpr int kDepth = 16, kStages = 3;
  using Pipeline = BlockPipeline<kThreads, kStages>;
  using NumberOfM = float;

  struct Shared {
    alignas(128) float a[kStages][kDepth][kRows];
    alignas(128) float b[kStages][kDepth][kFilters];
    typename Pipeline::Shared pipeline;
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
  };

  /// Adds the products of the next step; calls start_next() once a stage is free.
  template <class StartNext>
  static __device__ void step(Pipeline& pipeline, Shared& shared, Sums& sums,
                              StartNext&& start_next) {
    pipeline.wait();
    __syncthreads();
    start_next();
    multiply(shared, pipeline.stage(), sums);
  }
  static __device__ void finish(Sums&) {}

  /// Stores the sums of existing rows and filters to M.
  static __device__ void store_sums(const Sums& sums, const PartOfM<float>& m, int num_rows,
                                    int num_filters) {
#pragma unroll
    for (int i = 0; i < kThreadRows; i += 4) {
#pragma unroll
      for (int j = 0; j < kThreadFilters; j += 4) {
        const int first_row = row(i), first_filter = filter(j);
        if (first_filter >= num_filters) continue;
#pragma unroll
        for (int l = 0; l < 4; ++l) {
          if constexpr (kLayout == Layout::nchw) {
            if (first_row >= num_rows) continue;
            store(m.sums + first_row + (first_filter + l) * m.strides.filter,
                  Vec<4>{{sums.value[i][j + l], sums.value[i + 1][j + l], sums.value[i + 2][j + l],
                          sums.value[i + 3][j + l]}});
          } else {
            if (first_row + l >= num_rows) continue;
            store(m.sums + (first_row + l) * m.strides.tile + first_filter,
                  Vec<4>{{sums.value[i + l][j], sums.value[i + l][j + 1], sums.value[i + l][j + 2],
                          sums.value[i + l][j + 3]}});
          }
        }
      }
    }
  }

 private:
  static __device__ void multiply(const Shared& shared, int stage, Sums& sums) {
    const float* const a = &shared.a[stage][0][row(0)];
    const float* const b = &shared.b[stage][0][filter(0)];
    Operands operands[2];
    operands[0].read(a, b, 0);
#pragma unroll
    for (int depth = 0; depth < kDepth; ++depth) {
      if (depth + 1 < kDepth) operands[(depth + 1) % 2].read(a, b, depth + 1);
      const Operands& now = operands[depth % 2];
#pragma unroll
      for (int i = 0; i < kThreadRows; ++i) {
#pragma unroll
        for (int forth = 0; forth < kThreadFilters; ++forth) {
          // Back and forth, so that neighbouring instructions share an operand.
          const int j = i % 2 == 0 ? forth : kThreadFilters - 1 - forth;
          sums.value[i][j] =
              fmaf(now.a[i / 4].lane[i % 4], now.b[j / 4].lane[j % 4], sums.value[i][j]);
        }
      }
    }
  }

  // One channel of this thread's rows and filters.
  struct Operands {
    Vec<4> a[kThreadRows / 4], b[kThreadFilters / 4];
    __device__ void read(const float* from_a, const float* from_b, int depth) {
#pragma unroll
      for (int i = 0; i < kThreadRows / 4; ++i) {
        a[i] = load<4>(from_a + depth * kRows + i * kRowGap);
      }
#pragma unroll
      for (int j = 0; j < kThreadFilters / 4; ++j) {
        b[j] = load<4>(from_b + depth * kFilters + j * kFilterGap);
      }
    }
  };
};

}  // namespace megaconv::cuda
