// SPDX-License-Identifier: Apache-2.0
// A convolution on a GPU, by itself or of a network: an implicit GEMM in tiles so small that one
// layer of one image has work for every multiprocessor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "megaconv/algorithm.hpp"
#include "megaconv/pooling.hpp"
#include "megaconv/problem.hpp"

namespace megaconv {

/// Which f32 tensors of a network in TF32 have their numbers as pairs, high + rest / 2^11, both of
/// FP16: in each row of an image first all high ones, then all rests. As a factor a number is its
/// high one: that is FP32 rounded to TF32's 11 bits.
struct PairTensors {
  bool inputs = false;             ///< the residual, and x if it has a multiple of 8 channels
  bool y = false, pooled = false;  ///< what is stored, if it is
  bool rests = false;              ///< of y, too; not where it is a factor everywhere

  bool operator==(const PairTensors&) const = default;
};

/// How it is cut into tasks. A task group is one tile of output pixels of one image, its tasks are
/// blocks of filters. The warps of a task share out its filters and pixels; those that have the
/// same ones share out the products of each sum.
struct SmallGemmCut {
  static constexpr Algorithm kAlgorithm = Algorithm::small_gemm;

  static constexpr std::uint32_t kWarps = 8;         ///< of a task
  static constexpr std::uint32_t kWarpFilters = 16;  ///< of one matrix instruction
  static constexpr std::uint32_t kWarpPixels = 8;    ///< of one matrix instruction
  /// Most of these that a warp has side by side.
  static constexpr std::uint32_t kWarpPixelTiles = 4;
  /// Shared memory that a block has on every GPU from Ampere on.
  static constexpr std::uint32_t kSharedBytes = 96 << 10;

  ConvProblem problem;
  /// Of the products: f16 and bf16 as the tensors are stored. f32 tensors are multiplied as scaled
  /// FP16 numbers: tf32 rounds them once, f32 takes three products of pairs.
  Precision precision = Precision::f32;
  std::uint32_t rows_per_group = 1, cols_per_group = 1;  ///< of the tile of output pixels
  /// Warps side by side over filters, which have kWarpFilters each, over pixels and over the
  /// products of a sum; kWarps in all.
  std::uint32_t filter_warps = 1, pixel_warps = 1, sum_warps = kWarps;
  /// Tasks that share out the channels of the same sums. They run at the same time, as the blocks
  /// of a cluster, and each writes the outputs of a part of the filters. 1: none.
  std::uint32_t shares = 1;
  std::uint32_t shared_bytes = kSharedBytes;  ///< shared memory of a task, at most
  /// Of a network: a pooling that reads y, which the tasks compute, too. Each computes what the
  /// windows reach whose outputs belong to its tile, and writes its tile of y, and these outputs.
  std::optional<PoolProblem> pool{};
  bool stores_y = true;  ///< not where the pooling alone reads it
  PairTensors pairs{};   ///< of a network
  /// Of a network in stages: a depthwise convolution that makes x, of which the tasks compute what
  /// they need; and a 1x1 convolution in front of it, of which they compute what this needs. They
  /// read x of the first.
  std::optional<ConvProblem> depthwise{}, expand{};

  // Derived.
  std::uint32_t num_groups = 0;       ///< NG: tiles
  std::uint32_t tasks_per_group = 0;  ///< SG: blocks of filters, times shares

  std::uint32_t filters_per_task() const { return filter_warps * kWarpFilters; }
  /// Those whose outputs the task writes.
  std::uint32_t own_filters() const { return filters_per_task() / shares; }

  bool operator==(const SmallGemmCut&) const = default;
};

/// One line per property, for describe().
std::string to_string(const SmallGemmCut& cut);

/// A convolution of a network without tasks of its own: those of the one that reads it compute it
/// (SmallGemmCut::depthwise, expand).
struct InReaderCut {
  static constexpr std::uint32_t num_groups = 0;
  ConvProblem problem;
};

}  // namespace megaconv
