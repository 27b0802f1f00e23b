// SPDX-License-Identifier: Apache-2.0
// Edges of reuse: who overwrites memory waits for those that it belonged to.
//
// Of a slot of a window these are the readers of the group that had it. Of bytes that buffers share
// they are all that read or wrote them in the buffer that had them last; these have waited for the
// users of the buffer before.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "mapping/consumers.hpp"
#include "mapping/places.hpp"
#include "mapping/slot_users.hpp"

namespace megaconv {
namespace {

// Bytes that some groups of a stage read or write.
struct Use {
  Interval bytes;
  GroupRange groups;
};

// Of one buffer with a place.
struct Uses {
  BufferId buffer = 0;
  std::vector<Use> writes, all;
};

// Neighbouring groups that use the same bytes are one use.
void add(std::vector<Use>& uses, const Use& use) {
  for (auto known = uses.rbegin(); known != uses.rend(); ++known) {
    if (known->groups.stage != use.groups.stage) break;
    if (known->bytes != use.bytes || use.groups.groups.begin > known->groups.groups.end) continue;
    known->groups.groups.end = std::max(known->groups.groups.end, use.groups.groups.end);
    return;
  }
  uses.push_back(use);
}

// By the order of their first writers.
std::vector<Uses> find_uses(const TaskGraph& graph) {
  std::vector<Uses> uses;
  std::vector<std::size_t> index(graph.buffers.size(), ~std::size_t{0});
  std::vector<Access> accesses;
  for (StageId stage = 0; stage < graph.stages.size(); ++stage) {
    const Stage& of = graph.stages[stage];
    for (std::uint32_t group = 0; group < of.groups; ++group) {
      accesses.clear();
      for (std::uint32_t block = 0; block < of.per_group; ++block) {
        graph.list_accesses(stage, group, block, accesses);
      }
      for (const Access& access : accesses) {
        const Buffer& buffer = graph.buffers[access.buffer];
        if (buffer.place == kNoPlace || access.region.size() == 0) continue;
        if (index[access.buffer] == ~std::size_t{0}) {
          index[access.buffer] = uses.size();
          uses.push_back({access.buffer, {}, {}});
        }
        const Use use{bytes_of_rows(buffer, access.region.rows),
                      {stage, {group, std::uint64_t{group} + 1}}};
        Uses& of_buffer = uses[index[access.buffer]];
        add(of_buffer.all, use);
        if (access.mode == Mode::write) add(of_buffer.writes, use);
      }
    }
  }
  return uses;
}

// `cut` taken from `pieces`.
void subtract(std::vector<Interval>& pieces, const Interval& cut) {
  std::vector<Interval> left;
  for (const Interval& piece : pieces) {
    if (!piece.overlaps(cut)) {
      left.push_back(piece);
      continue;
    }
    if (piece.begin < cut.begin) left.push_back({piece.begin, cut.begin});
    if (cut.end < piece.end) left.push_back({cut.end, piece.end});
  }
  pieces = std::move(left);
}

class PlaceLinker {
 public:
  explicit PlaceLinker(TaskGraph& graph) : graph_(graph), uses_(find_uses(graph)) {
    num_data_ = graph.edges.size();
    first_data_.assign(graph.stages.size() + 1, num_data_);
    for (std::size_t e = num_data_; e-- > 0;) first_data_[graph.edges[e].consumer.stage] = e;
    for (std::size_t s = graph.stages.size(); s-- > 0;) {
      first_data_[s] = std::min(first_data_[s], first_data_[s + 1]);
    }
  }

  void run() {
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      std::vector<std::size_t> before;  // buffers that had some of its bytes, the last one first
      for (std::size_t other = i; other-- > 0;) {
        if (bytes(other).overlaps(bytes(i))) before.push_back(other);
      }
      if (before.empty()) continue;
      std::map<std::pair<StageId, std::uint64_t>, std::vector<Interval>> written;  // by group
      for (const Use& write : uses_[i].writes) {
        const Interval& groups = write.groups.groups;
        for (std::uint64_t g = groups.begin; g < groups.end; ++g) {
          written[{write.groups.stage, g}].push_back(write.bytes);
        }
      }
      for (auto next = written.begin(); next != written.end();) {  // neighbours alike are one
        const auto& [group, pieces] = *next++;
        GroupRange writers{group.first, {group.second, group.second + 1}};
        for (; next != written.end() && next->second == pieces &&
               next->first == std::pair(writers.stage, writers.groups.end);
             ++next) {
          ++writers.groups.end;
        }
        link(writers, pieces, before);
      }
    }
  }

