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
  using typename Base::NumberOfM, typename Base::Operand, typename Base::Pipeline;
  using typename Base::Shared;

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

  static __device__ void store_sums(const Sums& sums, const PartOfM<NumberOfM>& m, int num_tiles,
                                    int num_filters) {
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32, warpgroup = warpgroup_index();
    Base::template store_warp<16, kColumns>(
        m, first_row(warpgroup) + warp * 16, first_column(warpgroup), num_tiles, num_filters,
        [&](int row, int column) { return &sums.value[column / 2 + row / 8 * 2]; });
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
      return operand(shared_.a[stage_][part], octet, first);
    }
    __device__ std::uint64_t filters(int octet, int part, int first) const {
      return operand(shared_.b[stage_][part], octet, first);
    }
    template <int kNumRows>
    static __device__ std::uint64_t operand(const __half (&part)[Operand::kOctets][kNumRows][8],
                                            int octet, int first) {
      if constexpr (Operand::kInRows) {
        return advance(wgmma_swizzled_operand<128>(&part[0][0][0] + first * Operand::kDepth),
                       octet * 16);
      }
      return wgmma_operand(&part[octet][first][0], kNumRows * 16);
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
