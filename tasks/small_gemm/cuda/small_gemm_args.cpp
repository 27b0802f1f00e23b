// SPDX-License-Identifier: Apache-2.0
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"

#include <algorithm>
#include <bit>

#include "tasks/small_gemm/computed_input.hpp"
#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv::cuda {

SmallGemmShare make_small_gemm_share(const SmallGemmCut& cut, std::uint32_t group,
                                     std::uint32_t block) {
  const ConvProblem& a = cut.problem;
  const auto i32 = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  const TaskTile tile = tile_of(cut, group);
  const SumSteps sum = steps_of(cut);
  ChannelRange channels = channels_of_block(cut, block / cut.shares);
  SmallGemmShare share{};
  share.rank = i32(block % cut.shares);
  channels.begin += share.rank * sum.channel_blocks * sum.chunks * kStepNumbers;
  const auto place = [](std::uint64_t value) { return static_cast<std::int32_t>(value); };
  share.image = place(tile.image);
  share.row = place(tile.rows.computed.begin);
  share.col = place(tile.cols.computed.begin);
  share.rows = place(tile.rows.computed.size());
  share.cols = place(tile.cols.computed.size());
  share.own_row = place(tile.rows.own.begin) - share.row;
  share.own_col = place(tile.cols.own.begin) - share.col;
  share.own_rows = cut.stores_y ? place(tile.rows.own.size()) : 0;
  share.own_cols = place(tile.cols.own.size());
  share.pooled_row = place(tile.rows.pooled.begin);
  share.pooled_col = place(tile.cols.pooled.begin);
  share.pooled_rows = place(tile.rows.pooled.size());
  share.pooled_cols = place(tile.cols.pooled.size());
  share.first_filter = i32(std::int64_t{block} * cut.own_filters());
  share.first_channel = i32(channels.begin);
  share.num_channels = i32(channels.end - channels.begin);
  share.filter_block = i32(block);
  share.in_rows = i32(memory_of(cut).in_rows -
                      (computed_rows(cut) - share.rows) * (sum.taps_h == 1 ? 1 : a.stride_h));
  const auto end = [&](std::int64_t first, std::int64_t count, std::int64_t stride,
                       std::int64_t pad, std::int64_t extent, std::int64_t inputs) {
    const std::int64_t behind = (first + count - 1) * stride - pad + extent;
    return i32(std::clamp<std::int64_t>(behind, 0, inputs));
  };
  share.end_h = end(share.row, share.rows, a.stride_h, a.pad_h, a.filter_extent_h(), a.h);
  share.end_w = end(share.col, share.cols, a.stride_w, a.pad_w, a.filter_extent_w(), a.w);
  share.reciprocal = 1.0f / static_cast<float>(share.cols);
  return share;
}

