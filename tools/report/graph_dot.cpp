// SPDX-License-Identifier: Apache-2.0
#include "tools/report/graph_dot.hpp"

#include <spdlog/fmt/fmt.h>

#include "megaconv/error.hpp"

namespace megaconv::cli {
namespace {

constexpr std::size_t kMostTasks = 400;
constexpr const char* kColors[kNumTaskKinds] = {"#dddddd", "#bcd6f5", "#f6dfae", "#b9e2d2",
                                                "#dcc6e8", "#f0c4c0", "#d9d3b0"};

}  // namespace

std::string graph_dot(const Lowering& lowering) {
  const std::vector<Task>& tasks = lowering.graph.tasks;
  if (tasks.size() > kMostTasks) {
    throw Error(Status::unsupported,
                fmt::format("map graph: {} tasks, must be at most {}; choose a smaller problem or "
                            "--group-tiles larger",
                            tasks.size(), kMostTasks));
  }
  std::string text =
      "digraph mapping {\n  rankdir=LR;\n"
      "  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n";
  for (std::size_t position = 0; position < tasks.size(); ++position) {
    const std::uint32_t id = lowering.mapping.order[position];
    text += fmt::format("  t{} [label=\"{}\\n{}\", fillcolor=\"{}\"];\n", id,
                        name(lowering.graph, tasks[id]), position, kColors[tasks[id].kind]);
  }
  for (std::size_t counter = 0; counter < lowering.graph.counter_totals.size(); ++counter) {
    text += fmt::format(
        "  c{} [shape=circle, width=.25, fixedsize=true, label=\"{}\", "
        "fillcolor=white, tooltip=\"counter {}\"];\n",
        counter, lowering.graph.counter_totals[counter], counter);
  }
  std::vector<StageId> stage_of_waiters(lowering.graph.counter_totals.size());
  for (std::uint32_t id = 0; id < tasks.size(); ++id) {
    const std::uint32_t counter = tasks[id].wait_counter;
    if (counter != kNoCounter) stage_of_waiters[counter] = lowering.graph.stage_of(id);
  }
  for (std::uint32_t id = 0; id < tasks.size(); ++id) {
    const Task& task = tasks[id];
    if (task.wait_counter != kNoCounter) {
      text += fmt::format("  c{} -> t{};\n", task.wait_counter, id);
    }
    lowering.graph.for_each_signal(task, [&](std::uint32_t counter) {
      // Signals to a stage in front free memory.
      const bool frees = stage_of_waiters[counter] < lowering.graph.stage_of(id);
      text += fmt::format("  t{} -> c{}{};\n", id, counter,
                          frees ? " [style=dashed, constraint=false]" : "");
    });
  }
  return text + "}\n";
}

}  // namespace megaconv::cli
