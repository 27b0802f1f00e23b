// SPDX-License-Identifier: Apache-2.0
// Lower bounds on the time of any order, in the machine's own terms.
//
// A task takes at least its time alone on an idle machine, with all of its data in the cache. From
// that: no chain of dependent tasks is faster than the sum of its members (critical path); no set
// of tasks is faster than its sum shared among all workers. The latter is sharper for the tasks of
// one kind, which cannot begin before their producers nor be the end of the run, and of which some
// worker runs at least its share, in whole tasks (stage).
#include <algorithm>
#include <limits>

#include "megaconv/simulation.hpp"
#include "runtime/sim/demands.hpp"
#include "runtime/units.hpp"

namespace megaconv {
namespace {

class BoundFinder {
 public:
  BoundFinder(TaskGraph graph, const MachineModel& machine)
      : graph_(std::move(graph)),
        machine_(machine),
        demands_(graph_),
        prepare_ns_(graph_.tasks.size()),
        alone_ns_(graph_.tasks.size()),
        ready_ns_(graph_.tasks.size()),
        after_ns_(graph_.counter_totals.size()) {
    for (std::uint32_t id = 0; id < alone_ns_.size(); ++id) {
      const sim::Work work = demands_.work(id, machine);
      prepare_ns_[id] = work.prepare_ns;
      alone_ns_[id] =
          work.prepare_ns + work.after_ns +
          std::max({work.alone_ns, work.unit_ns, demands_.l2_bytes(id) / machine.l2_gbps});
    }
  }

  Bounds run() {
    find_heads();
    find_tails();
    Bounds bounds;
    bounds.launch_us = machine_.launch_us;
    double work_ns = 0, compute_ns = 0, l2_bytes = 0;
    struct KindTotals {
      double head = std::numeric_limits<double>::infinity(), tail = head, least = head, work = 0;
      std::uint64_t num = 0;
    };
    KindTotals kinds[kNumTaskKinds];
    for (std::size_t id = 0; id < alone_ns_.size(); ++id) {
      const Task& task = graph_.tasks[id];
      KindTotals& stage = kinds[task.kind];
      const double tail = tail_ns(task);
      stage.head = std::min(stage.head, ready_ns_[id]);
      stage.tail = std::min(stage.tail, tail);
      stage.least = std::min(stage.least, alone_ns_[id]);
      stage.work += alone_ns_[id];
      ++stage.num;
      work_ns += alone_ns_[id];
      const auto index = static_cast<std::uint32_t>(id);
      compute_ns += demands_.work(index, machine_).unit_ns;
      l2_bytes += demands_.l2_bytes(index);
      bounds.critical_path_us =
          std::max(bounds.critical_path_us, (ready_ns_[id] + alone_ns_[id] + tail) / kNsPerUs);
    }
    for (const KindTotals& stage : kinds) {
      if (stage.num == 0) continue;
      const std::uint64_t rounds = (stage.num + machine_.workers() - 1) / machine_.workers();
      const double work =
          std::max(stage.work / machine_.workers(), static_cast<double>(rounds) * stage.least);
      bounds.stage_us = std::max(bounds.stage_us, (stage.head + work + stage.tail) / kNsPerUs);
    }
    bounds.work_us = work_ns / machine_.workers() / kNsPerUs;
    bounds.compute_us = compute_ns / machine_.units / kNsPerUs;
    bounds.l2_us = l2_bytes / machine_.l2_gbps / kNsPerUs;
    // What fits into the cache may still be there from the run before.
    const double fetched = demands_.compulsory_bytes() - static_cast<double>(machine_.l2_bytes);
    bounds.hbm_us = std::max(0.0, fetched) / machine_.hbm_gbps / kNsPerUs;
    return bounds;
  }

 private:
  void find_heads() {
    std::vector<std::uint32_t> missing = graph_.counter_totals;
    std::vector<double> ready_at(missing.size());
    std::vector<std::vector<std::uint32_t>> waiters(missing.size());
    for (std::uint32_t id = 0; id < graph_.tasks.size(); ++id) {
      const std::uint32_t counter = graph_.tasks[id].wait_counter;
      counter == kNoCounter ? order_.push_back(id) : waiters[counter].push_back(id);
    }
    order_.reserve(graph_.tasks.size());
    for (std::size_t next = 0; next < order_.size(); ++next) {
      const std::uint32_t id = order_[next];
      const double end = ready_ns_[id] + alone_ns_[id] + machine_.hop_us * kNsPerUs;
      graph_.for_each_signal(graph_.tasks[id], [&](std::uint32_t counter) {
        ready_at[counter] = std::max(ready_at[counter], end);
        if (--missing[counter] > 0) return;
        for (const std::uint32_t waiter : waiters[counter]) {
          // It is prepared while the producer runs.
          ready_ns_[waiter] = ready_at[counter] - prepare_ns_[waiter];
          order_.push_back(waiter);
        }
      });
    }
  }

  void find_tails() {
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      const Task& task = graph_.tasks[*id];
      if (task.wait_counter == kNoCounter) continue;
      double& after = after_ns_[task.wait_counter];
      after = std::max(after, alone_ns_[*id] - prepare_ns_[*id] + tail_ns(task));
    }
  }
  double tail_ns(const Task& task) const {
    double tail = 0;
    graph_.for_each_signal(task, [&](std::uint32_t counter) {
      tail = std::max(tail, after_ns_[counter] + machine_.hop_us * kNsPerUs);
    });
    return tail;
  }

  const TaskGraph graph_;
  const MachineModel machine_;
  sim::Demands demands_;
  // By task: before its wait; that and its time alone; earliest begin.
  std::vector<double> prepare_ns_, alone_ns_, ready_ns_;
  std::vector<double> after_ns_;  // by counter: from its last signal's arrival to the end
  std::vector<std::uint32_t> order_;
};

}  // namespace

double Bounds::least_us() const {
  return launch_us + std::max({critical_path_us, work_us, stage_us, compute_us, l2_us, hbm_us});
}

Bounds lower_bounds(const TaskGraph& graph, const MachineModel& machine) {
  validate(machine);
  return BoundFinder(without_window(graph), sim::machine_for(graph, machine)).run();
}

}  // namespace megaconv
