// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/task_arguments.hpp"

#include <algorithm>

#include "tasks/implicit_gemm/implicit_gemm.hpp"

namespace megaconv::cuda {
namespace {

template <class Number>
std::int32_t i32(Number value) {
  return static_cast<std::int32_t>(value);
}

// Of so many numbers of V or U in one position.
std::size_t position_bytes(const Tiling& tiling, std::int32_t rows, std::int32_t channels) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(channels) *
         number_bytes(tiling.arithmetic);
}

std::size_t count_filter_bytes(const Tiling& tiling, const KernelSet& kernels, const TaskArgs& args,
                               std::size_t num_filter_tasks) {
  const ConvProblem& problem = tiling.problem;
  if (kernels.filters_in_place) {
    return static_cast<std::size_t>(problem.w_size()) * size_of(problem.dtype);
  }
  const auto in_chunks = [&](std::uint32_t filter_blocks, std::size_t positions) {
    const std::size_t chunks = ceil_div(tiling.filter_blocks(), filter_blocks);
    const std::size_t footer_bytes =
        kernels.w_scale != 0 ? (kFooterNumbers + num_filter_tasks) * sizeof(std::uint32_t) : 0;
    return chunks * positions * position_bytes(tiling, args.gemm_filters, args.c_padded) +
           footer_bytes;
  };
  if (const auto* const cut = std::get_if<WinogradCut>(&tiling.cut)) {
    return in_chunks(cut->filter_blocks_per_gemm_task, cut->num_positions());
  }
  if (const auto* const cut = std::get_if<ImplicitGemmCut>(&tiling.cut)) {
    return in_chunks(cut->filter_blocks_per_gemm_task, static_cast<std::size_t>(args.r * args.s));
  }
  return tiling.u_bytes();
}

// --- what the cut of each algorithm adds to the arguments

void add_cut(TaskArgs& args, const Tiling& tiling, const KernelSet&, const DirectCut& cut) {
  args.filters_per_gemm_task = i32(cut.filter_blocks_per_gemm_task * Tiling::kLaneBlock);
  args.rows_per_group = i32(cut.rows_per_group);
  args.cols_per_group = i32(cut.cols_per_group);
  args.row_chunks = i32(ceil_div(u64(tiling.problem.p()), std::uint64_t{cut.rows_per_group}));
  args.col_chunks = i32(ceil_div(u64(tiling.problem.q()), std::uint64_t{cut.cols_per_group}));
}

void add_cut(TaskArgs& args, const Tiling&, const KernelSet&, const WinogradTiles& tiles) {
  args.tiles_h = i32(tiles.tiles_h);
  args.tiles_w = i32(tiles.tiles_w);
  args.num_tiles = i32(tiles.num_tiles);
  args.group_tiles = i32(tiles.group_tiles);
}

void add_cut(TaskArgs& args, const Tiling& tiling, const KernelSet& kernels,
             const WinogradCut& cut) {
  const std::uint32_t block = Tiling::kLaneBlock;
  const WinogradTiles& tiles = cut;
  add_cut(args, tiling, kernels, tiles);
  args.v_slots = i32(cut.window.v_slots);
  args.m_slots = i32(cut.window.m_slots);
  args.tile_chunks = i32(cut.tile_chunks());
  args.input_channel_chunks =
      i32(ceil_div(tiling.channel_blocks(), cut.channel_blocks_per_input_task));
  args.tiles_per_transform_task = i32(cut.tiles_per_transform_task);
  args.channels_per_input_task = i32(cut.channel_blocks_per_input_task * block);
  args.filters_per_gemm_task = i32(cut.filter_blocks_per_gemm_task * block);
  args.positions_per_gemm_task = i32(cut.positions_per_gemm_task);
  args.filters_per_output_task = i32(cut.filter_blocks_per_output_task * block);
}

SpaceToDepthArgs depth_args(const ConvProblem& p) {
  const SpaceToDepth depth = space_to_depth(p);
  return {.x = nullptr,
          .h = i32(p.h),
          .w = i32(p.w),
          .c = i32(p.c),
          .r = i32(p.r),
          .s = i32(p.s),
          .pad_h = i32(p.pad_h),
          .pad_w = i32(p.pad_w),
          .stride_h = i32(p.stride_h),
          .stride_w = i32(p.stride_w),
          .rows = i32(depth.rows),
          .cols = i32(depth.cols),
          .channels = i32(depth.channels),
          .taps = i32(depth.taps_h * depth.taps_w),
          .taps_w = i32(depth.taps_w)};
}

void add_cut(TaskArgs& args, const Tiling& tiling, const KernelSet& kernels,
             const ImplicitGemmCut& cut) {
  const ConvProblem p = multiplied_problem(tiling.problem, cut.operands);
  const std::uint32_t block = Tiling::kLaneBlock;
  args.stripes = make_stripes(p, i32(cut.cols_per_group));
  args.places = i32(places_of_stripe(p, args.stripes));
  args.places_per_group = i32(cut.places_per_group);
  args.stripe_groups = ceil_div(args.places, args.places_per_group);
  args.in_order = outputs_in_order(p, args.stripes);
  args.pools = cut.pools;
  if (kernels.operands != Operands::loaded) {
    args.tile_places =
        tile_places_in_place(args.places_per_group, args.stripes, kernels.operands, p.c);
    args.k_block_channels = k_block_channels_in_place(args.tile_places, kernels.operands);
    const InputOfTile input = input_of_tile(p, args.stripes, args.tile_places, kernels.operands);
    args.rows_at_once = input.filter_rows;
    args.cols_at_once = input.filter_cols;
    args.input_places = input.places;
    args.task_tiles = ceil_div(args.places_per_group, args.tile_places);
    const std::int32_t before_last = (args.stripe_groups - 1) * args.places_per_group;
    args.last_task_tiles = ceil_div(args.places - before_last, args.tile_places);
    args.k_blocks = ceil_div(args.c_padded, args.k_block_channels);
    args.share_k_blocks = ceil_div(args.k_blocks, i32(channel_shares(tiling)));
    args.block_k_blocks = args.k_blocks;
    args.output_cols = args.in_order ? args.tile_places / groups_of_places(kernels.operands)
                                     : output_cols_in_place(p, args.stripes.cols);
  }
  if (cut.operands == Operands::in_copy) {
    args.input_channel_chunks =
        i32(ceil_div(tiling.channel_blocks(), cut.channel_blocks_per_input_task));
    args.channels_per_input_task = i32(cut.channel_blocks_per_input_task * block);
  }
  args.channels_at_once = p.groups == 1 ? args.c : i32(channels_at_once(p));
  args.filters_at_once = i32(filters_at_once(p));
  args.filters_per_gemm_task = i32(cut.filter_blocks_per_gemm_task * block);
  args.input_tasks = i32(tiling.input_tasks);
  args.cluster_blocks = 1;
  if (has_space_to_depth(tiling.problem)) args.depth = depth_args(tiling.problem);
}

// Its tasks have arguments of their own.
void add_cut(TaskArgs&, const Tiling&, const KernelSet&, const SmallGemmCut&) {}

}  // namespace

