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
// Two warpgroups have 64 rows each; two thread blocks share an SM and hide each other's epilogues.
//
// Filters lie in the operand in an order such that a thread's sums are neighbours: of every 16,
// filter 4 q + 2 i + e is column 8 i + 2 q + e, which thread q of four holds for both i.
#pragma once

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

template <int kNumFilters, class OperandType>
struct TensorTile {
  using Operand = OperandType;
  static constexpr int kRows = 128, kFilters = kNumFilters;
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

  /// Column of a filter in the operand.
  static __device__ int column(int filter) {
    return filter / 16 * 16 + filter % 4 / 2 * 8 + filter % 16 / 4 * 2 + filter % 2;
  }

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

  /// Stores the sums of existing rows and filters to M.
  template <Layout kLayout>
  static __device__ void store_sums(const Sums& sums, float* m, const MStrides& strides,
                                    int num_rows, int num_filters) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int first_filter = lane % 4 * 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = warp * 16 + half * 8 + lane / 4;
      if (row >= num_rows) continue;
#pragma unroll
      for (int block = 0; block < kFilters / 16; ++block) {
        const int filter = block * 16 + first_filter;
        if (block * 16 >= num_filters) break;
        const float* const sum = &sums.value[block * 8 + half * 2];
        const Vec<4> run = {{sum[0], sum[1], sum[4], sum[5]}};
        if constexpr (kLayout == Layout::nchw) {
#pragma unroll
          for (int i = 0; i < 4; ++i) m[row + (filter + i) * strides.filter] = run.lane[i];
        } else {
          store(m + row * strides.tile + filter, run);
        }
      }
    }
  }

 private:
  static __device__ void start_products(const Shared& shared, int stage, Sums& sums) {
    const int first_row = warpgroup_index() * 64;
    wgmma_fence();
#pragma unroll
    for (int octet = 0; octet < Operand::kOctets; octet += 2) {
      const auto a = [&](int part) {
        return wgmma_operand(&shared.a[stage][part][octet][first_row][0], kRows * 16);
      };
      const auto b = [&](int part) {
        return wgmma_operand(&shared.b[stage][part][octet][0][0], kFilters * 16);
      };
      if constexpr (Operand::kParts == 2) {
        wgmma<kFilters>(sums.value, a(0), b(1));
        wgmma<kFilters>(sums.value, a(1), b(0));
      }
      wgmma<kFilters>(sums.value, a(0), b(0));
    }
    wgmma_commit();
  }
};

}  // namespace megaconv::cuda
