// SPDX-License-Identifier: Apache-2.0
// Which buffers share bytes: the largest first, each at the lowest place where nobody is in its
// way (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020,
// section 5.2, greedy by size).
#include "mapping/places.hpp"

#include <algorithm>
#include <utility>

namespace megaconv {
namespace {

// When a buffer is in use: positions of an order, and stages.
struct Life {
  BufferId buffer = 0;
  std::uint64_t first = ~std::uint64_t{0}, last = 0;
  StageId first_writer = ~StageId{0}, last_user = 0;

  bool is_before(const Life& other, std::uint64_t slack) const {
    return last + slack < other.first && last_user < other.first_writer;
  }
};

// What a node reads stays until its last stage: it may compute all of them again, as where a guess
// about its input was wrong. Not what its own stages hand on.
struct NodeEnd {
  std::uint64_t position = 0;
  StageId stage = 0;
};

std::vector<Life> find_lives(const TaskGraph& graph, const TaskMapping& mapping,
                             const std::vector<BufferId>& shared) {
  std::vector<Life> lives(graph.buffers.size());
  std::vector<std::uint64_t> position_of(graph.tasks.size());
  for (std::size_t p = 0; p < mapping.order.size(); ++p) position_of[mapping.order[p]] = p;
  std::vector<Access> accesses;
  std::vector<NodeEnd> ends(graph.nodes.size());
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
    ends[of.node] = {std::max(ends[of.node].position, last), stage};
    for (const Access& access : accesses) {
      Life& life = lives[access.buffer];
      life.last = std::max(life.last, last);
      life.last_user = std::max(life.last_user, stage);
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
  for (const auto& [buffer, node] : reads) {
    if (writers[buffer] == node) continue;
    Life& life = lives[buffer];
    life.last = std::max(life.last, ends[node].position);
    life.last_user = std::max(life.last_user, ends[node].stage);
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