TaskArgs make_task_args(const Tiling& tiling, const KernelSet& kernels) {
  const Tiling tasks = multiplied(tiling);
  const ConvProblem& p = tasks.problem;
  const std::uint32_t block = Tiling::kLaneBlock;
  TaskArgs args{};
  args.n = i32(p.n);
  args.c = i32(p.c);
  args.h = i32(p.h);
  args.w_in = i32(p.w);
  args.k = i32(p.k);
  args.r = i32(p.r);
  args.s = i32(p.s);
  args.p = i32(p.p());
  args.q = i32(p.q());
  args.pad_h = i32(p.pad_h);
  args.pad_w = i32(p.pad_w);
  args.stride_h = i32(p.stride_h);
  args.stride_w = i32(p.stride_w);
  args.dilation_h = i32(p.dilation_h);
  args.dilation_w = i32(p.dilation_w);
  args.groups = i32(p.groups);
  args.x_scale = kernels.x_scale;
  args.w_scale = kernels.w_scale;
  args.layout = p.layout;
  args.activation = terms_of(p.epilogue.activation);
  args.gemm_tiles = kernels.gemm_tiles;
  args.gemm_filters = kernels.gemm_filters;
  const std::int32_t multiple = std::max(kernels.channel_multiple, i32(block));
  args.c_padded = ceil_div(i32(tasks.channel_blocks() * block), multiple) * multiple;
  args.k_padded = i32(tiling.filter_blocks() * block);
  args.num_groups = i32(tiling.num_groups);
  if (tiling.channel_blocks_per_filter_task != 0) {
    args.filter_channel_chunks =
        i32(ceil_div(tiling.channel_blocks(), tiling.channel_blocks_per_filter_task));
  }
  args.filters_per_filter_task = i32(tiling.filter_blocks_per_filter_task * block);
  args.channels_per_filter_task = i32(tiling.channel_blocks_per_filter_task * block);
  std::visit([&](const auto& cut) { add_cut(args, tiling, kernels, cut); }, tiling.cut);
  return args;
}

TaskMemory memory_of_tasks(const Tiling& tiling, const KernelSet& kernels, const TaskArgs& args,
                           std::size_t num_filter_tasks) {
  TaskMemory memory;
  memory.u_bytes = count_filter_bytes(tiling, kernels, args, num_filter_tasks);
  memory.v_bytes = input_copy_bytes(tiling);
  if (const auto* const cut = std::get_if<WinogradCut>(&tiling.cut)) {
    const std::size_t positions = cut->num_positions();
    memory.v_bytes =
        cut->window.v_slots * positions * position_bytes(tiling, args.gemm_tiles, args.c_padded);
    const std::int64_t sums = std::int64_t{cut->num_positions()} * args.gemm_tiles * args.k_padded;
    memory.m_bytes =
        cut->window.m_slots *
        u64(bytes_of_m(sums, static_cast<std::int64_t>(number_bytes(tiling.arithmetic))));
  }
  if (kernels.redo != nullptr) {
    const std::size_t of_group =
        std::max(static_cast<std::size_t>(args.cluster_blocks) * kernels.noted_of_block,
                 std::size_t{tiling.input_tasks});
    memory.footer_bytes = (kFooterNumbers + tiling.num_groups * of_group) * sizeof(std::uint32_t);
  }
  return memory;
}

}  // namespace megaconv::cuda
