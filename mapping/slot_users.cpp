// SPDX-License-Identifier: Apache-2.0
#include "mapping/slot_users.hpp"

#include <algorithm>

namespace megaconv {
namespace {

// Neighbouring readers of one stage are one range.
void add(std::vector<GroupRange>& readers, const GroupRange& reader) {
  for (GroupRange& known : readers) {
    if (known.stage != reader.stage || reader.groups.begin > known.groups.end ||
        known.groups.begin > reader.groups.end) {
      continue;
    }
    known.groups.begin = std::min(known.groups.begin, reader.groups.begin);
    known.groups.end = std::max(known.groups.end, reader.groups.end);
    return;
  }
  readers.push_back(reader);
}

}  // namespace

std::vector<SlotUsers> find_slot_users(const TaskGraph& graph) {
  std::vector<SlotUsers> users;
  std::vector<Access> accesses;
  for (StageId stage = 0; stage < graph.stages.size(); ++stage) {
    accesses.clear();
    graph.list_accesses(stage, 0, 0, accesses);
    for (const Access& access : accesses) {
      if (access.mode == Mode::read || !graph.buffers[access.buffer].windowed) continue;
      const bool known =
          !users.empty() && users.back().writer == stage && users.back().buffer == access.buffer;
      if (known) continue;
      users.push_back({access.buffer, stage, {}});
      users.back().readers.resize(graph.stages[stage].groups);
    }
  }
  for (const Edge& edge : graph.edges) {
    if (edge.reuse) continue;
    for (SlotUsers& of : users) {
      if (of.writer != edge.producer.stage) continue;
      for (std::uint64_t g = edge.producer.groups.begin; g < edge.producer.groups.end; ++g) {
        add(of.readers[g], edge.consumer);
      }
    }
  }
  return users;
}

}  // namespace megaconv
