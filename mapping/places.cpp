// SPDX-License-Identifier: Apache-2.0
// Which buffers share bytes: the largest first, each at the lowest place where nobody is in its
// way (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020,
// section 5.2, greedy by size).
#include "mapping/places.hpp"

#include <algorithm>
#include <utility>

namespace megaconv {
namespace {

// The last position of an order, and the last stage.
struct End {
  std::uint64_t position = 0;
  StageId stage = 0;

  void extend(const End& other) {
    position = std::max(position, other.position);
    stage = std::max(stage, other.stage);
  }
};

// When a buffer is in use.
struct Life {
  BufferId buffer = 0;
  std::uint64_t first = ~std::uint64_t{0};
  StageId first_writer = ~StageId{0};
  End end;

  bool is_before(const Life& other, std::uint64_t slack) const {
    return end.position + slack < other.first && end.stage < other.first_writer;
  }
};

std::vector<Life> find_lives(const TaskGraph& graph, const TaskMapping& mapping,
                             const std::vector<BufferId>& shared) {
  std::vector<Life> lives(graph.buffers.size());
  std::vector<std::uint64_t> position_of(graph.tasks.size());
  for (std::size_t p = 0; p < mapping.order.size(); ++p) position_of[mapping.order[p]] = p;
  std::vector<Access> accesses;
  std::vector<End> ends(graph.nodes.size());
  std::vector<NodeId> writers(graph.buffers.size(), ~NodeId{0});
  std::vector<std::pair<BufferId, NodeId>> reads;
  for (StageId stage = 0; stage < graph.stages.size(); ++stage) {
    const Stage& of = graph.stages[stage];
    accesses.clear();
    for (std::uint32_t group = 0; group < of.groups; ++group) {  // rows of padding read nothing
      graph.list_accesses(stage, group, 0, accesses);
    }
    std::uint64_t first = ~std::uint64_t{0}, last = 0;
    for (std::uint64_t id = of.first; id < of.first + of.num_tasks(); ++id) {
      first = std::min(first, position_of[id]);
      last = std::max(last, position_of[id]);
    }
    ends[of.node].extend({last, stage});
    for (const Access& access : accesses) {
      Life& life = lives[access.buffer];
      life.end.extend({last, stage});
      if (access.mode == Mode::read) {
        if (reads.empty() || reads.back() != std::pair{access.buffer, of.node}) {
          reads.emplace_back(access.buffer, of.node);
        }
        continue;
      }
      writers[access.buffer] = of.node;
      life.first = std::min(life.first, first);
      life.first_writer = std::min(life.first_writer, stage);
    }
  }
  // What a node reads stays until its last stage: it may compute all of them again, as where a
  // guess about its input was wrong. Not what its own stages hand on.
  for (const auto& [buffer, node] : reads) {
    if (writers[buffer] != node) lives[buffer].end.extend(ends[node]);
  }
  std::vector<Life> found;
  for (const BufferId buffer : shared) {
    found.push_back(lives[buffer]);
    found.back().buffer = buffer;
  }
  return found;
}

}  // namespace

Interval bytes_of_rows(const Buffer& buffer, const Interval& rows) {
  const std::uint64_t all = buffer.extent.rows.size();
  const std::uint64_t block = buffer.block_rows == 0 ? all : buffer.block_rows;
  const std::uint64_t bytes = buffer.bytes / (all / block);
  return {buffer.place + rows.begin / block * bytes,
          buffer.place + (rows.end + block - 1) / block * bytes};
}

Interval bytes_of(const Buffer& buffer) { return {buffer.place, buffer.place + buffer.bytes}; }

std::uint64_t choose_places(TaskGraph& graph, const TaskMapping& mapping,
                            const std::vector<BufferId>& shared, std::uint64_t slack,
                            std::uint64_t alignment) {
  std::vector<Life> lives = find_lives(graph, mapping, shared);
  std::stable_sort(lives.begin(), lives.end(), [&](const Life& a, const Life& b) {
    return graph.buffers[a.buffer].bytes > graph.buffers[b.buffer].bytes;
  });
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < lives.size(); ++i) {
    Buffer& buffer = graph.buffers[lives[i].buffer];
    std::vector<Interval> taken;
    for (std::size_t other = 0; other < i; ++other) {
      const Life& a = lives[i];
      const Life& b = lives[other];
      if (!a.is_before(b, slack) && !b.is_before(a, slack)) {
        taken.push_back(bytes_of(graph.buffers[b.buffer]));
      }
    }
    std::sort(taken.begin(), taken.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    std::uint64_t place = 0;
    for (const Interval& interval : taken) {
      if (place + buffer.bytes <= interval.begin) break;
      place = std::max(place, (interval.end + alignment - 1) / alignment * alignment);
    }
    buffer.place = place;
    end = std::max(end, place + buffer.bytes);
  }
  return end;
}

}  // namespace megaconv