 private:
  Interval bytes(std::size_t index) const { return bytes_of(graph_.buffers[uses_[index].buffer]); }

  void link(const GroupRange& writer, std::vector<Interval> pieces,
            const std::vector<std::size_t>& before) {
    std::vector<GroupRange> producers;
    for (const std::size_t other : before) {
      for (const Interval& piece : pieces) {
        if (!piece.overlaps(bytes(other))) continue;
        for (const Use& use : uses_[other].all) {
          if (use.bytes.overlaps(piece)) producers.push_back(use.groups);
        }
      }
      subtract(pieces, bytes(other));
      if (pieces.empty()) break;
    }
    // Of one stage, in order, none twice.
    std::sort(producers.begin(), producers.end(), [](const GroupRange& a, const GroupRange& b) {
      return a.stage != b.stage ? a.stage < b.stage : a.groups.begin < b.groups.begin;
    });
    for (std::size_t next = 0; next < producers.size();) {
      GroupRange all = producers[next++];
      while (next < producers.size() && producers[next].stage == all.stage &&
             producers[next].groups.begin <= all.groups.end) {
        all.groups.end = std::max(all.groups.end, producers[next++].groups.end);
      }
      add_edges(writer, all);
    }
  }

  // Who brings data has been waited for, and who had the bytes of another buffer of the writer's.
  void add_edges(const GroupRange& consumer, const GroupRange& producer) {
    std::vector<Interval> groups{producer.groups};
    for (std::size_t e = first_data_[consumer.stage]; e < first_data_[consumer.stage + 1]; ++e) {
      const Edge& edge = graph_.edges[e];
      const Interval& brought = edge.consumer.groups;
      if (edge.producer.stage != producer.stage || !brought.overlaps(consumer.groups)) continue;
      if (brought.contains(consumer.groups)) {
        subtract(groups, edge.producer.groups);
        continue;
      }
      const std::uint64_t cut =  // some of these groups are brought data, others are not
          brought.begin > consumer.groups.begin ? brought.begin : brought.end;
      add_edges({consumer.stage, {consumer.groups.begin, cut}}, producer);
      add_edges({consumer.stage, {cut, consumer.groups.end}}, producer);
      return;
    }
    std::vector<GroupRange>& known = linked_[{consumer.stage, consumer.groups.begin}];
    for (const GroupRange& before : known) {
      if (before.stage == producer.stage) subtract(groups, before.groups);
    }
    for (const Interval& rest : groups) {
      graph_.edges.push_back({consumer, {producer.stage, rest}, true});
      known.push_back({producer.stage, rest});
    }
  }

  TaskGraph& graph_;
  std::vector<Uses> uses_;
  std::size_t num_data_ = 0;
  std::vector<std::size_t> first_data_;  // by stage: its first edge that brings data
  std::map<std::pair<StageId, std::uint64_t>, std::vector<GroupRange>> linked_;  // by writer
};

}  // namespace

void add_reuse(TaskGraph& graph) {
  std::erase_if(graph.edges, [](const Edge& edge) { return edge.reuse; });
  const std::vector<SlotUsers> slot_users = find_slot_users(graph);
  const bool shares = std::any_of(graph.buffers.begin(), graph.buffers.end(),
                                  [](const Buffer& buffer) { return buffer.place != kNoPlace; });
  if (shares) PlaceLinker(graph).run();
  for (const SlotUsers& users : slot_users) {
    const std::uint32_t slots = graph.buffers[users.buffer].slots;
    for (std::uint64_t group = slots; slots > 0 && group < users.readers.size(); ++group) {
      for (const GroupRange& readers : users.readers[group - slots]) {
        graph.edges.push_back({{users.writer, {group, group + 1}}, readers, true});
      }
    }
  }
  sort_by_consumer(graph, graph.edges);
}

TaskGraph without_window(TaskGraph graph) {
  for (Buffer& buffer : graph.buffers) {
    buffer.slots = 0;
    buffer.place = kNoPlace;
  }
  add_reuse(graph);
  count_signals(graph);
  return graph;
}

}  // namespace megaconv
