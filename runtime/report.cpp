// SPDX-License-Identifier: Apache-2.0
#include "runtime/report.hpp"

namespace megaconv {
namespace {

constexpr int kMostNamed = 8;

bool signals(const TaskGraph& graph, const Task& task, std::uint32_t counter) {
  bool found = false;
  graph.for_each_signal(task, [&](std::uint32_t signalled) { found |= signalled == counter; });
  return found;
}

}  // namespace

std::string timeout_report(const TaskGraph& graph, std::span<const Task> tasks,
                           std::uint32_t position, std::uint32_t seen,
                           std::chrono::milliseconds budget,
                           const std::function<const char*(std::uint32_t position)>& state) {
  const Task& task = tasks[position];
  std::string text = "position " + std::to_string(position) + ": " + name(graph, task) +
                     " waited " + std::to_string(budget.count()) + " ms on counter " +
                     std::to_string(task.wait_counter) + ": seen " + std::to_string(seen) +
                     ", expected " + std::to_string(task.wait_count) + "; missing:";
  int num_missing = 0;
  for (std::uint32_t p = 0; p < tasks.size(); ++p) {
    if (!signals(graph, tasks[p], task.wait_counter)) continue;
    const char* why = state(p);
    if (why == nullptr) continue;
    if (++num_missing <= kMostNamed) {
      text += ' ' + name(graph, tasks[p]) + " (position " + std::to_string(p) + ", " + why + ')';
    }
  }
  if (num_missing > kMostNamed)
    text += " and " + std::to_string(num_missing - kMostNamed) + " more";
  if (num_missing == 0) text += " none: all producers of the counter have signalled";
  return text;
}

}  // namespace megaconv
