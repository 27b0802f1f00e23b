// SPDX-License-Identifier: Apache-2.0
// Stages and their tasks; names.
#include "megaconv/graph.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "megaconv/error.hpp"

namespace megaconv {
namespace {

constexpr std::uint64_t kMostTasks = std::uint64_t{1} << 31;

std::string text_of(const char* axis, const Interval& interval) {
  return std::string(axis) + " " + std::to_string(interval.begin) + "-" +
         std::to_string(interval.end);
}

}  // namespace

const char* to_string(Role role) noexcept {
  constexpr const char* kNames[] = {"prepare", "input", "product", "output"};
  return kNames[static_cast<std::size_t>(role)];
}

std::string to_string(const Region& region) {
  std::string text;
  const auto add = [&](const char* axis, const Interval& interval) {
    if (interval == Interval{0, 1}) return;
    text += (text.empty() ? "" : ", ") + text_of(axis, interval);
  };
  add("rows", region.rows);
  add("columns", region.cols);
  add("channels", region.channels);
  add("positions", region.positions);
  return text.empty() ? "its one element" : text;
}

StageId TaskGraph::stage_of(std::uint32_t id) const {
  const auto next =
      std::upper_bound(stages.begin(), stages.end(), id,
                       [](std::uint32_t value, const Stage& stage) { return value < stage.first; });
  return static_cast<StageId>(next - stages.begin()) - 1;
}

const Stage* TaskGraph::find(NodeId node, Role role) const {
  const auto found = std::find_if(stages.begin(), stages.end(), [&](const Stage& stage) {
    return stage.node == node && stage.role == role;
  });
  return found == stages.end() ? nullptr : &*found;
}

std::string name(const TaskGraph& graph, const Task& task) {
  std::string text;
  if (graph.nodes.size() > 1 && task.node < graph.nodes.size()) {
    text = graph.nodes[task.node] + "/";
  }
  text += task.kind < graph.kinds.size() ? graph.kinds[task.kind].letter : '?';
  const auto stage = std::find_if(graph.stages.begin(), graph.stages.end(), [&](const Stage& of) {
    return of.node == task.node && of.kind == task.kind;
  });
  const bool has_groups = stage == graph.stages.end() || stage->role != Role::prepare;
  text += '[' + (has_groups ? std::to_string(task.group) + "," : "");
  return text + std::to_string(task.block) + ']';
}

void add_stage(TaskGraph& graph, Stage stage) {
  const std::uint64_t total = graph.tasks.size() + stage.num_tasks();
  if (total > kMostTasks) {
    throw Error(Status::unsupported,
                std::to_string(total) + " tasks: must be at most 2^31; use larger groups");
  }
  if (stage.num_tasks() == 0) return;
  stage.first = static_cast<std::uint32_t>(graph.tasks.size());
  try {
    graph.tasks.reserve(total);
  } catch (const std::bad_alloc&) {
    throw Error(Status::out_of_memory,
                std::to_string(total) + " tasks do not fit in memory; use larger groups");
  }
  for (std::uint32_t group = 0; group < stage.groups; ++group) {
    for (std::uint32_t block = 0; block < stage.per_group; ++block) {
      graph.tasks.push_back(
          {.kind = stage.kind, .group = group, .block = block, .node = stage.node});
    }
  }
  graph.stages.push_back(std::move(stage));
}

}  // namespace megaconv
