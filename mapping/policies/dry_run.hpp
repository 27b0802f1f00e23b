// SPDX-License-Identifier: Apache-2.0
// Runs a graph one task at a time, without doing the work: counters, and who waits on them.
#pragma once

#include <cstdint>
#include <vector>

#include "megaconv/graph.hpp"

namespace megaconv {

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

  /// Calls `on_ready(id)` for every task that waits for nothing.
  template <typename OnReady>
  void start(OnReady on_ready) const {
    for (std::uint32_t id = 0; id < graph_.tasks.size(); ++id) {
      if (graph_.tasks[id].wait_counter == kNoCounter) on_ready(id);
    }
  }

  /// Signals what task `id` signals; calls `on_ready` for every task whose last producer it was.
  template <typename OnReady>
  void finish(std::uint32_t id, OnReady on_ready) {
    for_each_signal(id, [&](std::uint32_t counter) {
      if (--missing_[counter] == 0) for_each_waiter(counter, on_ready);
    });
  }

  template <typename Visit>
  void for_each_signal(std::uint32_t id, Visit visit) const {
    graph_.for_each_signal(graph_.tasks[id], visit);
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

}  // namespace megaconv
