// SPDX-License-Identifier: Apache-2.0
// The matrix tile of GEMM tasks on Hopper's tensor cores (tensor_tile.cuh).
//
// Single numbers:
//
//   wait for the copies of step s
//   start the products of step s              the tensor cores run on while
//   wait for the products of step s - 1       the threads wait here, and
//   barrier; start the copies of step s + kStages - 1 into the stage that step s - 1 leaves
//
// Pairs, whose sums must not lose bits: tensor cores cut off what they add up, by a share of the
// sum. The three products of a step therefore come to running sums of their own, those with a low
// half first, which the FP32 units fold into the totals:
//
//   wait for the copies of step s; barrier
//   start the copies of step s + kStages - 1 into the stage that step s - 1 leaves
//   for every 64 columns: multiply, wait, fold
//
// Meanwhile the tensor cores serve the other warpgroups of the SM. With running sums of all columns
// two blocks would not fit there.
//
// Each of two warpgroups has 64 rows of what the instruction takes as its first operand.
#pragma once

#include "tasks/cuda/tensor_tile.cuh"
#include "tasks/cuda/wgmma.cuh"

namespace megaconv::cuda {

template <int kNumFilters, class OperandType, Layout kLayout>
struct WgmmaTile : TensorTile<kNumFilters, OperandType, kLayout, kNumFilters == 128 ? 3 : 4> {
  using Base = TensorTile<kNumFilters, OperandType, kLayout, kNumFilters == 128 ? 3 : 4>;
  using Base::kFilters, Base::kRows, Base::kTilesSideBySide;
  using typename Base::Operand, typename Base::Pipeline, typename Base::Shared;

  struct Sums {
    float value[kFilters / 2];
  };

  /// Adds the products of the next step; calls start_next() once a stage is free.
  template <class StartNext>
  static __device__ void step(Pipeline& pipeline, Shared& shared, Sums& sums,
                              StartNext&& start_next) {
    pipeline.wait();
    if constexpr (Operand::kParts == 2) {
      __syncthreads();
      start_next();
      fold_products(shared, pipeline.stage(), sums);
    } else {
      start_products(shared, pipeline.stage(), sums);
      wgmma_wait<1>();
      __syncthreads();
      start_next();
    }
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

  // What the warpgroup multiplies of a stage, columns from `column` on.
  class StageOperands {
   public:
    __device__ StageOperands(const Shared& shared, int stage, int column)
        : shared_(shared),
          stage_(stage),
          row_(first_row(warpgroup_index())),
          column_(first_column(warpgroup_index()) + column) {}

    template <int kN>
    __device__ void add(float (&sums)[kN / 2], int octet, int part_of_rows, int part_of_columns,
                        bool keep = true) const {
      if constexpr (kTilesSideBySide) {
        wgmma<kN>(sums, filters(octet, part_of_rows, row_), tiles(octet, part_of_columns, column_),
                  keep);
      } else {
        wgmma<kN>(sums, tiles(octet, part_of_rows, row_), filters(octet, part_of_columns, column_),
                  keep);
      }
    }

   private:
    __device__ std::uint64_t tiles(int octet, int part, int first) const {
      return wgmma_operand(&shared_.a[stage_][part][octet][first][0], kRows * 16);
    }
    __device__ std::uint64_t filters(int octet, int part, int first) const {
      return wgmma_operand(&shared_.b[stage_][part][octet][first][0], kFilters * 16);
    }

    const Shared& shared_;
    const int stage_, row_, column_;
  };

  static __device__ void start_products(const Shared& shared, int stage, Sums& sums) {
    const StageOperands operands(shared, stage, 0);
    wgmma_fence();
#pragma unroll
    for (int octet = 0; octet < Operand::kOctets; octet += 2) {
      operands.template add<kColumns>(sums.value, octet, 0, 0);
    }
    wgmma_commit();
  }

  static __device__ void fold_products(const Shared& shared, int stage, Sums& totals) {
    constexpr int kFolded = 64;  // columns
#pragma unroll
    for (int column = 0; column < kColumns; column += kFolded) {
      const StageOperands operands(shared, stage, column);
      float running[kFolded / 2];
      wgmma_fence();
#pragma unroll
      for (int octet = 0; octet < Operand::kOctets; octet += 2) {
        operands.template add<kFolded>(running, octet, 0, 1, octet > 0);
        operands.template add<kFolded>(running, octet, 1, 0);
      }
#pragma unroll
      for (int octet = 0; octet < Operand::kOctets; octet += 2) {
        operands.template add<kFolded>(running, octet, 0, 0);
      }
      wgmma_commit();
      wgmma_wait<0>();
#pragma unroll
      for (int i = 0; i < kFolded / 2; ++i) totals.value[column / 2 + i] += running[i];
    }
  }
};

}  // namespace megaconv::cuda
