// SPDX-License-Identifier: Apache-2.0
// Policies that know nothing of convolution: they walk the counters as an executor would (Kahn's
// algorithm) and choose among the tasks that are ready.
#include <algorithm>
#include <queue>

#include "mapping/policies.hpp"
#include "mapping/stripes.hpp"
#include "mapping/tiling.hpp"

namespace megaconv {
namespace {

// Runs a graph one task at a time, without doing the work: counters, and who waits on them.
class DryRun {
 public:
  explicit DryRun(const TaskGraph& graph)
      : graph_(graph), missing_(graph.counter_totals), first_waiter_(missing_.size() + 1) {
    for (const Task& task : graph.tasks) {
      if (task.wait_counter != kNoCounter) ++first_waiter_[task.wait_counter + 1];
    }
    for (std::size_t c = 1; c < first_waiter_.size(); ++c) first_waiter_[c] += first_waiter_[c - 1];
    waiters_.resize(first_waiter_.back());
    std::vector<std::uint32_t> end(first_waiter_);
    for (std::uint32_t id = 0; id < graph.tasks.size(); ++id) {
      const std::uint32_t counter = graph.tasks[id].wait_counter;
      if (counter != kNoCounter) waiters_[end[counter]++] = id;
    }
  }

  // Calls `on_ready(id)` for every task that waits for nothing.
  template <typename OnReady>
  void start(OnReady on_ready) const {
    for (std::uint32_t id = 0; id < graph_.tasks.size(); ++id) {
      if (graph_.tasks[id].wait_counter == kNoCounter) on_ready(id);
    }
  }

  // Signals what task `id` signals; calls `on_ready` for every task whose last producer it was.
  template <typename OnReady>
  void finish(std::uint32_t id, OnReady on_ready) {
    for_each_signal(id, [&](std::uint32_t counter) {
      if (--missing_[counter] == 0) for_each_waiter(counter, on_ready);
    });
  }

  template <typename Visit>
  void for_each_signal(std::uint32_t id, Visit visit) const {
    const Task& task = graph_.tasks[id];
    for (std::uint32_t c = 0; c < task.signal_count; ++c) visit(task.signal_first + c);
    if (task.release_counter != kNoCounter) visit(task.release_counter);
  }

  template <typename Visit>
  void for_each_waiter(std::uint32_t counter, Visit visit) const {
    for (std::uint32_t w = first_waiter_[counter]; w < first_waiter_[counter + 1]; ++w) {
      visit(waiters_[w]);
    }
  }

 private:
  const TaskGraph& graph_;
  std::vector<std::uint32_t> missing_;       // signals that a counter has yet to receive
  std::vector<std::uint32_t> first_waiter_;  // of each counter, into waiters_
  std::vector<std::uint32_t> waiters_;
};

// Time of one task of each kind, in floating-point operations. A transform moves more bytes than it
// computes: kFlopsPerByte converts (a CPU core: about 50 GFLOP/s against 10 GB/s).
class CostModel {
 public:
  explicit CostModel(const Tiling& tiling) {
    constexpr double kFlopsPerByte = 5, kLanes = Tiling::kLaneBlock;
    const auto transform = [&](double values) { return values * sizeof(float) * kFlopsPerByte; };
    const double channels = tiling.channel_blocks() * kLanes;
    const double task_filters = tiling.filter_blocks_per_gemm_task * kLanes;
    const double filter_task_filters = tiling.filter_blocks_per_filter_task * kLanes;
    const double taps = static_cast<double>(tiling.problem.r * tiling.problem.s);
    const double positions = tiling.num_positions();
    const bool winograd = is_winograd(tiling.algorithm);
    const bool implicit_gemm = tiling.algorithm == Algorithm::implicit_gemm;
    const double filter_task_channels =
        winograd || implicit_gemm ? tiling.channel_blocks_per_filter_task * kLanes : channels;
    const double filter_values =
        filter_task_filters * filter_task_channels * (taps + (winograd ? positions : taps));
    const double pixels = implicit_gemm ? double(tiling.places_per_group)
                                        : double(tiling.rows_per_group) * tiling.cols_per_group;
    of(TaskKind::filter_transform) = transform(filter_values);
    of(TaskKind::direct) = 2 * pixels * task_filters * channels * taps;
    if (has_input_tasks(tiling)) {
      of(TaskKind::input_transform) =
          transform(kPixelsOfInputTask * tiling.channel_blocks_per_input_task * kLanes);
    }
    if (tiling.algorithm != Algorithm::winograd) return;  // fused tasks are all alike
    const double tile_values = tiling.tiles_per_transform_task * kLanes;  // of one lane block
    const auto transform_blocks = [&](double blocks) {
      return transform(blocks * tile_values * (tiling.m * tiling.m + positions));
    };
    of(TaskKind::input_transform) = transform_blocks(tiling.channel_blocks_per_input_task);
    of(TaskKind::gemm) =
        2.0 * tiling.positions_per_gemm_task * tiling.group_tiles * task_filters * channels;
    of(TaskKind::output_transform) = transform_blocks(tiling.filter_blocks_per_output_task);
  }

  double operator[](TaskKind kind) const { return cost_[static_cast<std::size_t>(kind)]; }

 private:
  double& of(TaskKind kind) { return cost_[static_cast<std::size_t>(kind)]; }
  double cost_[kNumTaskKinds] = {};
};

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

// Bottom level: the time from a task's start to the end of the graph along its longest path.
std::vector<double> bottom_levels(const TaskGraph& graph) {
  const DryRun run(graph);
  const CostModel cost(graph.tiling);
  std::vector<double> level(graph.tasks.size());
  std::vector<double> counter_level(graph.counter_totals.size());  // highest among its waiters
  const TaskOrder order = any_topological_order(graph);
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    const Task& task = graph.tasks[*id];
    run.for_each_signal(
        *id, [&](std::uint32_t c) { level[*id] = std::max(level[*id], counter_level[c]); });
    level[*id] += cost[task.kind];
    if (task.wait_counter != kNoCounter) {
      counter_level[task.wait_counter] = std::max(counter_level[task.wait_counter], level[*id]);
    }
  }
  return level;
}

// SplitMix64 (Steele, Lea, Flood 2014): the same sequence on every machine.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Uniform in [0, bound), to within 2^-32: bound is at most 2^31.
  std::uint32_t below(std::uint64_t bound) {
    return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
  }

 private:
  std::uint64_t state_;
};

}  // namespace

TaskOrder order_critical_path(const TaskGraph& graph) {
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

TaskOrder order_random_topological(const TaskGraph& graph, std::uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<std::uint32_t> ready;
  const auto push = [&](std::uint32_t id) { ready.push_back(id); };
  DryRun run(graph);
  TaskOrder order;
  order.reserve(graph.tasks.size());
  for (run.start(push); !ready.empty();) {
    std::swap(ready[random.below(ready.size())], ready.back());
    const std::uint32_t id = ready.back();
    ready.pop_back();
    order.push_back(id);
    run.finish(id, push);
  }
  return order;
}

}  // namespace megaconv
