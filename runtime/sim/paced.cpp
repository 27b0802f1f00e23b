// SPDX-License-Identifier: Apache-2.0
// The policy `paced`: list scheduling on a machine model.
//
// Algorithm 1 mixes the kinds of tasks in the proportion of their numbers, wherever the workers
// are. Here the order is the one in which simulated workers would take tasks if each, when it
// becomes free, could choose among those whose producers are done:
//
//   1. an output transform, when at least `lag` GEMM tasks have been taken since it became ready
//   2. a GEMM task, unless fewer than `stock` of those are ready and input transforms are left
//   3. an input transform (a filter transform before them), then whatever is ready
//
// A `stock` of nothing begins GEMMs as soon as possible and transforms as late as possible; one of
// several times the workers is staged order. Which pair is best depends on how GEMM tasks fill the
// last round of workers; so all of a small grid are made, simulated with all that the simulator
// knows, and the fastest is taken.
#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <queue>

#include "megaconv/simulation.hpp"
#include "runtime/sim/demands.hpp"

namespace megaconv {
namespace {

struct Pace {
  std::uint32_t stock = 0, lag = 0;
};

constexpr double kNever = std::numeric_limits<double>::infinity();

class Pacer {
 public:
  Pacer(const TaskGraph& graph, const MachineModel& machine)
      : graph_(graph), machine_(machine), demands_(graph), waiters_(graph.counter_totals.size()) {
    for (std::uint32_t id = 0; id < graph.tasks.size(); ++id) {
      const std::uint32_t counter = graph.tasks[id].wait_counter;
      if (counter != kNoCounter) waiters_[counter].push_back(id);
    }
  }

  std::vector<std::uint32_t> order(const Pace& pace) {
    pace_ = pace;
    missing_ = graph_.counter_totals;
    ready_ = {};
    order_.clear();
    gemms_taken_ = 0;
    inputs_left_ = 0;
    for (std::uint32_t id = 0; id < graph_.tasks.size(); ++id) {
      if (kind_of(graph_.tasks[id]) == TaskKind::input_transform) ++inputs_left_;
      if (graph_.tasks[id].wait_counter == kNoCounter) add_ready(id);
    }
    run_workers();
    return order_;
  }

 private:
  struct Running {
    double end_ns;
    std::uint32_t id;
    bool operator<(const Running& other) const {
      return end_ns != other.end_ns ? end_ns > other.end_ns : id > other.id;
    }
  };
  struct Ready {
    std::uint32_t id;
    std::uint64_t gemms_taken;  // when it became ready
  };

  void run_workers() {
    std::priority_queue<Running> running;
    std::uint32_t idle = machine_.workers();
    double now_ns = 0;
    while (order_.size() < graph_.tasks.size()) {
      for (; idle > 0; --idle) {
        const std::uint32_t id = choose();
        if (id == kNobody) break;
        order_.push_back(id);
        running.push({now_ns + duration_ns(id), id});
      }
      if (running.empty()) break;  // the graph has a cycle; validate() will say where
      now_ns = running.top().end_ns;
      for (; !running.empty() && running.top().end_ns <= now_ns; ++idle) {
        const std::uint32_t id = running.top().id;
        running.pop();
        finish(id);
      }
    }
  }

  // All workers are busy nearly always: a unit's workers share it.
  double duration_ns(std::uint32_t id) const {
    const sim::Work work = demands_.work(id, machine_);
    return work.prepare_ns + work.after_ns +
           std::max({work.alone_ns, work.unit_ns * machine_.workers_per_unit,
                     demands_.l2_bytes(id) * machine_.workers() / machine_.l2_gbps / 2});
  }

  std::uint32_t choose() {
    std::deque<Ready>& outputs = of(TaskKind::output_transform);
    std::deque<Ready>& gemms = of(TaskKind::gemm);
    if (!outputs.empty() && gemms_taken_ >= outputs.front().gemms_taken + pace_.lag) {
      return take(TaskKind::output_transform);
    }
    const bool short_of_gemms = gemms.size() < pace_.stock && inputs_left_ > 0;
    if (!gemms.empty() && !short_of_gemms) return take(TaskKind::gemm);
    for (const TaskKind kind :
         {TaskKind::filter_transform, TaskKind::input_transform, TaskKind::gemm, TaskKind::direct,
          TaskKind::pooling, TaskKind::elementwise, TaskKind::output_transform}) {
      if (!of(kind).empty()) return take(kind);
    }
    return kNobody;
  }

  std::uint32_t take(TaskKind kind) {
    const std::uint32_t id = of(kind).front().id;
    of(kind).pop_front();
    if (kind == TaskKind::gemm) ++gemms_taken_;
    if (kind == TaskKind::input_transform) --inputs_left_;
    return id;
  }

  void finish(std::uint32_t id) {
    graph_.for_each_signal(graph_.tasks[id], [&](std::uint32_t counter) {
      if (--missing_[counter] > 0) return;
      for (const std::uint32_t waiter : waiters_[counter]) add_ready(waiter);
    });
  }

  std::deque<Ready>& of(TaskKind kind) { return ready_[static_cast<std::size_t>(kind)]; }
  void add_ready(std::uint32_t id) { of(kind_of(graph_.tasks[id])).push_back({id, gemms_taken_}); }

  static constexpr std::uint32_t kNobody = 0xffffffffu;
  const TaskGraph& graph_;
  const MachineModel& machine_;
  sim::Demands demands_;
  std::vector<std::vector<std::uint32_t>> waiters_;  // by counter
  Pace pace_;
  std::vector<std::uint32_t> missing_;  // signals, by counter
  std::array<std::deque<Ready>, kNumTaskKinds> ready_;
  std::vector<std::uint32_t> order_;
  std::uint64_t gemms_taken_ = 0, inputs_left_ = 0;
};

}  // namespace

PolicyFunction paced_policy(const MachineModel& machine) {
  validate(machine);
  return [machine](const TaskGraph& graph) {
    MachineModel quiet = machine;
    quiet.noise = 0;
    const std::uint32_t workers = machine.workers();
    const std::uint32_t most = static_cast<std::uint32_t>(
        std::min<std::size_t>(graph.tasks.size(), std::numeric_limits<std::uint32_t>::max()));
    Pacer pacer(graph, quiet);
    Lowering trial{
        .nodes = {}, .graph = graph, .mapping = {.policy = "paced", .options = {}, .order = {}}};
    std::vector<std::uint32_t> best;
    double best_us = kNever;
    for (const std::uint32_t stock : {1u, workers / 4, workers / 2, workers, 2 * workers, most}) {
      for (const std::uint32_t lag : {0u, workers / 4, workers / 2, workers, 2 * workers, most}) {
        trial.mapping.order = pacer.order({stock, lag});
        if (validate(trial.graph, trial.mapping)) continue;
        const double time_us = simulate(trial, quiet).time_us;
        if (time_us >= best_us) continue;
        best_us = time_us;
        best = trial.mapping.order;
      }
    }
    return best;
  };
}

}  // namespace megaconv
