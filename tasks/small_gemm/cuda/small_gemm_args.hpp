// SPDX-License-Identifier: Apache-2.0
// What the tasks of a small-tile implicit GEMM are given: host code fills it, device code reads it.
#pragma once

#include <cstdint>

#include "megaconv/small_gemm.hpp"
#include "tasks/activation.hpp"
#include "tasks/cuda/places.hpp"

namespace megaconv::cuda {

/// Of the block that runs a task.
inline constexpr int kSmallGemmThreads = 32 * static_cast<int>(SmallGemmCut::kWarps);

/// Of the block that packs a filter.
inline constexpr int kFilterPackingThreads = 128;

/// A depthwise convolution of which tasks compute what they need of x, and a 1x1 convolution in
/// front of it; tasks/small_gemm/computed_input.hpp. x is what the first of them reads. Places are
/// those in the task's shared memory.
struct DepthwiseArgs {
  std::int32_t h, w, pad_h, pad_w, stride_h, stride_w;
  std::int32_t taps;                        ///< rows and columns of a filter
  std::int32_t expand_bytes, vector_bytes;  ///< at the end of a stage
  ActivationTerms activation;
};
struct ExpandArgs {
  std::int32_t c;                       ///< of its x
  std::int32_t steps;                   ///< of a sum
  std::int32_t pixels, in_cols;         ///< of e under a tile; of a row of these
  std::int32_t tiles;                   ///< of a K block, of eight channels
  std::int32_t pieces, pixels_at_once;  ///< as of x in a stage
  std::int32_t magnitudes_at, inside_at, x_at, e_at;
  std::int32_t x_pitch, x_part, e_pitch;
  float tiles_reciprocal, pieces_reciprocal, in_cols_reciprocal;
  ActivationTerms activation;
};

struct SmallGemmArgs {
  // Places; tensors in the problem's storage type. Without a bias or a residual: null.
  const void* x;
  const void* u;     ///< tasks/small_gemm/small_gemm.hpp
  const void* bias;  ///< FP32; of one convolution by itself in the storage type
  const void* residual;
  void* y;
  /// Of a network in pairs: not 0 once a task has stored wide ones, in this run or before. Else no
  /// task looks for them.
  std::uint32_t* wide_pairs;
  std::int64_t scales_at;  ///< place in u of the inverse scales of filters; 0: they have none
  // ConvProblem, in 32 bits.
  std::int32_t c, h, w, k, p, q;
  std::int32_t x_row, y_row;  ///< pixels of a row: in pairs twice as many, of 16 bits
  std::int32_t pad_h, pad_w, stride_h, stride_w;
  // Sums.
  std::int32_t k_blocks, row_blocks, stages;
  std::int32_t block_channels;  ///< numbers of a tap in a K block
  std::int32_t block_rows;      ///< distance in x of two K blocks' first tap
  std::int32_t block_steps, chunks;
  std::int32_t warp_steps;  ///< of a K block, that a warp takes
  float chunks_reciprocal, taps_w_reciprocal;
  // From a tap's last step to the next tap's first one, and from that of a filter's row to that of
  // the next: bytes in a stage.
  std::int32_t to_next_tap, to_next_row;
  // Task.
  std::int32_t pixels_per_group, filters_per_task;  ///< that it computes, at most
  std::int32_t filter_bits, pixel_bits;             ///< log2 of warps over filters, over pixels
  std::int32_t sum_warps;
  std::int32_t shares, own_filters;    ///< tasks that share sums; filters whose outputs are its own
  std::int32_t vector_bits, own_bits;  ///< log2 of vectors of filters, of own filters
  std::int32_t warp_tiles;             ///< of eight pixels, that a warp has
  // Stages. A pixel of x is loaded in pieces, by as many threads; so many pixels at a time, which
  // are so many rows and columns.
  std::int32_t in_cols, pitch;
  std::int32_t spacing_h, spacing_w;  ///< of x, from a pixel to the next one in a stage
  std::int32_t step_h, step_w;        ///< in a stage, from an output to the next one
  std::int32_t pieces, pixels_at_once, rows_at_once, cols_at_once;
  std::int32_t piece_numbers;  ///< 8, which x has as vectors, or 4
  std::int32_t most_pieces;    ///< of a thread in a stage
  std::int32_t x_bytes, filter_bytes, stage_bytes;
  std::int32_t sums_at, sum_pitch, warp_sums;  ///< in shared memory, of a pixel, of a warp; floats
  // What an output is the sum of: floats from one to the next, and from a pixel to the next.
  std::int32_t summands, summand_stride, summand_pitch;
  std::int32_t received_at, vectors_at;  ///< in shared memory: sums of the shares; bias and scales
  std::int32_t steps_at;                 ///< there: places of steps in a stage of x
  bool sums_wait;                        ///< for the last products
  bool y_in_pairs, pooled_in_pairs, stores_rests;  ///< PairTensors
  float in_cols_reciprocal, pieces_reciprocal;
  ActivationTerms activation;
  DepthwiseArgs depthwise;
  ExpandArgs expand;
  SecondOutput second;
};

/// What a task computes: pixels of one image, and filters.
struct SmallGemmShare {
  std::int32_t image, row, col, rows, cols;  ///< that it computes
  /// Of these its own, which it writes to y, if any, and the outputs that it pools.
  std::int32_t own_row, own_col, own_rows, own_cols;  ///< the first ones in its tile
  std::int32_t pooled_row, pooled_col, pooled_rows, pooled_cols;
  std::int32_t first_filter;  ///< of its own outputs
  std::int32_t first_channel, num_channels;
  std::int32_t filter_block;  ///< of packed filters
  std::int32_t rank;          ///< of the tasks that share its sums
  std::int32_t in_rows;       ///< of a stage
  /// Of x, behind what the task reads. A stage may have more, where the last K block has rows that
  /// the filter has not, or a step has columns; others may not have written those yet.
  std::int32_t end_h, end_w;
  float reciprocal;  ///< of cols
};
SmallGemmShare make_small_gemm_share(const SmallGemmCut& cut, std::uint32_t group,
                                     std::uint32_t block);

SmallGemmArgs node_args(const SmallGemmCut& cut, const NodePlaces& places);

}  // namespace megaconv::cuda
