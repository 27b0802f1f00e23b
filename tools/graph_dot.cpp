// SPDX-License-Identifier: Apache-2.0
#include "tools/graph_dot.hpp"

#include <spdlog/fmt/fmt.h>

#include "megaconv/error.hpp"

namespace megaconv::cli {
namespace {

constexpr std::size_t kMostTasks = 400;
constexpr const char* kColors[kNumTaskKinds] = {"#dddddd", "#bcd6f5", "#f6dfae", "#b9e2d2",
                                                "#dcc6e8"};

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
    text += fmt::format("  t{} [label=\"{}\\n{}\", fillcolor=\"{}\"];\n", id, name(tasks[id]),
                        position, kColors[static_cast<std::size_t>(tasks[id].kind)]);
  }
  for (std::size_t counter = 0; counter < lowering.graph.counter_totals.size(); ++counter) {
    text += fmt::format(
        "  c{} [shape=circle, width=.25, fixedsize=true, label=\"{}\", "
        "fillcolor=white, tooltip=\"counter {}\"];\n",
        counter, lowering.graph.counter_totals[counter], counter);
  }
  for (std::size_t id = 0; id < tasks.size(); ++id) {
    const Task& task = tasks[id];
    if (task.wait_counter != kNoCounter) {
      text += fmt::format("  c{} -> t{};\n", task.wait_counter, id);
    }
    for (std::uint32_t i = 0; i < task.signal_count; ++i) {
      text += fmt::format("  t{} -> c{};\n", id, task.signal_first + i);
    }
    if (task.release_counter != kNoCounter) {
      text +=
          fmt::format("  t{} -> c{} [style=dashed, constraint=false];\n", id, task.release_counter);
    }
  }
  return text + "}\n";
}

}  // namespace megaconv::cli
