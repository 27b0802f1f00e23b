// SPDX-License-Identifier: Apache-2.0
// One stage after the other. Products of several positions come position by position: those of one
// share what they multiply, which caches have room for, if not for that of all.
#include <map>
#include <numeric>
#include <vector>

#include "mapping/policies/policies.hpp"

namespace megaconv {
namespace {

using Blocks = std::vector<std::uint32_t>;

// A group's tasks by the first position that they write.
std::map<std::uint64_t, Blocks> blocks_by_position(const TaskGraph& graph, StageId stage) {
  std::map<std::uint64_t, Blocks> blocks;
  std::vector<Access> accesses;
  for (std::uint32_t block = 0; block < graph.stages[stage].per_group; ++block) {
    accesses.clear();
    graph.list_accesses(stage, 0, block, accesses);
    std::uint64_t position = 0;
    for (const Access& access : accesses) {
      if (access.mode == Mode::write) position = access.region.positions.begin;
    }
    blocks[position].push_back(block);
  }
  return blocks;
}

}  // namespace

TaskOrder order_staged(const TaskGraph& graph, const PolicyArguments&) {
  TaskOrder order(graph.tasks.size());
  std::iota(order.begin(), order.end(), 0u);  // ids are in the order of stages
  for (StageId id = 0; id < graph.stages.size(); ++id) {
    const Stage& stage = graph.stages[id];
    if (stage.role != Role::product || stage.groups == 0) continue;
    std::uint32_t next = stage.first;
    for (const auto& [position, blocks] : blocks_by_position(graph, id)) {
      for (std::uint32_t group = 0; group < stage.groups; ++group) {
        for (const std::uint32_t block : blocks) order[next++] = stage.id(group, block);
      }
    }
  }
  return order;
}

}  // namespace megaconv
