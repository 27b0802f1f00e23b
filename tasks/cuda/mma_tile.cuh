// SPDX-License-Identifier: Apache-2.0
// The matrix tile of GEMM tasks on tensor cores that a warp uses by itself (tensor_tile.cuh), sm_80
// and later.
//
//   wait for the copies of step s; barrier
//   start the copies of step s + 1 into the stage that step s - 1 leaves
//   multiply what step s loaded
//
// A warp has 64 rows of the first operand by 32 of the second, or 32 by 32 where there are 64
// filters. Tensor cores cut off what they add up; so three products of 16 channels each come to
// sums of their own, the small ones first, which are added to the others in FP32.
#pragma once

#include "tasks/cuda/mma.cuh"
#include "tasks/cuda/tensor_tile.cuh"

namespace megaconv::cuda {

/// Two stages: 64 KiB of shared memory, which all of these GPUs have for a block.
template <int kNumFilters, class OperandType, Layout kLayout>
struct MmaTile : TensorTile<kNumFilters, OperandType, kLayout, 2> {
  using Base = TensorTile<kNumFilters, OperandType, kLayout, 2>;
  using Base::kFilters, Base::kRows, Base::kTilesSideBySide;
  using typename Base::NumberOfM, typename Base::Operand, typename Base::Pipeline;
  using typename Base::Shared;

  // What a warp has, in matrices of 16 rows of the first operand, and of 8 of the second.
  static constexpr int kFirst = kFilters == 128 ? 4 : 2, kSecond = 4;

  struct Sums {
    float value[kFirst][kSecond][4];
  };

  /// Adds the products of the next step; calls start_next() once a stage is free.
  template <class StartNext>
  static __device__ void step(Pipeline& pipeline, Shared& shared, Sums& sums,
                              StartNext&& start_next) {
    pipeline.wait();
    __syncthreads();
    start_next();
    const int stage = pipeline.stage();
    if constexpr (kTilesSideBySide) {
      multiply(shared.b[stage], shared.a[stage], sums);
    } else {
      multiply(shared.a[stage], shared.b[stage], sums);
    }
  }
  static __device__ void finish(Sums&) {}

  static __device__ void store_sums(const Sums& sums, const PartOfM<NumberOfM>& m, int num_tiles,
                                    int num_filters) {
    Base::template store_warp<kFirst * 16, kSecond * 8>(
        m, first_row(), second_row(), num_tiles, num_filters,
        [&](int row, int column) { return &sums.value[row / 16][column / 8][row % 16 / 8 * 2]; });
  }

 private:
  static constexpr int kSecondRows = kTilesSideBySide ? kRows : kFilters;
  static constexpr int kWarpsAcross = kSecondRows / (kSecond * 8);
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
  static __device__ int first_row() {
    return static_cast<int>(threadIdx.x) / 32 / kWarpsAcross * (kFirst * 16);
  }
  static __device__ int second_row() {
    return static_cast<int>(threadIdx.x) / 32 % kWarpsAcross * (kSecond * 8);
  }

  // A stage of an operand each.
  template <class First, class Second>
  static __device__ void multiply(const First& first, const Second& second, Sums& sums) {
    constexpr int kParts = Operand::kParts;
#pragma unroll
    for (int octet = 0; octet < Operand::kOctets; octet += 2) {
      std::uint32_t b[kParts][kSecond][2];
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int i = 0; i < kSecond; i += 2) {
          const int row = second_row() + i * 8 + lane() / 16 * 8 + lane() % 8;
          std::uint32_t matrices[4];
          load_matrices(matrices, second[part][octet + lane() / 8 % 2][row]);
          b[part][i][0] = matrices[0], b[part][i][1] = matrices[1];
          b[part][i + 1][0] = matrices[2], b[part][i + 1][1] = matrices[3];
        }
      }
#pragma unroll
      for (int i = 0; i < kFirst; ++i) {
        std::uint32_t a[kParts][4];
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          load_matrices(a[part],
                        first[part][octet + lane() / 16][first_row() + i * 16 + lane() % 16]);
        }
        if constexpr (kParts == 1) {
          add(sums.value[i], a[0], b[0]);
        } else {
          float products[kSecond][4] = {};
          add(products, a[0], b[1]);
          add(products, a[1], b[0]);
          add(products, a[0], b[0]);
#pragma unroll
          for (int j = 0; j < kSecond; ++j) {
#pragma unroll
            for (int k = 0; k < 4; ++k) sums.value[i][j][k] += products[j][k];
          }
        }
      }
    }
  }
  static __device__ void add(float (&sums)[kSecond][4], const std::uint32_t (&a)[4],
                             const std::uint32_t (&b)[kSecond][2]) {
#pragma unroll
    for (int i = 0; i < kSecond; ++i) mma(sums[i], a, b[i]);
  }
};

}  // namespace megaconv::cuda