SmallGemmArgs node_args(const SmallGemmCut& cut, const NodePlaces& places) {
  const ConvProblem& a = cut.problem;
  const SumSteps sum = steps_of(cut);
  const TaskMemory memory = memory_of(cut);
  const auto i32 = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  SmallGemmArgs args{};
  args.x = places.x;
  args.u = places.u;
  args.bias = places.bias;
  args.residual = places.residual;
  args.y = places.y;
  args.second = places.second;
  args.wide_pairs = places.wide_pairs;
  args.scales_at = converts(cut) ? scales_at(cut) : 0;
  args.c = i32(a.c);
  args.h = i32(a.h);
  args.w = i32(a.w);
  args.k = i32(a.k);
  args.p = i32(a.p());
  args.q = i32(a.q());
  args.y_in_pairs = cut.pairs.y;
  args.pooled_in_pairs = cut.pairs.pooled;
  args.stores_rests = cut.pairs.rests;
  args.x_row = i32(a.w * (x_in_pairs(cut) ? 2 : 1));
  args.y_row = i32(a.q() * (cut.pairs.y ? 2 : 1));
  args.pad_h = i32(a.pad_h);
  args.pad_w = i32(a.pad_w);
  args.stride_h = i32(a.stride_h);
  args.stride_w = i32(a.stride_w);
  args.k_blocks = i32(sum.k_blocks());
  args.stages = i32(sum.stages);
  args.row_blocks = i32(sum.row_blocks);
  args.block_channels = i32(sum.chunks * kStepNumbers);
  args.block_rows = i32(sum.taps_h * a.dilation_h);
  args.block_steps = i32(sum.per_block());
  args.chunks = i32(sum.chunks);
  args.warp_steps = i32(ceil_div(sum.per_block(), std::int64_t{cut.sum_warps}));
  args.chunks_reciprocal = 1.0f / static_cast<float>(sum.chunks);
  args.taps_w_reciprocal = 1.0f / static_cast<float>(sum.taps_w);
  args.to_next_tap = i32(a.dilation_w * memory.pitch - sum.chunks * kStepBytes);
  args.to_next_row =
      i32((a.dilation_h * memory.in_cols - sum.taps_w * a.dilation_w) * memory.pitch);
  args.pixels_per_group = i32(computed_pixels(cut));
  args.filters_per_task = i32(cut.filters_per_task());
  args.filter_bits = std::countr_zero(cut.filter_warps);
  args.pixel_bits = std::countr_zero(cut.pixel_warps);
  args.sum_warps = i32(cut.sum_warps);
  args.shares = i32(cut.shares);
  args.own_filters = i32(cut.own_filters());
  args.vector_bits = std::countr_zero(cut.filters_per_task() / 4);
  args.own_bits = std::countr_zero(cut.own_filters());
  const std::int64_t tiles =
      ceil_div(computed_pixels(cut), std::int64_t{SmallGemmCut::kWarpPixels});
  args.warp_tiles = i32(ceil_div(tiles, std::int64_t{cut.pixel_warps}));
  args.in_cols = i32(memory.in_cols);
  args.pitch = i32(memory.pitch);
  args.spacing_h = i32(sum.taps_h == 1 ? a.stride_h : 1);
  args.step_h = i32(sum.taps_h == 1 ? 1 : a.stride_h);
  const bool apart = a.s == 1;
  args.spacing_w = i32(apart ? a.stride_w : 1);
  args.step_w = i32(apart ? 1 : a.stride_w);
  args.piece_numbers = i32(piece_numbers(cut));
  const std::int64_t numbers = sum.whole_rows ? sum.pixel : sum.chunks * kStepNumbers;
  args.pieces = i32(numbers / args.piece_numbers);
  args.pixels_at_once = kSmallGemmThreads / args.pieces;
  args.most_pieces =
      i32(ceil_div(memory.in_rows * memory.in_cols, std::int64_t{args.pixels_at_once}));
  args.rows_at_once = args.pixels_at_once / args.in_cols;
  args.cols_at_once = args.pixels_at_once % args.in_cols;
  args.x_bytes = i32(memory.x_bytes);
  args.filter_bytes = i32(memory.filter_bytes);
  args.stage_bytes = i32(memory.stage_bytes);
  args.sums_at = i32(memory.sums_at);
  args.sums_wait = memory.sums_wait;
  args.sum_pitch = i32(memory.sum_pitch);
  args.warp_sums = i32(memory.sum_bytes / std::int64_t{sizeof(float)} / cut.sum_warps);
  const bool shared = cut.shares > 1;
  args.summands = shared ? args.shares : args.sum_warps;
  args.summand_pitch = shared ? args.own_filters : args.sum_pitch;
  args.summand_stride = shared ? args.pixels_per_group * args.own_filters : args.warp_sums;
  args.received_at = i32(memory.work_bytes);
  args.vectors_at = i32(memory.work_bytes + memory.received_bytes);
  args.steps_at = i32(memory.steps_at);
  args.in_cols_reciprocal = 1.0f / static_cast<float>(memory.in_cols);
  args.pieces_reciprocal = 1.0f / static_cast<float>(args.pieces);
  args.activation = terms_of(a.epilogue.activation);
  if (!cut.depthwise) return args;
  const ComputedInputMemory computed = computed_input_memory(cut, sum);
  const ConvProblem& of = *cut.depthwise;
  args.depthwise = {.h = i32(of.h),
                    .w = i32(of.w),
                    .pad_h = i32(of.pad_h),
                    .pad_w = i32(of.pad_w),
                    .stride_h = i32(of.stride_h),
                    .stride_w = i32(of.stride_w),
                    .taps = i32(of.r),
                    .expand_bytes = i32(expand_filter_bytes(cut, sum)),
                    .vector_bytes = i32(input_vector_bytes(cut, sum)),
                    .activation = terms_of(of.epilogue.activation)};
  if (!cut.expand) return args;
  const std::int64_t inside_at = memory.computed_input_at + computed.magnitudes;
  const std::int64_t x_at = inside_at + computed.inside;
  const std::int64_t expand_pieces = expand_steps(*cut.expand) * kStepNumbers / 8;
  const std::int64_t expand_tiles = sum.chunks * kStepNumbers / kExpandTile;
  args.expand = {.c = i32(cut.expand->c),
                 .steps = i32(expand_steps(*cut.expand)),
                 .pixels = i32(computed.pixels()),
                 .in_cols = i32(computed.in_cols),
                 .tiles = i32(expand_tiles),
                 .pieces = i32(expand_pieces),
                 .pixels_at_once = kSmallGemmThreads / i32(expand_pieces),
                 .magnitudes_at = i32(memory.computed_input_at),
                 .inside_at = i32(inside_at),
                 .x_at = i32(x_at),
                 .e_at = i32(x_at + computed.x),
                 .x_pitch = i32(computed.x_pitch),
                 .x_part = i32(computed.x_part),
                 .e_pitch = i32(computed.e_pitch),
                 .tiles_reciprocal = 1.0f / static_cast<float>(expand_tiles),
                 .pieces_reciprocal = 1.0f / static_cast<float>(expand_pieces),
                 .in_cols_reciprocal = 1.0f / static_cast<float>(computed.in_cols),
                 .activation = terms_of(cut.expand->epilogue.activation)};
  return args;
}

}  // namespace megaconv::cuda
