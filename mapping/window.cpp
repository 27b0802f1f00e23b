// SPDX-License-Identifier: Apache-2.0
// Which groups of windowed buffers are live along a mapping: the smallest window, and statistics.
#include <algorithm>
#include <limits>
#include <vector>

#include "mapping/slot_users.hpp"
#include "megaconv/mapping.hpp"

namespace megaconv {
namespace {

// First and last position of some tasks.
struct Span {
  std::uint32_t first = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t last = 0;
  void add(const Span& other) {
    first = std::min(first, other.first);
    last = std::max(last, other.last);
  }
};

// A windowed buffer along a mapping: when each group of its writers writes, and is read.
struct SlotLife {
  BufferId buffer = 0;
  std::vector<Span> writes, reads;
};

std::vector<std::vector<Span>> find_spans(const TaskGraph& graph, const TaskMapping& mapping) {
  std::vector<std::vector<Span>> spans(graph.stages.size());
  std::vector<std::uint32_t> position_of(graph.tasks.size());
  for (std::uint32_t p = 0; p < mapping.order.size(); ++p) position_of[mapping.order[p]] = p;
  for (std::size_t s = 0; s < graph.stages.size(); ++s) {
    const Stage& stage = graph.stages[s];
    spans[s].resize(stage.groups);
    for (std::uint32_t group = 0; group < stage.groups; ++group) {
      for (std::uint32_t block = 0; block < stage.per_group; ++block) {
        const std::uint32_t position = position_of[stage.id(group, block)];
        spans[s][group].add({position, position});
      }
    }
  }
  return spans;
}

std::vector<SlotLife> find_lives(const TaskGraph& graph,
                                 const std::vector<std::vector<Span>>& spans) {
  std::vector<SlotLife> lives;
  for (const SlotUsers& users : find_slot_users(graph)) {
    SlotLife life{users.buffer, spans[users.writer], std::vector<Span>(users.readers.size())};
    for (std::size_t group = 0; group < users.readers.size(); ++group) {
      for (const GroupRange& readers : users.readers[group]) {
        for (std::uint64_t g = readers.groups.begin; g < readers.groups.end; ++g) {
          life.reads[group].add(spans[readers.stage][g]);
        }
      }
    }
    lives.push_back(std::move(life));
  }
  return lives;
}

// Least number of slots such that, with it or more, no group's first writer stands before the last
// reader of the group that had the slot before. A group g that is first written while group r is
// still to be read needs more than g - r slots.
std::uint32_t least_slots(const SlotLife& life) {
  const std::size_t num_groups = life.writes.size();
  std::vector<std::uint32_t> first_write_from(num_groups);  // of group g or any later one
  std::uint32_t earliest = std::numeric_limits<std::uint32_t>::max();
  for (std::size_t g = num_groups; g-- > 0;) {
    first_write_from[g] = earliest = std::min(earliest, life.writes[g].first);
  }
  std::size_t slots = 1;
  for (std::size_t r = 0; r < num_groups; ++r) {
    const auto end =
        std::lower_bound(first_write_from.begin(), first_write_from.end(), life.reads[r].last);
    const auto next = static_cast<std::size_t>(end - first_write_from.begin());
    if (next > r) slots = std::max(slots, next - r);  // next - 1 is the last group written before
  }
  return static_cast<std::uint32_t>(slots);
}

// Positions between the last task of each producing group and the first that needs it.
std::uint64_t least_distance(const TaskGraph& graph, const std::vector<std::vector<Span>>& spans,
                             Role producer, Role consumer) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const Edge& edge : graph.edges) {
    const Stage& from = graph.stages[edge.producer.stage];
    const Stage& to = graph.stages[edge.consumer.stage];
    if (edge.reuse || from.node != to.node || from.role != producer || to.role != consumer) {
      continue;
    }
    for (std::uint64_t g = edge.consumer.groups.begin; g < edge.consumer.groups.end; ++g) {
      for (std::uint64_t p = edge.producer.groups.begin; p < edge.producer.groups.end; ++p) {
        const std::uint64_t distance =
            spans[edge.consumer.stage][g].first - std::uint64_t{spans[edge.producer.stage][p].last};
        least = std::min(least, distance);
      }
    }
  }
  return least == std::numeric_limits<std::uint64_t>::max() ? 0 : least;
}

}  // namespace

std::vector<std::uint32_t> smallest_window(const TaskGraph& graph, const TaskMapping& mapping) {
  std::vector<std::uint32_t> slots(graph.buffers.size());
  for (const SlotLife& life : find_lives(graph, find_spans(graph, mapping))) {
    slots[life.buffer] = least_slots(life);
  }
  return slots;
}

MappingStats stats(const TaskGraph& graph, const TaskMapping& mapping) {
  MappingStats result;
  result.live_groups.resize(graph.buffers.size());
  const std::vector<std::vector<Span>> spans = find_spans(graph, mapping);
  const std::vector<SlotLife> lives = find_lives(graph, spans);
  result.least_dig = least_distance(graph, spans, Role::input, Role::product);
  result.least_dgo = least_distance(graph, spans, Role::product, Role::output);

  struct Change {
    std::uint32_t position;
    bool begins;
    const SlotLife* life;
  };
  std::vector<Change> changes;
  for (const SlotLife& life : lives) {
    for (std::size_t g = 0; g < life.writes.size(); ++g) {
      changes.push_back({life.writes[g].first, true, &life});
      changes.push_back({life.reads[g].last, false, &life});
    }
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return a.position != b.position ? a.position < b.position : a.begins > b.begins;
  });
  std::vector<std::uint32_t> live(graph.buffers.size());
  std::uint64_t bytes = 0;
  for (const Change& change : changes) {
    const BufferId buffer = change.life->buffer;
    const std::uint64_t group_bytes = graph.buffers[buffer].bytes / change.life->writes.size();
    live[buffer] += change.begins ? 1 : -1;
    bytes += change.begins ? group_bytes : -group_bytes;
    result.live_groups[buffer] = std::max(result.live_groups[buffer], live[buffer]);
    result.live_bytes = std::max(result.live_bytes, bytes);
  }
  return result;
}

}  // namespace megaconv
