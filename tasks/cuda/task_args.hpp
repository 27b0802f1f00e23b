// SPDX-License-Identifier: Apache-2.0
// What a CUDA task body is given: the tensors of one run and the numbers it needs of the tiling, as
// one plain struct that travels as a kernel argument. Host code fills it (make_task_args), device
// code reads it.
//
// Layouts (C', K' = C, K rounded up to Tiling::kLaneBlock; slot = group % slots; t' =
// group_tiles rounded up to a multiple of 4):
//
//   U   Winograd   [alpha^2][C][K']           zero past K
//       openCNN    see mapping/opencnn_blocking.hpp
//   V   NHWC       [v_slots][alpha^2][t'][C'] zero past C; tiles past a short last group are
//   undefined
//       NCHW       [v_slots][alpha^2][C'][t']
//   M   NHWC       [m_slots][alpha^2][t'][K']
//       NCHW       [m_slots][alpha^2][K'][t']
#pragma once

#include <cstdint>

#include "megaconv/mapping.hpp"

namespace megaconv::cuda {

/// Threads of one worker (thread block), for every task kind.
inline constexpr int kBlockThreads = 256;

struct TaskArgs {
  // Device pointers; those that the plan does not use are null.
  const float* x;
  const float* w;
  const float* bias;
  const float* residual;
  float* y;
  float* u;
  float* v;
  float* m;

  // ConvProblem, in 32 bits.
  std::int32_t n, c, h, w_in, k, r, s, p, q;
  std::int32_t pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, groups;
  Layout layout;
  bool relu;

  // Tiling.
  std::int32_t tiles_h, tiles_w, num_tiles, group_tiles, group_tiles_padded;  // the last: t'
  std::int32_t c_padded, k_padded;                                            // C', K'
  std::int32_t v_slots, m_slots;
  std::int32_t channels_per_input_task, filters_per_gemm_task, positions_per_gemm_task;
  std::int32_t filters_per_output_task, filters_per_filter_task;
  std::int32_t rows_per_group, cols_per_group;
};

}  // namespace megaconv::cuda
