// SPDX-License-Identifier: Apache-2.0
// What the tasks of a small-tile implicit GEMM are given: host code fills it, device code reads it.
#pragma once

#include <cstdint>

#include "megaconv/small_gemm.hpp"
#include "tasks/activation.hpp"

namespace megaconv::cuda {

/// Of the block that runs a task.
inline constexpr int kSmallGemmThreads = 32 * static_cast<int>(SmallGemmCut::kWarps);

struct SmallGemmArgs {
  // Device pointers; tensors in the problem's storage type. Without a bias or a residual: null.
  const void* x;
  const void* u;      ///< tasks/small_gemm/small_gemm.hpp
  const float* bias;  ///< FP32 always
  const void* residual;
  void* y;
  // ConvProblem, in 32 bits.
  std::int32_t c, h, w, k, p, q;
  std::int32_t pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w;
  std::int32_t group_channels, group_filters;  ///< of a conv group
  // SmallGemmCut and SumSteps.
  std::int32_t rows_per_group, cols_per_group, filters_per_task;
  std::int32_t filter_warps, pixel_warps, sum_warps;
  std::int32_t taps_h, taps_w, numbers, chunks;
  bool vectors, whole_rows;
  ActivationTerms activation;
};

/// What a task computes: pixels of one image, and filters.
struct SmallGemmShare {
  std::int32_t image, row, col, rows, cols;
  std::int32_t first_filter, first_channel, num_channels;
  std::int32_t filter_block;
  float reciprocal;  ///< of cols
};
SmallGemmShare make_small_gemm_share(const SmallGemmCut& cut, std::uint32_t group,
                                     std::uint32_t block);

/// All but the pointers, which are null.
SmallGemmArgs make_small_gemm_args(const SmallGemmCut& cut);

}  // namespace megaconv::cuda
