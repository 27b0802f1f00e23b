// SPDX-License-Identifier: Apache-2.0
// The matrix tile of GEMM tasks on Hopper's tensor cores (tensor_tile.cuh).
//
//   wait for the copies of step s
//   start the products of step s              the tensor cores run on while
//   wait for the products of step s - 1       the threads wait here, and
//   barrier; start the copies of step s + kStages - 1 into the stage that step s - 1 leaves
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
