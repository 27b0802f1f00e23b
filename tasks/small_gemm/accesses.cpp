// SPDX-License-Identifier: Apache-2.0
// A task reads the rows and columns of x under its tile, its filters and the residual of its tile,
// and writes its filters' outputs. What it costs, too.
#include <algorithm>
#include <utility>

#include "megaconv/lowering.hpp"
#include "tasks/checks.hpp"
#include "tasks/cost.hpp"
#include "tasks/regions.hpp"
#include "tasks/small_gemm/computed_input.hpp"
#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {

AccessFunction small_gemm_accesses(const SmallGemmCut& cut, const NodeBuffers& buffers) {
  return [cut, buffers](Role, std::uint32_t group, std::uint32_t block,
                        std::vector<Access>& accesses) {
    const ConvProblem& a = cut.problem;
    const TaskTile tile = tile_of(cut, group);
    // Rows of the image, in a tensor that has so many of each.
    const auto in_image = [&](const Interval& rows, std::int64_t rows_of_image) {
      const std::uint64_t first = tile.image * u64(rows_of_image);
      return Interval{first + rows.begin, first + rows.end};
    };
    Region y{
        .rows = in_image(tile.rows.own, a.p()), .cols = tile.cols.own, .channels = {0, u64(a.k)}};
    // 1x1 filters read the pixels of their outputs.
    const ConvProblem& window = cut.depthwise ? *cut.depthwise : a;
    accesses.push_back(
        {buffers.x,
         Mode::read,
         {.rows = rows_of(window).inputs_of_images(in_image(tile.rows.computed, a.p())),
          .cols = cols_of(window).inputs_of(tile.cols.computed),
          .channels = {0, u64(first_problem(cut).c)}}});
    accesses.push_back({buffers.u, Mode::read, small_gemm_u_extent(cut)});
    // The tasks of a group read the same.
    if (buffers.residual != kNoBuffer) accesses.push_back({buffers.residual, Mode::read, y});
    // So do those that share sums: what one has not loaded, it is handed the sums of.
    y.channels.begin = std::uint64_t{block} * cut.own_filters();
    y.channels.end = std::min(y.channels.begin + cut.own_filters(), y.channels.end);
    if (cut.stores_y) accesses.push_back({buffers.y, Mode::write, y});
    if (buffers.second == kNoBuffer) return;
    if (cut.pool) {
      y.rows = in_image(tile.rows.pooled, cut.pool->p());
      y.cols = tile.cols.pooled;
      if (y.rows.size() * y.cols.size() == 0) return;
    }
    y.channels.begin += buffers.second_channel;
    y.channels.end += buffers.second_channel;
    accesses.push_back({buffers.second, Mode::write, y});
  };
}

Region small_gemm_u_extent(const SmallGemmCut& cut) {
  return {.channels = {0, u64(cut.problem.k)}};
}

TaskCost small_gemm_cost(const SmallGemmCut& cut, const NodeBuffers& buffers) {
  using Piece = Traffic::Piece;
  const ConvProblem& a = cut.problem;
  const double tasks = static_cast<double>(cut.num_groups) * cut.tasks_per_group;
  const auto element = static_cast<double>(size_of(a.dtype));
  const auto reach = [](const WindowAxis& axis, std::int64_t outputs) {
    const std::int64_t inputs = (outputs - 1) * axis.stride + axis.extent;
    return static_cast<double>(std::min(inputs, axis.inputs));
  };
  const ConvProblem& window = cut.depthwise ? *cut.depthwise : a;
  const double x_part = reach(rows_of(window), computed_rows(cut)) *
                        reach(cols_of(window), computed_cols(cut)) *
                        static_cast<double>(first_problem(cut).c) / (cut.expand ? 1 : cut.shares) *
                        (x_in_pairs(cut) ? element / 2 : element);
  const double u_part = static_cast<double>(packed_bytes(cut)) / cut.tasks_per_group;
  const double residual_part = static_cast<double>(a.y_size()) * element / tasks;
  const bool without_rests = cut.pairs.y && !cut.pairs.rests;
  const double y_part = without_rests ? residual_part / 2 : residual_part;
  const double flops = a.flops() + (cut.depthwise ? cut.depthwise->flops() : 0) +
                       (cut.expand ? cut.expand->flops() : 0);
  TaskCost cost{.products = flops / tasks,
                .bytes = x_part + u_part + (cut.stores_y ? y_part : 0),
                .traffic = {{buffers.x, Mode::read, Piece::evenly, x_part},
                            {buffers.u, Mode::read, Piece::of_block, u_part}}};
  if (a.epilogue.residual) {
    cost.traffic.push_back({buffers.residual, Mode::read, Piece::evenly, residual_part});
    cost.bytes += residual_part;
  }
  if (cut.stores_y) cost.traffic.push_back({buffers.y, Mode::write, Piece::of_task, y_part});
  if (buffers.second != kNoBuffer) {
    const double part =
        cut.pool ? static_cast<double>(cut.pool->y_size()) * element / tasks : y_part;
    cost.traffic.push_back({buffers.second, Mode::write, Piece::of_task, part});
    cost.bytes += part;
  }
  return cost;
}

NodeBuffers add_small_gemm(TaskGraph& graph, const std::string& name, const SmallGemmCut& cut,
                           const NodeBuffers& read) {
  SmallGemmCut counted = cut;
  derive_counts(counted);
  const ConvProblem& a = counted.problem;
  check_buffer(graph, name, read.x, x_extent(first_problem(counted)));
  if (a.epilogue.residual) check_buffer(graph, name, read.residual, y_extent(a));
  NodeBuffers buffers = read;
  buffers.u = static_cast<BufferId>(graph.buffers.size());
  buffers.y = buffers.u + 1;
  Stage stage;
  stage.node = static_cast<NodeId>(graph.nodes.size());
  stage.role = Role::product;
  stage.kind = id_of(TaskKind::direct);
  stage.groups = counted.num_groups;
  stage.per_group = counted.tasks_per_group;
  TaskCost cost = small_gemm_cost(counted, buffers);
  stage.operations = cost.operations();
  stage.bytes = cost.bytes;
  stage.traffic = std::move(cost.traffic);
  stage.time = small_gemm_time(counted);
  add_stage(graph, std::move(stage));  // the one that may throw comes first
  graph.nodes.push_back(name);
  graph.buffers.push_back({.name = name + ".U",
                           .extent = small_gemm_u_extent(counted),
                           .bytes = packed_bytes(counted),
                           .given = true});
  graph.buffers.push_back(
      {.name = name + ".y", .extent = y_extent(a), .bytes = u64(a.y_size()) * size_of(a.dtype)});
  graph.accesses.push_back(small_gemm_accesses(counted, buffers));
  return buffers;
}

}  // namespace megaconv
