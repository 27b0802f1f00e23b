// SPDX-License-Identifier: Apache-2.0
// Longest remaining work first, among the tasks that are ready (Kahn's algorithm).
#include <algorithm>
#include <queue>

#include "mapping/policies/dry_run.hpp"
#include "mapping/policies/policies.hpp"

namespace megaconv {
namespace {

// A worker: about 50 GFLOP/s against 10 GB/s.
constexpr double kOperationsPerByte = 5;

// Time of one task of a stage, in operations: it computes while it moves bytes.
double work_of(const Stage& stage) {
  return std::max(stage.operations, stage.bytes * kOperationsPerByte);
}

// Any order in which producers stand before consumers.
TaskOrder any_topological_order(const TaskGraph& graph) {
  DryRun run(graph);
  TaskOrder order;
  order.reserve(graph.tasks.size());
  const auto append = [&](std::uint32_t id) { order.push_back(id); };
  run.start(append);
  for (std::size_t next = 0; next < order.size(); ++next) run.finish(order[next], append);
  return order;
}

// Bottom level: the work from a task's start to the end of the graph along its longest path.
std::vector<double> bottom_levels(const TaskGraph& graph) {
  const DryRun run(graph);
  std::vector<double> level(graph.tasks.size());
  std::vector<double> counter_level(graph.counter_totals.size());  // highest among its waiters
  const TaskOrder order = any_topological_order(graph);
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    run.for_each_signal(
        *id, [&](std::uint32_t c) { level[*id] = std::max(level[*id], counter_level[c]); });
    level[*id] += work_of(graph.stages[graph.stage_of(*id)]);
    const std::uint32_t counter = graph.tasks[*id].wait_counter;
    if (counter != kNoCounter)
      counter_level[counter] = std::max(counter_level[counter], level[*id]);
  }
  return level;
}

}  // namespace

TaskOrder order_critical_path(const TaskGraph& graph, const PolicyArguments&) {
  const std::vector<double> level = bottom_levels(graph);
  const auto later = [&](std::uint32_t a, std::uint32_t b) {
    return level[a] != level[b] ? level[a] < level[b] : a > b;
  };
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, decltype(later)> ready(later);
  const auto push = [&](std::uint32_t id) { ready.push(id); };
  DryRun run(graph);
  TaskOrder order;
  order.reserve(graph.tasks.size());
  for (run.start(push); !ready.empty();) {
    const std::uint32_t id = ready.top();
    ready.pop();
    order.push_back(id);
    run.finish(id, push);
  }
  return order;
}

}  // namespace megaconv
