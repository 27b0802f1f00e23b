// SPDX-License-Identifier: Apache-2.0
// From a tiling to tasks and counters.
//
// Counters of a Winograd graph, each owned by the tasks of one group that wait on it:
//
//   index            waiting   receives from                                    how many
//   g                G[g,*]    F[*], I[g,*], O[g - m_slots,*] (M slot free)     NF + SI (+ SO)
//   NG + g           O[g,*]    G[g,*]                                           SG
//   2 NG + g - v     I[g,*]    G[g - v_slots,*] (V slot free), g >= v_slots     SG
//
// The window's terms exist only when it has fewer slots than there are groups. A direct (or
// openCNN) graph has one counter, on which every direct task waits for all filter and input tasks.
#include <new>

#include "mapping/tiling.hpp"
#include "megaconv/error.hpp"
#include "megaconv/mapping.hpp"

namespace megaconv {
namespace {

constexpr std::uint64_t kMostTasks = std::uint64_t{1} << 31;

class GraphBuilder {
 public:
  explicit GraphBuilder(const Tiling& tiling) : tiling_(tiling), num_groups_(tiling.num_groups) {}

  TaskGraph build() {
    const std::uint64_t total = num_tasks(tiling_);
    if (total > kMostTasks) {
      throw Error(Status::unsupported,
                  std::to_string(total) + " tasks: must be at most 2^31; use larger groups");
    }
    graph_.tiling = tiling_;
    try {
      graph_.tasks.reserve(total);
      tiling_.algorithm == Algorithm::winograd ? build_winograd() : build_direct();
    } catch (const std::bad_alloc&) {
      throw Error(Status::out_of_memory,
                  std::to_string(total) + " tasks do not fit in memory; use larger groups");
    }
    return std::move(graph_);
  }

 private:
  void build_winograd() {
    const std::uint32_t released_inputs = num_groups_ - tiling_.v_slots;
    graph_.counter_totals.resize(2 * num_groups_ + released_inputs);
    for (std::uint32_t g = 0; g < num_groups_; ++g) {
      const bool reuses_m = g >= tiling_.m_slots;
      graph_.counter_totals[gemm_ready(g)] =
          tiling_.num_filter_tasks + tiling_.input_tasks + (reuses_m ? tiling_.output_tasks : 0);
      graph_.counter_totals[output_ready(g)] = tiling_.gemm_tasks;
      if (g >= tiling_.v_slots) graph_.counter_totals[input_ready(g)] = tiling_.gemm_tasks;
    }

    add(TaskKind::filter_transform, 0, tiling_.num_filter_tasks,
        {.signal_first = 0, .signal_count = num_groups_});
    for (std::uint32_t g = 0; g < num_groups_; ++g) {
      add(TaskKind::input_transform, g, tiling_.input_tasks,
          {.wait_counter = g >= tiling_.v_slots ? input_ready(g) : kNoCounter,
           .signal_first = gemm_ready(g),
           .signal_count = 1});
    }
    for (std::uint32_t g = 0; g < num_groups_; ++g) {
      const bool frees_v = num_groups_ - g > tiling_.v_slots;
      add(TaskKind::gemm, g, tiling_.gemm_tasks,
          {.wait_counter = gemm_ready(g),
           .signal_first = output_ready(g),
           .signal_count = 1,
           .release_counter = frees_v ? input_ready(g + tiling_.v_slots) : kNoCounter});
    }
    for (std::uint32_t g = 0; g < num_groups_; ++g) {
      const bool frees_m = num_groups_ - g > tiling_.m_slots;
      add(TaskKind::output_transform, g, tiling_.output_tasks,
          {.wait_counter = output_ready(g),
           .release_counter = frees_m ? gemm_ready(g + tiling_.m_slots) : kNoCounter});
    }
  }

  void build_direct() {
    const std::uint32_t total = tiling_.num_filter_tasks + num_groups_ * tiling_.input_tasks;
    const bool waits = total > 0;
    if (waits) graph_.counter_totals = {total};
    const Task operands{.signal_first = 0, .signal_count = 1};
    add(TaskKind::filter_transform, 0, tiling_.num_filter_tasks, operands);
    for (std::uint32_t g = 0; g < num_groups_; ++g) {
      add(TaskKind::input_transform, g, tiling_.input_tasks, operands);
    }
    for (std::uint32_t g = 0; g < num_groups_; ++g) {
      add(TaskKind::direct, g, tiling_.gemm_tasks, {.wait_counter = waits ? 0 : kNoCounter});
    }
  }

  std::uint32_t gemm_ready(std::uint32_t g) const { return g; }
  std::uint32_t output_ready(std::uint32_t g) const { return num_groups_ + g; }
  std::uint32_t input_ready(std::uint32_t g) const { return 2 * num_groups_ + g - tiling_.v_slots; }

  // Appends `count` tasks that differ only in their block; `task` has the counters.
  void add(TaskKind kind, std::uint32_t group, std::uint32_t count, Task task) {
    task.kind = kind;
    task.group = group;
    if (task.wait_counter != kNoCounter) task.wait_count = graph_.counter_totals[task.wait_counter];
    for (task.block = 0; task.block < count; ++task.block) graph_.tasks.push_back(task);
  }

  const Tiling& tiling_;
  const std::uint32_t num_groups_;
  TaskGraph graph_;
};

}  // namespace

TaskGraph build_graph(const Tiling& tiling) { return GraphBuilder(tiling).build(); }

TaskGraph build_filter_graph(const Tiling& tiling) {
  TaskGraph graph;
  graph.tiling = tiling;
  graph.tiling.filters = FilterMode::every_run;
  graph.tiling.num_filter_tasks = count_filter_tasks(tiling);
  graph.tiling.num_groups = graph.tiling.v_slots = graph.tiling.m_slots = 0;
  graph.tasks.resize(graph.tiling.num_filter_tasks);
  for (std::uint32_t block = 0; block < graph.tiling.num_filter_tasks; ++block) {
    graph.tasks[block] = {.kind = TaskKind::filter_transform, .block = block};
  }
  return graph;
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
  }
  return "unknown";
}

char letter(TaskKind kind) noexcept {
  const auto index = static_cast<std::uint32_t>(kind);
  return index < kNumTaskKinds ? "FIGOD"[index] : '?';
}

std::string name(const Task& task) {
  const std::string prefix = std::string(1, letter(task.kind)) + "[";
  const std::string block = std::to_string(task.block) + "]";
  return task.kind == TaskKind::filter_transform
             ? prefix + block
             : prefix + std::to_string(task.group) + "," + block;
}

}  // namespace megaconv
