// SPDX-License-Identifier: Apache-2.0
// What the matrix tiles of GEMM tasks on tensor cores have in common: 128 rows (Winograd tiles) by
// kFilters filters, of which two thread blocks share an SM and hide each other's epilogues.
// Operands are scaled FP16 numbers: pairs, with three products, which are as good as FP32
// (split_f16.cuh), or single ones, with one product.
//
// A thread's sums are neighbours along the second operand of the matrix instructions, so that is
// what lies side by side in M: filters in NHWC, tiles in NCHW. Its rows are in an order such that
// four sums are a vector: of every 16, row 4 q + 2 i + e is column 8 i + 2 q + e of the
// instruction, which thread q of four holds for both i.
#pragma once

#include "tasks/cuda/block_pipeline.cuh"
#include "tasks/cuda/m_strides.cuh"
#include "tasks/cuda/split_f16.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/tiling.hpp"

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

template <int kNumFilters, class OperandType, Layout kLayout, int kNumStages>
struct TensorTile {
  using Operand = OperandType;
  static constexpr int kRows = 128, kFilters = kNumFilters;
  static constexpr bool kTilesSideBySide = kLayout == Layout::nchw;
  static constexpr int kThreads = 256, kBlocksPerSm = 2;
  static constexpr int kDepth = Operand::kDepth, kStages = kNumStages;
  using Pipeline = BlockPipeline<kThreads, kStages>;

  struct Shared {
    alignas(128) __half a[kStages][Operand::kParts][Operand::kOctets][kRows][8];
    alignas(128) __half b[kStages][Operand::kParts][Operand::kOctets][kFilters][8];
    typename Pipeline::Shared pipeline;
  };

  /// Where a filter and a tile lie in their operands: permuted within so many, or in order.
  static constexpr int kPermuted = tiles_of_v_run(Arithmetic::split_f16);
  static __device__ int filter_row(int filter) {
    return kTilesSideBySide ? filter : column(filter);
  }
  static __device__ int tile_row(int tile) { return kTilesSideBySide ? column(tile) : tile; }

 private:
  static __device__ int column(int row) {
    return row / 16 * 16 + row % 4 / 2 * 8 + row % 16 / 4 * 2 + row % 2;
  }
};

}  // namespace megaconv::cuda
