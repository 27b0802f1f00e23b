// SPDX-License-Identifier: Apache-2.0
#include "tasks/small_gemm/cuda/small_gemm_args.hpp"

#include <algorithm>

#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv::cuda {

SmallGemmShare make_small_gemm_share(const SmallGemmCut& cut, std::uint32_t group,
                                     std::uint32_t block) {
  const ConvProblem& a = cut.problem;
  const auto i32 = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  const std::int64_t p = a.p(), q = a.q(), rows = cut.rows_per_group, cols = cut.cols_per_group;
  const std::int64_t row_tiles = ceil_div(p, rows), col_tiles = ceil_div(q, cols);
  const ChannelRange channels = channels_of_block(cut, block);
  SmallGemmShare share{};
  share.image = i32(group / col_tiles / row_tiles);
  share.row = i32(group / col_tiles % row_tiles * rows);
  share.col = i32(group % col_tiles * cols);
  share.rows = i32(std::min(rows, p - share.row));
  share.cols = i32(std::min(cols, q - share.col));
  share.first_filter = i32(std::int64_t{block} * cut.filters_per_task());
  share.first_channel = i32(channels.begin);
  share.num_channels = i32(channels.end - channels.begin);
  share.filter_block = i32(block);
  share.reciprocal = 1.0f / static_cast<float>(share.cols);
  return share;
}

SmallGemmArgs make_small_gemm_args(const SmallGemmCut& cut) {
  const ConvProblem& a = cut.problem;
  const SumSteps sum = steps_of(cut);
  const auto i32 = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
  SmallGemmArgs args{};
  args.c = i32(a.c);
  args.h = i32(a.h);
  args.w = i32(a.w);
  args.k = i32(a.k);
  args.p = i32(a.p());
  args.q = i32(a.q());
  args.pad_h = i32(a.pad_h);
  args.pad_w = i32(a.pad_w);
  args.stride_h = i32(a.stride_h);
  args.stride_w = i32(a.stride_w);
  args.dilation_h = i32(a.dilation_h);
  args.dilation_w = i32(a.dilation_w);
  args.group_channels = i32(a.c / a.groups);
  args.group_filters = i32(a.k / a.groups);
  args.rows_per_group = i32(cut.rows_per_group);
  args.cols_per_group = i32(cut.cols_per_group);
  args.filters_per_task = i32(cut.filters_per_task());
  args.filter_warps = i32(cut.filter_warps);
  args.pixel_warps = i32(cut.pixel_warps);
  args.sum_warps = i32(cut.sum_warps);
  args.taps_h = i32(sum.taps_h);
  args.taps_w = i32(sum.taps_w);
  args.numbers = i32(sum.numbers);
  args.chunks = i32(sum.chunks);
  args.vectors = sum.vectors;
  args.whole_rows = sum.whole_rows;
  args.activation = terms_of(a.epilogue.activation);
  return args;
}

}  // namespace megaconv::cuda
