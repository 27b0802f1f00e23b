// SPDX-License-Identifier: Apache-2.0
// From a tiling to stages, buffers and linked tasks.
#include "tasks/conv_graph.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "megaconv/error.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/regions.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
std::vector<Kind> task_kinds() {
  std::vector<Kind> kinds;
  for (std::uint32_t kind = 0; kind < kNumTaskKinds; ++kind) {
    kinds.push_back({to_string(static_cast<TaskKind>(kind)), letter(static_cast<TaskKind>(kind))});
  }
  return kinds;
}

namespace {

BufferId add(TaskGraph& graph, const char* name, const Region& extent, std::uint64_t bytes,
             bool given) {
  graph.buffers.push_back({.name = name, .extent = extent, .bytes = bytes, .given = given});
  return static_cast<BufferId>(graph.buffers.size() - 1);
}

NodeBuffers add_buffers(TaskGraph& graph, const Tiling& tiling, const NodeBuffers& read) {
  const ConvProblem& a = tiling.problem;
  const std::uint64_t element = size_of(a.dtype);
  NodeBuffers buffers = read;
  if (buffers.x == kNoBuffer) {
    buffers.x = add(graph, "x", x_extent(a), u64(a.x_size()) * element, true);
  }
  const bool prepared = tiling.num_filter_tasks == 0;
  if (!prepared) {
    buffers.w = add(graph, "w", u_extent(tiling), u64(a.w_size()) * element, true);
  }
  if (a.epilogue.residual && buffers.residual == kNoBuffer) {
    buffers.residual = add(graph, "residual", y_extent(a), u64(a.y_size()) * element, true);
  }
  buffers.u = add(graph, "U", u_extent(tiling), tiling.u_bytes(), prepared);
  algorithm_of(tiling).add_buffers(graph, tiling, buffers);
  buffers.y = add(graph, "y", y_extent(a), u64(a.y_size()) * element, false);
  return buffers;
}

void check_num_tasks(std::uint64_t total) {
  if (total <= std::uint64_t{1} << 31) return;
  throw Error(Status::unsupported,
              std::to_string(total) + " tasks: must be at most 2^31; use larger groups");
}

void check_read(const TaskGraph& graph, const std::string& name, const char* tensor, BufferId id,
                const Region& extent) {
  if (id == kNoBuffer || graph.buffers[id].extent == extent) return;
  throw Error(Status::invalid_argument, name + ": " + tensor + " has " + to_string(extent) +
                                            ", buffer " + graph.buffers[id].name + " has " +
                                            to_string(graph.buffers[id].extent));
}

}  // namespace

Region u_extent(const Tiling& tiling) { return algorithm_of(tiling).u_extent(tiling); }

Region filter_task_region(const Tiling& tiling, std::uint32_t block) {
  const Region all = u_extent(tiling);
  const std::uint64_t per_task = tiling.channel_blocks_per_filter_task;
  const std::uint64_t chunks = per_task == 0 ? 1 : ceil_div(all.channels.end, per_task);
  const std::uint64_t c = block % chunks * std::max<std::uint64_t>(1, per_task);
  const std::uint64_t k = block / chunks * tiling.filter_blocks_per_filter_task;
  return {.channels = {c, per_task == 0 ? 1 : std::min(c + per_task, all.channels.end)},
          .positions = {k, std::min(k + tiling.filter_blocks_per_filter_task, all.positions.end)}};
}

void append_filter_task(const Tiling& tiling, const NodeBuffers& buffers, std::uint32_t block,
                        std::vector<Access>& accesses) {
  const Region part = filter_task_region(tiling, block);
  accesses.push_back({buffers.w, Mode::read, part});
  accesses.push_back({buffers.u, Mode::write, part});
}

Interval channels_of_filter_blocks(const Tiling& tiling, std::uint64_t begin, std::uint64_t end) {
  const ConvProblem& a = tiling.problem;
  const std::uint64_t groups = u64(padded_groups(tiling));
  const std::uint64_t filters = u64(a.k) / groups;
  const std::uint64_t blocks = tiling.filter_blocks() / groups;
  const auto channel = [&](std::uint64_t block) {
    return block / blocks * filters + std::min(block % blocks * Tiling::kLaneBlock, filters);
  };
  return {channel(begin), channel(end)};
}

