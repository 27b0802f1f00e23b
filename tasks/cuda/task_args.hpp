// SPDX-License-Identifier: Apache-2.0
// What a CUDA task body is given: the tensors of one run and the numbers it needs of the tiling, as
// one plain struct that travels as a kernel argument. Host code fills it (make_task_args), device
// code reads it.
//
// Layouts (C', K' = C, K rounded up to Tiling::kLaneBlock; slot = group % slots; tiles, filters =
// what a GEMM task of the kernel has room for, kernels.hpp):
//
//   U   Winograd   [filter chunks][alpha^2][C'][filters]   zero past C and K; chunks as of GEMM
//   tasks
//       openCNN    see tasks/opencnn/opencnn_blocking.hpp
//       implicit GEMM  see tasks/implicit_gemm/cuda/implicit_gemm_filter.cuh; of copies, with V,
//       operand_rows.cuh
//   V   implicit GEMM  see tasks/implicit_gemm/cuda/operand_rows.cuh, space_to_depth.cuh
//       Winograd   [v_slots][alpha^2][C'][tiles]           zero past C
//   M   (in m_strides.cuh, of FP16 numbers with their factors)
//       NHWC       [m_slots][alpha^2][tiles][K']
//       NCHW       [m_slots][alpha^2][K'][tiles]
//
// Filters and tiles of U, V and M that exist in no task are undefined; they meet no others.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "megaconv/tiling.hpp"
#include "tasks/activation.hpp"
#include "tasks/implicit_gemm/stripes.hpp"

namespace megaconv::cuda {

/// Threads of one worker (thread block), for every task kind.
inline constexpr int kBlockThreads = 256;

struct OperandFooter;  // scale_guess.cuh

// How x and w are copied from space to depth (tasks/implicit_gemm/space_to_depth.hpp).
struct SpaceToDepthArgs {
  const float* x;
  std::int32_t h, w, c, r, s, pad_h, pad_w, stride_h, stride_w;  // of the problem as it was asked
  std::int32_t rows, cols, channels;  // of V; no channels: there are no such copies
  std::int32_t taps, taps_w;          // of V; of a filter's row
};

struct TaskArgs {
  // Device pointers; those that the run does not use are null. Tensors are of the problem's storage
  // type, which is float unless products are of FP16 or BF16 numbers.
  const float* x;
  const float* w;
  const float* scale;
  const float* bias;
  const float* residual;
  float* y;
  // FP16 operands: what x and w are multiplied by, and what the tasks that read x met: largest
  // finite |x| of each group (implicit GEMM), |V| of each input task (Winograd), as bits.
  float x_scale, w_scale;
  float* right_x_scale;  // where a run leaves the scale of x that would have been right
  std::uint32_t* x_magnitudes;
  OperandFooter* x_footer;  // implicit GEMM, of V; x_magnitudes is in it
  float* u;
  float* v;
  float* m;

  // ConvProblem, in 32 bits.
  std::int32_t n, c, h, w_in, k, r, s, p, q;
  std::int32_t pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, groups;
  // Implicit GEMM: of the conv groups that are multiplied as one.
  std::int32_t channels_at_once, filters_at_once;
  Layout layout;
  ActivationTerms activation;

  // What reads x before the kernel in front has ended must not: that one makes it.
  bool waits_for_x;

  // Tiling.
  std::int32_t tiles_h, tiles_w, num_tiles, group_tiles;
  std::int32_t gemm_tiles, gemm_filters;  // room of a GEMM task
  std::int32_t c_padded, k_padded;        // C', K'
  std::int32_t v_slots, m_slots;
  std::int32_t tile_chunks, tiles_per_transform_task;
  std::int32_t input_channel_chunks, filter_channel_chunks;
  std::int32_t channels_per_input_task, filters_per_gemm_task, positions_per_gemm_task;
  std::int32_t filters_per_output_task, filters_per_filter_task, channels_per_filter_task;
  std::int32_t rows_per_group, cols_per_group;
  std::int32_t row_chunks, col_chunks;  // direct: groups below each other in an image, and beside
  Stripes stripes;
  std::int32_t places, places_per_group;   // of a stripe
  std::int32_t stripe_groups, num_groups;  // of a stripe, of all

  // Implicit GEMM on a copy of x: what else is said of a problem is of the one that is multiplied,
  // whose x is V.
  SpaceToDepthArgs depth;
  void multiply_copy() {
    depth.x = x;
    x = v;
  }

  // Implicit GEMM with operands in place: padded pixels of a tile; channels of a K block; rows and
  // columns of a filter whose input is kept at a time, and its padded pixels; columns that outputs
  // are stored by at a time; x or V by pixels, w by filters and taps, y and, if outputs are in
  // order (outputs_in_order()), the residual by so many columns of a row.
  std::int32_t tile_places, k_block_channels, rows_at_once, cols_at_once, input_places, output_cols;
  bool in_order;
  bool pools;                   // y is the maximum of each 2x2 of the outputs
  std::int32_t input_tasks;     // of a group
  std::int32_t cluster_blocks;  // in which direct tasks run
  // K blocks of all channels; of a share, whose sums are added up to those of the others; of a
  // block.
  std::int32_t k_blocks, share_k_blocks, block_k_blocks;
  std::int32_t task_tiles, last_task_tiles;  // of a whole group, of a stripe's last one
  MemoryInPlace memory;
  CUtensorMap x_tensors[kMostConvertedStripes];  // of every stripe; depthwise: the first one
  CUtensorMap w_tensor, y_tensor, residual_tensor;
};

}  // namespace megaconv::cuda
