// SPDX-License-Identifier: Apache-2.0
// What no order can beat, from the times that tasks really took.
//
// Take any set S of tasks on m workers. None of them begins before the least head in S, the time
// that its producers need; behind the last of them comes at least the least tail, the time that its
// consumers need. In between the workers run all of S, which takes at least
//
//   the sum of S shared out evenly;
//   a sum of k + 1 tasks: of the k m + 1 longest in S some worker gets k + 1, and these take at
//   least as long as the k + 1 shortest of them. GEMM tasks come in few large pieces: 288 of them
//   on 264 workers are two rounds, whatever the order.
//
// The first counts with typical times: tasks share memory and multipliers, and one by itself is
// faster. The second, where the last rounds have the machine to themselves, with least times.
//
// Heads and tails come from the same rule: what a counter waits for are producers, with heads, that
// must all be done; what follows a signal are all who wait for it, with their tails. The sets tried
// are those with at least a certain head and tail, of all tasks and of one kind. Every set gives a
// bound, so that trying a few of many is right, if not as sharp.
#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "megaconv/error.hpp"
#include "megaconv/trace.hpp"
#include "runtime/units.hpp"

namespace megaconv {
namespace {

// Values of heads and of tails that sets are made for, of all different ones.
constexpr std::size_t kThresholds = 16;

struct Item {
  double head = 0, typical_us = 0, least_us = 0, tail = 0;
};

std::vector<double> thresholds(const std::vector<Item>& items, double Item::*of) {
  std::vector<double> values;
  values.reserve(items.size());
  for (const Item& item : items) values.push_back(item.*of);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.size() <= kThresholds) return values;
  std::vector<double> some;
  for (std::size_t i = 0; i < kThresholds; ++i) {
    some.push_back(values[i * (values.size() - 1) / (kThresholds - 1)]);
  }
  return some;
}

// The least time in which `workers` run the items, from the begin of the first head to the end of
// the last tail.
double least_time(std::vector<Item> items, std::uint32_t workers) {
  std::sort(items.begin(), items.end(),
            [](const Item& a, const Item& b) { return a.least_us > b.least_us; });
  const std::vector<double> heads = thresholds(items, &Item::head);
  const std::vector<double> tails = thresholds(items, &Item::tail);
  double least = 0;
  std::vector<double> sums;  // of the longest tasks of a set: none, one, two, ...
  for (const double head : heads) {
    for (const double tail : tails) {
      sums.assign(1, 0.0);
      double longest = 0, work = 0;
      for (const Item& item : items) {
        if (item.head < head || item.tail < tail) continue;
        work += item.typical_us;
        sums.push_back(sums.back() + item.least_us);
        const std::size_t num = sums.size() - 1;
        if ((num - 1) % workers == 0) {
          const std::size_t of_one_worker = (num - 1) / workers + 1;
          longest = std::max(longest, sums[num] - sums[num - of_one_worker]);
        }
      }
      if (sums.size() == 1) continue;
      least = std::max(least, head + std::max(work / workers, longest) + tail);
    }
  }
  return least;
}

class OrderBoundFinder {
 public:
  OrderBoundFinder(TaskGraph graph, const TaskTimes& times, std::uint32_t workers)
      : graph_(std::move(graph)), workers_(workers), items_(graph_.tasks.size()) {
    for (std::size_t id = 0; id < items_.size(); ++id) {
      items_[id].typical_us = times.typical_us[id];
      items_[id].least_us = times.least_us[id];
    }
    waiters_.resize(graph_.counter_totals.size());
    for (std::uint32_t id = 0; id < graph_.tasks.size(); ++id) {
      const std::uint32_t counter = graph_.tasks[id].wait_counter;
      if (counter != kNoCounter) waiters_[counter].push_back(id);
    }
  }

  OrderBound run() {
    find_heads();
    find_tails();
    OrderBound bound;
    for (const Item& item : items_) bound.work_us += item.typical_us / workers_;
    bound.rounds_us = least_time(items_, workers_);
    for (std::uint32_t kind = 0; kind < kNumTaskKinds; ++kind) {
      std::vector<Item> alike;
      for (std::size_t id = 0; id < items_.size(); ++id) {
        if (graph_.tasks[id].kind == kind) alike.push_back(items_[id]);
      }
      bound.rounds_us = std::max(bound.rounds_us, least_time(std::move(alike), workers_));
    }
    return bound;
  }

