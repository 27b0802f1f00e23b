// SPDX-License-Identifier: Apache-2.0
// Where M keeps the sums of one slot, for who writes and who reads them.
#pragma once

#include "tasks/cuda/split_f16.cuh"
#include "tasks/cuda/task_args.hpp"
#include "tasks/tiling.hpp"

namespace megaconv::cuda {

/// Element (position, tile, filter) lies at
/// position * position_stride + tile * tile_stride + filter * filter_stride.
struct MStrides {
  std::int64_t position, tile, filter;
};
template <Layout kLayout>
__device__ inline MStrides m_strides(const TaskArgs& a) {
  const std::int64_t position = static_cast<std::int64_t>(a.gemm_tiles) * a.k_padded;
  if constexpr (kLayout == Layout::nchw) return {position, 1, a.gemm_tiles};
  return {position, a.k_padded, 1};
}

/// Sums of a slot, or of a part of it. Number: of M. What gives halves their magnitude back lies
/// behind all of a slot: a factor for every kScaledSums tiles by as many filters,
///   [position][filters / kScaledSums][tiles / kScaledSums]
template <class Number>
struct PartOfM {
  static constexpr bool kScaled = sizeof(Number) < sizeof(float);

  Number* sums;
  float* factors;  // none if M has floats
  MStrides strides;
  int tile_blocks;  // factors of kScaledSums filters

  /// The same from a position, filter and tile on; of halves both in whole kScaledSums.
  __device__ PartOfM from(int position, int filter, int tile) const {
    PartOfM part = *this;
    part.sums += position * strides.position + filter * strides.filter + tile * strides.tile;
    if constexpr (kScaled) {
      part.factors +=
          position * next_position() + filter / kScaledSums * tile_blocks + tile / kScaledSums;
    }
    return part;
  }
  /// From a position's factors to those of the next.
  __device__ std::int64_t next_position() const {
    return strides.position / (kScaledSums * kScaledSums);
  }
};
template <class Number, Layout kLayout>
__device__ inline PartOfM<Number> slot_of_m(const TaskArgs& a, std::uint32_t slot, int positions) {
  const MStrides strides = m_strides<kLayout>(a);
  const std::int64_t sums = positions * strides.position;
  std::byte* const begin =
      reinterpret_cast<std::byte*>(a.m) + slot * bytes_of_m(sums, sizeof(Number));
  return {reinterpret_cast<Number*>(begin),
          reinterpret_cast<float*>(begin + sums * static_cast<std::int64_t>(sizeof(Number))),
          strides, a.gemm_tiles / kScaledSums};
}

/// A power of two by which halves have room for numbers, and what undoes it.
struct ScaleOfHalves {
  float scale, factor;
  /// The largest number becomes less than 2^15.
  __device__ explicit ScaleOfHalves(MagnitudeBits largest) {
    constexpr std::uint32_t kMantissaBits = 23, kBias = 127, kMost = 14;
    // Neither becomes smaller than normal numbers are.
    const std::uint32_t exponent = max(largest >> kMantissaBits, kMost + 1);
    scale = __uint_as_float((2 * kBias + kMost - exponent) << kMantissaBits);
    factor = __uint_as_float((exponent - kMost) << kMantissaBits);
  }
};

}  // namespace megaconv::cuda