void append_pixels(const Tiling& tiling, const NodeBuffers& buffers,
                   const std::vector<Region>& boxes, const Interval& channels,
                   std::vector<Access>& accesses) {
  const ConvProblem& a = tiling.problem;
  for (const Region& box : boxes) {
    const Region x{.rows = rows_of(a).inputs_of_images(box.rows),
                   .cols = cols_of(a).inputs_of(box.cols),
                   .channels = {0, u64(a.c)}};
    Region y = box;
    y.channels = channels;
    accesses.push_back({buffers.x, Mode::read, x});
    if (buffers.residual != kNoBuffer) {
      Region residual = box;
      residual.channels = {0, u64(a.k)};  // the tasks of a group read the same
      accesses.push_back({buffers.residual, Mode::read, residual});
    }
    accesses.push_back({buffers.y, Mode::write, y});
  }
}

std::array<Stage, kNumRoles> conv_stages(const Tiling& tiling) {
  const auto stage = [](Role role, TaskKind kind, std::uint32_t groups, std::uint32_t per_group) {
    return Stage{.role = role, .kind = id_of(kind), .groups = groups, .per_group = per_group};
  };
  const std::uint32_t groups = tiling.num_groups;
  return {stage(Role::prepare, TaskKind::filter_transform, 1, tiling.num_filter_tasks),
          stage(Role::input, TaskKind::input_transform, groups, tiling.input_tasks),
          stage(Role::product, algorithm_of(tiling).product(), groups, tiling.gemm_tasks),
          stage(Role::output, TaskKind::output_transform, groups, tiling.output_tasks)};
}

NodeBuffers add_convolution(TaskGraph& graph, const std::string& name, const Tiling& tiling,
                            const NodeBuffers& read) {
  check_num_tasks(num_tasks(tiling));
  check_read(graph, name, "x", read.x, x_extent(tiling.problem));
  check_read(graph, name, "residual", read.residual, y_extent(tiling.problem));
  graph.kinds = task_kinds();
  const auto node = static_cast<NodeId>(graph.nodes.size());
  graph.nodes.push_back(name);
  const NodeBuffers buffers = add_buffers(graph, tiling, read);
  const ConvAlgorithm& algorithm = algorithm_of(tiling);
  graph.accesses.push_back(algorithm.accesses(tiling, buffers));
  for (Stage& stage : conv_stages(tiling)) {
    stage.node = node;
    if (stage.num_tasks() > 0) {
      TaskCost cost = algorithm.cost(tiling, buffers, stage.role);
      stage.operations = cost.operations();
      stage.bytes = cost.bytes;
      stage.traffic = std::move(cost.traffic);
    }
    add_stage(graph, std::move(stage));
  }
  return buffers;
}

TaskGraph build_graph(const Tiling& tiling) {
  TaskGraph graph;
  add_convolution(graph, "conv", tiling);
  link(graph);
  add_reuse(graph);
  count_signals(graph);
  return graph;
}

TaskGraph build_filter_graph(const Tiling& tiling) {
  Tiling filters = tiling;
  filters.filters = FilterMode::every_run;
  filters.num_filter_tasks = algorithm_of(tiling).count_filter_tasks(tiling);
  filters.num_groups = 0;
  return build_graph(filters);
}

const char* to_string(TaskKind kind) noexcept {
  switch (kind) {
    case TaskKind::filter_transform:
      return "filter_transform";
    case TaskKind::input_transform:
      return "input_transform";
    case TaskKind::gemm:
      return "gemm";
    case TaskKind::output_transform:
      return "output_transform";
    case TaskKind::direct:
      return "direct";
    case TaskKind::pooling:
      return "pooling";
    case TaskKind::elementwise:
      return "elementwise";
  }
  return "unknown";
}

char letter(TaskKind kind) noexcept {
  const auto index = static_cast<std::uint32_t>(kind);
  return index < kNumTaskKinds ? "FIGODPE"[index] : '?';
}

}  // namespace megaconv