 private:
  // In the order in which tasks become ready, which `order_` keeps.
  void find_heads() {
    std::vector<std::uint32_t> missing = graph_.counter_totals;
    std::vector<std::vector<Item>> producers(missing.size());
    for (std::uint32_t id = 0; id < items_.size(); ++id) {
      if (graph_.tasks[id].wait_counter == kNoCounter) order_.push_back(id);
    }
    for (std::size_t next = 0; next < order_.size(); ++next) {
      const Task& task = graph_.tasks[order_[next]];
      const Item item = items_[order_[next]];
      graph_.for_each_signal(task, [&](std::uint32_t counter) {
        producers[counter].push_back(item);
        if (--missing[counter] > 0) return;
        const double head = least_time(std::move(producers[counter]), workers_);
        for (const std::uint32_t waiter : waiters_[counter]) {
          items_[waiter].head = head;
          order_.push_back(waiter);
        }
      });
    }
  }

  void find_tails() {
    std::map<std::pair<std::uint32_t, std::uint32_t>, double> after;  // of the same signals
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      const Task& task = graph_.tasks[*id];
      if (task.num_signals == 0) continue;
      const auto [known, is_new] =
          after.emplace(std::pair(task.first_signal, task.num_signals), 0.0);
      if (is_new) {
        std::vector<Item> followers;
        graph_.for_each_signal(task, [&](std::uint32_t counter) {
          for (const std::uint32_t waiter : waiters_[counter]) {
            followers.push_back(items_[waiter]);
            followers.back().head = 0;
          }
        });
        known->second = least_time(std::move(followers), workers_);
      }
      items_[*id].tail = known->second;
    }
  }

  const TaskGraph graph_;
  const std::uint32_t workers_;
  std::vector<Item> items_;                          // by task
  std::vector<std::vector<std::uint32_t>> waiters_;  // by counter
  std::vector<std::uint32_t> order_;
};

}  // namespace

OrderBound order_bound(const TaskGraph& graph, const TaskTimes& times, std::uint32_t workers) {
  const std::size_t num = graph.tasks.size();
  if (times.typical_us.size() != num || times.least_us.size() != num || workers == 0) {
    throw Error(Status::invalid_argument,
                "order bound: " + std::to_string(times.typical_us.size()) + " typical and " +
                    std::to_string(times.least_us.size()) + " least times on " +
                    std::to_string(workers) + " workers, must be " + std::to_string(num) +
                    " each on at least 1");
  }
  return OrderBoundFinder(without_window(graph), times, workers).run();
}

TaskTimes task_times(const Lowering& lowering, const Trace& trace) {
  check_trace(lowering, trace);
  constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Class {
    double num = 0, work_us = 0, least_work_us = kNever;
    double fetch_us = kNever;  // least, of those whose producers were done
    double overhead_us() const { return fetch_us < kNever ? fetch_us : 0; }
  };
  const TaskGraph& graph = lowering.graph;
  std::vector<Class> classes(2 * kNumTaskKinds);
  const auto class_of = [&](const Task& task) -> Class& {
    const Stage& stage =
        graph.stages[graph.stage_of(static_cast<std::uint32_t>(&task - graph.tasks.data()))];
    const bool last = stage.role != Role::prepare && task.group + 1 == stage.groups;
    return classes[2 * std::size_t{task.kind} + (last ? 1 : 0)];
  };
  const std::vector<std::uint32_t> last = last_producers(lowering, trace);
  for (const TraceRecord& record : trace.records) {
    const Task& task = graph.tasks[lowering.mapping.order[record.position]];
    Class& alike = class_of(task);
    const double work_us = static_cast<double>(record.end_ns - record.ready_ns) / kNsPerUs;
    ++alike.num;
    alike.work_us += work_us;
    alike.least_work_us = std::min(alike.least_work_us, work_us);
    const bool waited = task.wait_counter != kNoCounter &&
                        trace.records[last[task.wait_counter]].end_ns > record.fetch_ns;
    if (waited) continue;
    alike.fetch_us =
        std::min(alike.fetch_us, static_cast<double>(record.ready_ns - record.fetch_ns) / kNsPerUs);
  }
  TaskTimes times;
  for (const Task& task : graph.tasks) {
    const Class& alike = class_of(task);
    times.typical_us.push_back(alike.work_us / alike.num + alike.overhead_us());
    times.least_us.push_back(alike.least_work_us + alike.overhead_us());
  }
  return times;
}

}  // namespace megaconv
