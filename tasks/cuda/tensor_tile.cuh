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

#include <type_traits>

#include "tasks/cuda/block_pipeline.cuh"
#include "tasks/cuda/m_strides.cuh"
#include "tasks/cuda/split_f16.cuh"
#include "tasks/cuda/tensor_copy.cuh"
#include "tasks/cuda/vec.cuh"
#include "tasks/tiling.hpp"

namespace megaconv::cuda {

/// An operand: steps of kDepth channels, in each all numbers, or all hi, then all lo:
///   [step][part][kDepth / 8][rows][8 channels]
template <int kNumParts>
struct TensorOperand {
  static constexpr int kParts = kNumParts, kDepth = 64 / kParts, kOctets = kDepth / 8;
  static constexpr bool kInRows = false;
  /// FP16 elements from an operand's start to eight channels of its first row, of the first part.
  static __device__ std::int64_t octet(int index, int rows) {
    return static_cast<std::int64_t>(index / kOctets * kParts * kOctets + index % kOctets) * rows *
           8;
  }
  /// To a channel of a row.
  static __device__ std::int64_t element(int row, int channel, int rows) {
    return octet(channel / 8, rows) + row * 8 + channel % 8;
  }
  /// From an element of a part to the same of the next.
  static constexpr int next_part(int rows) { return kDepth * rows; }
};

/// An operand of single numbers, a row of 64 channels after the other, so that a warp writes a
/// whole row:
///   [step][rows][8 octets][8 channels]
/// The octets of a row are swizzled, as the matrix instruction reads them (wgmma.cuh).
struct RowOperand {
  static constexpr int kParts = 1, kDepth = 64, kOctets = kDepth / 8;
  static constexpr bool kInRows = true;
  static __device__ std::int64_t element(int row, int channel, int rows) {
    const int octet = channel % kDepth / 8 ^ row % kOctets;
    return (static_cast<std::int64_t>(channel / kDepth) * rows + row) * kDepth + octet * 8 +
           channel % 8;
  }
};

template <int kNumFilters, class OperandType, Layout kLayout, int kNumStages>
struct TensorTile {
  using Operand = OperandType;
  static constexpr int kRows = 128, kFilters = kNumFilters;
  static constexpr bool kTilesSideBySide = kLayout == Layout::nchw;
  static constexpr int kThreads = 256, kBlocksPerSm = 2;
  static constexpr int kDepth = Operand::kDepth, kStages = kNumStages;
  using Pipeline = BlockPipeline<kThreads, kStages>;
  /// One product of FP16 numbers errs so much that M may round, too; it then takes half as long to
  /// write and to read.
  using NumberOfM = std::conditional_t<Operand::kParts == 1, __half, float>;

  struct Shared {
    alignas(kSwizzleSpan) __half a[kStages][Operand::kParts][Operand::kOctets][kRows][8];
    alignas(kSwizzleSpan) __half b[kStages][Operand::kParts][Operand::kOctets][kFilters][8];
    typename Pipeline::Shared pipeline;
  };

  /// Where a filter and a tile lie in their operands: permuted within so many, or in order.
  static constexpr int kPermuted = tiles_of_v_run(Arithmetic::split_f16);
  static __device__ int filter_row(int filter) {
    return kTilesSideBySide ? filter : column(filter);
  }
  static __device__ int tile_row(int tile) { return kTilesSideBySide ? column(tile) : tile; }

 protected:
  /// Stores a warp's sums of existing tiles and filters to M, and of a few more tiles in NCHW: of
  /// kWarpFirst rows of the first operand from `first` on by kWarpSecond of the second one.
  /// sums(row, column), for every 8 rows and 16 columns: a lane's, as the instruction has them.
  template <int kWarpFirst, int kWarpSecond, class Sums>
  static __device__ void store_warp(const PartOfM<NumberOfM>& m, int first, int second,
                                    int num_tiles, int num_filters, Sums&& sums) {
    constexpr int kDown = kWarpFirst / kScaledSums, kAcross = kWarpSecond / kScaledSums;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int num_first = kTilesSideBySide ? num_filters : num_tiles;
    const int num_second = kTilesSideBySide ? num_tiles : num_filters;
    const auto for_each = [&](auto&& take) {
#pragma unroll
      for (int row = 0; row < kWarpFirst; row += 8) {
        if (first + row + lane / 4 >= num_first) continue;
#pragma unroll
        for (int column = 0; column < kWarpSecond; column += 16) {
          if (second + column >= num_second) break;
          const float* const sum = sums(row, column);
          take(first + row + lane / 4, second + column + lane % 4 * 4,
               Vec<4>{{sum[0], sum[1], sum[4], sum[5]}});
        }
      }
    };
    float scale = 1;
    if constexpr (PartOfM<NumberOfM>::kScaled) {
      LargestFinite largest;
      for_each([&](int, int column, const Vec<4>& run) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (column + i < num_second) largest.add(run.lane[i]);
        }
      });
      const ScaleOfHalves of_warp(__reduce_max_sync(0xffffffffu, largest.bits()));
      scale = of_warp.scale;
      const int down = first / kScaledSums + lane / kAcross;
      const int across = second / kScaledSums + lane % kAcross;
      if (lane < kDown * kAcross && down * kScaledSums < num_first &&
          across * kScaledSums < num_second) {
        m.factors[kTilesSideBySide ? down * m.tile_blocks + across
                                   : across * m.tile_blocks + down] = of_warp.factor;
      }
    }
    const std::int64_t stride = kTilesSideBySide ? m.strides.filter : m.strides.tile;
    for_each([&](int row, int column, Vec<4> run) {
      if constexpr (PartOfM<NumberOfM>::kScaled) {
#pragma unroll
        for (float& sum : run.lane) sum *= scale;
      }
      store(m.sums + row * stride + column, run);
    });
  }

 private:
  static __device__ int column(int row) {
    return row / 16 * 16 + row % 4 / 2 * 8 + row % 16 / 4 * 2 + row % 2;
  }
};

}  // namespace megaconv::cuda
