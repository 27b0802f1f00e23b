// SPDX-License-Identifier: Apache-2.0
// The matrix tile of GEMM tasks on Hopper's tensor cores: 128 rows (Winograd tiles) by kFilters
// filters. Operands are scaled FP16 numbers: pairs, with three products a step, which are as good
// as FP32 (split_f16.cuh), or single ones, with one product.
//
//   wait for the copies of step s
//   start the products of step s              the tensor cores run on while
//   wait for the products of step s - 1       the threads wait here, and
//   barrier; start the copies of step s + kStages - 1 into the stage that step s - 1 leaves
//
// Each of two warpgroups has 64 rows of what the instruction takes as its first operand; two thread
// blocks share an SM and hide each other's epilogues. A thread's sums are neighbours along the
// second operand, so that is what lies side by side in M: filters in NHWC, tiles in NCHW. Its rows
// are in an order such that four sums are a vector: of every 16, row 4 q + 2 i + e is column 8 i +
// 2 q + e of the instruction, which thread q of four holds for both i.
#pragma once

#include "mapping/tiling.hpp"
#include "tasks/cuda/block_pipeline.cuh"
#include "tasks/cuda/m_strides.cuh"
#include "tasks/cuda/split_f16.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/cuda/wgmma.cuh"

namespace megaconv::cuda {

/// An operand: steps of kDepth channels, in each all numbers, or all hi, then all lo:
///   [step][part][kDepth / 8][rows][8 channels]
template <int kNumParts>
struct TensorOperand {
  static constexpr int kParts = kNumParts, kDepth = 64 / kParts, kOctets = kDepth / 8;
  /// FP16 elements from an operand's start to eight channels of its first row, of the first part.
  static __device__ std::int64_t octet(int index, int rows) {
    return static_cast<std::int64_t>(index / kOctets * kParts * kOctets + index % kOctets) * rows *
           8;
  }
  /// From an element of a part to the same of the next.
  static constexpr int next_part(int rows) { return kDepth * rows; }
};

template <int kNumFilters, class OperandType, Layout kLayout>
struct TensorTile {
  using Operand = OperandType;
  static constexpr int kRows = 128, kFilters = kNumFilters;
  static constexpr bool kTilesSideBySide = kLayout == Layout::nchw;
  static constexpr int kThreads = 256, kBlocksPerSm = 2;
  static constexpr int kDepth = Operand::kDepth, kStages = kFilters == 128 ? 3 : 4;
  using Pipeline = BlockPipeline<kThreads, kStages>;

  struct Shared {
    alignas(128) __half a[kStages][Operand::kParts][Operand::kOctets][kRows][8];
    alignas(128) __half b[kStages][Operand::kParts][Operand::kOctets][kFilters][8];
    typename Pipeline::Shared pipeline;
  };

  struct Sums {
    float value[kFilters / 2];
    __device__ void clear() {
#pragma unroll
      for (float& sum : value) sum = 0.0f;
    }
  };

  /// Where a filter and a tile lie in their operands: permuted within so many, or in order.
  static constexpr int kPermuted = tiles_of_v_run(Arithmetic::split_f16);
  static __device__ int filter_row(int filter) {
    return kTilesSideBySide ? filter : column(filter);
  }
  static __device__ int tile_row(int tile) { return kTilesSideBySide ? column(tile) : tile; }

  /// Adds the products of the next step; calls start_next() once a stage is free.
  template <class StartNext>
  static __device__ void step(Pipeline& pipeline, Shared& shared, Sums& sums,
                              StartNext&& start_next) {
    pipeline.wait();
    start_products(shared, pipeline.stage(), sums);
    wgmma_wait<1>();
    __syncthreads();
    start_next();
  }
  static __device__ void finish(Sums&) { wgmma_wait<0>(); }

  /// Stores the sums of existing tiles and filters to M, and of a few more tiles in NCHW.
  static __device__ void store_sums(const Sums& sums, float* m, const MStrides& strides,
                                    int num_tiles, int num_filters) {
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32, warpgroup = warpgroup_index();
    const int num_first = kTilesSideBySide ? num_filters : num_tiles;
    const int num_second = kTilesSideBySide ? num_tiles : num_filters;
    const std::int64_t stride = kTilesSideBySide ? strides.filter : strides.tile;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row(warpgroup) + warp * 16 + half * 8 + lane / 4;
      if (row >= num_first) continue;
#pragma unroll
      for (int block = 0; block < kColumns; block += 16) {
        const int begin = first_column(warpgroup) + block;
        if (begin >= num_second) break;
        const float* const sum = &sums.value[block / 2 + half * 2];
        store(m + row * stride + begin + lane % 4 * 4, Vec<4>{{sum[0], sum[1], sum[4], sum[5]}});
      }
    }
  }

 private:
  // What a warpgroup has of the first and the second operand. Where there are 64 filters, and they
  // come first, the warpgroups share out the tiles.
  static constexpr int kColumns = kFilters;
  static constexpr bool kSharesTiles = kTilesSideBySide && kFilters == 64;
  static __device__ int first_row(int warpgroup) { return kSharesTiles ? 0 : warpgroup * 64; }
  static __device__ int first_column(int warpgroup) { return kSharesTiles ? warpgroup * 64 : 0; }
  static __device__ int column(int row) {
    return row / 16 * 16 + row % 4 / 2 * 8 + row % 16 / 4 * 2 + row % 2;
  }

  static __device__ void start_products(const Shared& shared, int stage, Sums& sums) {
    const int warpgroup = warpgroup_index();
    wgmma_fence();
#pragma unroll
    for (int octet = 0; octet < Operand::kOctets; octet += 2) {
      const auto tiles = [&](int part, int first) {
        return wgmma_operand(&shared.a[stage][part][octet][first][0], kRows * 16);
      };
      const auto filters = [&](int part, int first) {
        return wgmma_operand(&shared.b[stage][part][octet][first][0], kFilters * 16);
      };
      const auto add = [&](int part_of_tiles, int part_of_filters) {
        if constexpr (kTilesSideBySide) {
          wgmma<kColumns>(sums.value, filters(part_of_filters, first_row(warpgroup)),
                          tiles(part_of_tiles, first_column(warpgroup)));
        } else {
          wgmma<kColumns>(sums.value, tiles(part_of_tiles, first_row(warpgroup)),
                          filters(part_of_filters, first_column(warpgroup)));
        }
      };
      if constexpr (Operand::kParts == 2) {
        add(0, 1);
        add(1, 0);
      }
      add(0, 0);
    }
    wgmma_commit();
  }
};

}  // namespace megaconv::cuda
