// SPDX-License-Identifier: Apache-2.0
// A sweep down the rows of one buffer after the other, or over its columns if more begin there.
// Where a read begins, it meets the writes that are open; where a write begins, the reads. Two
// writes that meet are two writers of one region; a read whose meetings do not add up to its size
// reads what nobody writes.
#include "mapping/needs.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "mapping/consumers.hpp"
#include "mapping/places.hpp"

namespace megaconv {
namespace {

// A region that the tasks of a group write, or that those of some groups read.
struct Touch {
  Region region;
  StageId stage = 0;
  Interval groups;
  std::uint32_t block = 0;    // of the task that is named if it is wrong
  std::uint64_t covered = 0;  // of a read: what writes have of it
};

Interval common(const Interval& a, const Interval& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

std::uint64_t common_size(const Region& a, const Region& b) {
  return Region{common(a.rows, b.rows), common(a.cols, b.cols), common(a.channels, b.channels),
                common(a.positions, b.positions)}
      .size();
}

// Writes of one group in the same rows and columns that are a whole grid of channels and positions
// become one; the others stay as they are.
class GroupWrites {
 public:
  void clear() { writes_.clear(); }
  void add(const Touch& write) { writes_.push_back(write); }

  void append_to(std::vector<Touch>& all) {
    const auto key = [](const Touch& t) {
      return std::tie(t.region.rows.begin, t.region.rows.end, t.region.cols.begin,
                      t.region.cols.end, t.region.channels.begin, t.region.positions.begin);
    };
    std::sort(writes_.begin(), writes_.end(),
              [&](const Touch& a, const Touch& b) { return key(a) < key(b); });
    for (std::size_t begin = 0, end; begin < writes_.size(); begin = end) {
      const Region& first = writes_[begin].region;
      end = begin + 1;
      while (end < writes_.size() && writes_[end].region.rows == first.rows &&
             writes_[end].region.cols == first.cols) {
        ++end;
      }
      if (is_grid(begin, end)) {
        Touch whole = writes_[begin];
        whole.region.channels.end = writes_[end - 1].region.channels.end;
        whole.region.positions.end = writes_[end - 1].region.positions.end;
        all.push_back(whole);
      } else {
        all.insert(all.end(), writes_.begin() + static_cast<std::ptrdiff_t>(begin),
                   writes_.begin() + static_cast<std::ptrdiff_t>(end));
      }
    }
  }

 private:
  // Whether each position interval follows the one before, and when a line of them is full, the
  // next channels follow with the same line.
  bool is_grid(std::size_t begin, std::size_t end) const {
    std::size_t line = begin;  // first of the line before
    std::size_t width = 0;
    for (std::size_t i = begin + 1; i < end; ++i) {
      const Region& before = writes_[i - 1].region;
      const Region& next = writes_[i].region;
      if (next.channels == before.channels) {
        if (next.positions.begin != before.positions.end) return false;
      } else {
        if (next.channels.begin != before.channels.end) return false;
        if (width == 0) width = i - begin;
        if (i - line != width) return false;
        line = i;
      }
      if (width != 0 && next.positions != writes_[begin + (i - line)].region.positions)
        return false;
    }
    return width == 0 || end - line == width;
  }

  std::vector<Touch> writes_;
};

class Sweep {
 public:
  explicit Sweep(const TaskGraph& graph)
      : graph_(graph),
        writes_(graph.buffers.size()),
        reads_(graph.buffers.size()),
        uses_(graph.buffers.size()) {}

  Needs run() {
    collect();
    for (BufferId buffer = 0; buffer < graph_.buffers.size() && !needs_.wrong; ++buffer) {
      sweep(buffer);
    }
    if (!needs_.wrong) add_reuse();
    if (!needs_.wrong) add_shared_bytes();
    sort_by_consumer(graph_, needs_.edges);
    return std::move(needs_);
  }

 private:
  void fail(const Touch& touch, const std::string& what) {
    if (needs_.wrong) return;
    needs_.wrong =
        WrongAccess{touch.stage, static_cast<std::uint32_t>(touch.groups.begin), touch.block, what};
  }

  std::string text(const char* verb, const Touch& touch, BufferId buffer) const {
    return std::string(verb) + to_string(turn(touch.region)) + " of buffer " +
           graph_.buffers[buffer].name;
  }

  // Rows for columns where the sweep goes over these; and back.
  Region turn(Region region) const {
    if (turned_) std::swap(region.rows, region.cols);
    return region;
  }

  static std::size_t count_begins(const std::vector<Touch>& touches, Interval Region::*axis) {
    std::vector<std::uint64_t> begins;
    begins.reserve(touches.size());
    for (const Touch& touch : touches) begins.push_back((touch.region.*axis).begin);
    if (!std::is_sorted(begins.begin(), begins.end())) std::sort(begins.begin(), begins.end());
    return static_cast<std::size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
  }

  void collect() {
    std::vector<Access> accesses;
    std::vector<GroupWrites> of_group(graph_.buffers.size());
    std::vector<BufferId> written;
    for (StageId stage = 0; stage < graph_.stages.size(); ++stage) {
      const Stage& of = graph_.stages[stage];
      for (std::uint32_t group = 0; group < of.groups; ++group) {
        const Interval groups{group, std::uint64_t{group} + 1};
        written.clear();
        for (std::uint32_t block = 0; block < of.per_group; ++block) {
          accesses.clear();
          graph_.list_accesses(stage, group, block, accesses);
          for (const Access& access : accesses) {
            const Touch touch{access.region, stage, groups, block};
            const bool writes = access.mode == Mode::write;
            if (access.buffer >= graph_.buffers.size()) {
              return fail(touch, std::string(writes ? "writes" : "reads") + " buffer " +
                                     std::to_string(access.buffer) + ", there are " +
                                     std::to_string(graph_.buffers.size()));
            }
            if (!graph_.buffers[access.buffer].extent.contains(access.region)) {
              return fail(touch, text(writes ? "writes " : "reads ", touch, access.buffer) +
                                     ", which has only " +
                                     to_string(graph_.buffers[access.buffer].extent));
            }
            if (access.region.size() == 0) continue;
            if (graph_.buffers[access.buffer].place != kNoPlace) {
              const Buffer& buffer = graph_.buffers[access.buffer];
              add_use(access.buffer,
                      {bytes_of_rows(buffer, touch.region.rows), {stage, groups}, writes});
            }
            if (writes) {
              of_group[access.buffer].add(touch);
              written.push_back(access.buffer);
            } else if (block == 0 && !graph_.buffers[access.buffer].given) {
              add_read(access.buffer, touch);
            }
          }
        }
        std::sort(written.begin(), written.end());
        written.erase(std::unique(written.begin(), written.end()), written.end());
        for (const BufferId buffer : written) {
          of_group[buffer].append_to(writes_[buffer]);
          of_group[buffer].clear();
        }
      }
    }
  }

  // Neighbouring groups that read the same region are one reader, however often they say so.
  void add_read(BufferId buffer, const Touch& read) {
    std::vector<Touch>& reads = reads_[buffer];
    if (!reads.empty() && reads.back().stage == read.stage && reads.back().region == read.region &&
        reads.back().groups.end >= read.groups.begin) {
      reads.back().groups.end = read.groups.end;
    } else {
      reads.push_back(read);
    }
  }

  void sweep(BufferId buffer) {
    std::vector<Touch>& writes = writes_[buffer];
    std::vector<Touch>& reads = reads_[buffer];
    // What follows speaks of rows.
    turned_ = count_begins(writes, &Region::cols) > count_begins(writes, &Region::rows);
    for (std::vector<Touch>* touches : {&writes, &reads}) {
      for (Touch& touch : *touches) touch.region = turn(touch.region);
    }
    const auto earlier = [](const Touch& a, const Touch& b) {
      return a.region.rows.begin < b.region.rows.begin;
    };
    for (std::vector<Touch>* touches : {&writes, &reads}) {
      if (std::is_sorted(touches->begin(), touches->end(), earlier)) continue;
      std::stable_sort(touches->begin(), touches->end(), earlier);
    }
    std::vector<Touch*> open_writes, open_reads;
    const auto close = [](std::vector<Touch*>& open, std::uint64_t row) {
      std::erase_if(open, [&](const Touch* touch) { return touch->region.rows.end <= row; });
    };
    std::size_t next_read = 0;
    const auto begin_reads = [&](std::uint64_t until) {
      for (; next_read < reads.size() && reads[next_read].region.rows.begin < until; ++next_read) {
        Touch& read = reads[next_read];
        close(open_writes, read.region.rows.begin);
        for (const Touch* write : open_writes) meet(buffer, read, *write);
        open_reads.push_back(&read);
      }
    };
    for (Touch& write : writes) {
      const std::uint64_t row = write.region.rows.begin;
      begin_reads(row);
      close(open_writes, row);
      close(open_reads, row);
      for (const Touch* other : open_writes) {
        if (!other->region.overlaps(write.region)) continue;
        const Task task{.kind = graph_.stages[other->stage].kind,
                        .group = static_cast<std::uint32_t>(other->groups.begin),
                        .block = other->block,
                        .node = graph_.stages[other->stage].node};
        return fail(write, text("writes ", write, buffer) + ", of which " + name(graph_, task) +
                               " writes " + to_string(turn(other->region)));
      }
      for (Touch* read : open_reads) meet(buffer, *read, write);
      open_writes.push_back(&write);
      if (needs_.wrong) return;
    }
    begin_reads(turn(graph_.buffers[buffer].extent).rows.end + 1);
    for (const Touch& read : reads) {
      if (read.covered == read.region.size()) continue;
      return fail(read, text("reads ", read, buffer) + ", of which tasks write " +
                            std::to_string(read.covered) + " of " +
                            std::to_string(read.region.size()) + " elements");
    }
  }

  void meet(BufferId buffer, Touch& read, const Touch& write) {
    const std::uint64_t size =
        read.region.overlaps(write.region) ? common_size(read.region, write.region) : 0;
    if (size == 0) return;
    if (write.stage >= read.stage) {
      fail(read, text("reads ", read, buffer) + ", which a later stage writes");
    }
    read.covered += size;
    const GroupRange producer{write.stage, write.groups};
    if (!needs_.edges.empty()) {
      Edge& last = needs_.edges.back();
      const bool same = last.consumer == GroupRange{read.stage, read.groups} &&
                        last.producer.stage == write.stage;
      if (same && last.producer.groups.contains(write.groups)) return;
      if (same && last.producer.groups.end == write.groups.begin) {
        last.producer.groups.end = write.groups.end;
        return;
      }
    }
    needs_.edges.push_back({{read.stage, read.groups}, producer, false});
  }

  // A task that writes into a slot needs all readers of the group that had the slot before.
  void add_reuse() {
    const std::size_t num_data = needs_.edges.size();
    for (BufferId buffer = 0; buffer < graph_.buffers.size(); ++buffer) {
      const Buffer& of = graph_.buffers[buffer];
      if (!of.windowed || of.slots == 0 || writes_[buffer].empty()) continue;
      const StageId writer = writes_[buffer].front().stage;
      const std::uint64_t groups = graph_.stages[writer].groups;
      for (std::size_t e = 0; e < num_data; ++e) {
        const Edge edge = needs_.edges[e];
        if (edge.producer.stage != writer) continue;
        const std::uint64_t end = std::min(edge.producer.groups.end + of.slots, groups);
        for (std::uint64_t g = edge.producer.groups.begin + of.slots; g < end; ++g) {
          needs_.edges.push_back({{writer, {g, g + 1}}, edge.consumer, true});
        }
      }
    }
  }

  // A group's use of bytes of a buffer that others may have had.
  struct Use {
    Interval bytes;
    GroupRange groups;
    bool writes;
  };

  // Tasks and neighbouring groups that use the same are one.
  void add_use(BufferId buffer, const Use& use) {
    std::vector<Use>& uses = uses_[buffer];
    if (!uses.empty()) {
      Use& last = uses.back();
      if (last.bytes == use.bytes && last.writes == use.writes &&
          last.groups.stage == use.groups.stage &&
          last.groups.groups.end >= use.groups.groups.begin &&
          last.groups.groups.begin <= use.groups.groups.begin) {
        last.groups.groups.end = std::max(last.groups.groups.end, use.groups.groups.end);
        return;
      }
    }
    uses.push_back(use);
  }

  // Buffers take their bytes one after the other, in the order in which they are begun. A task
  // that writes bytes needs all uses of the buffer that had them before.
  void add_shared_bytes() {
    const auto begun = [&](BufferId buffer) {
      StageId first = kNobody;
      for (const Use& use : uses_[buffer]) {
        if (use.writes) first = std::min(first, use.groups.stage);
      }
      return first;
    };
    std::vector<std::pair<StageId, BufferId>> order;
    for (BufferId buffer = 0; buffer < uses_.size(); ++buffer) {
      if (!uses_[buffer].empty()) order.emplace_back(begun(buffer), buffer);
    }
    std::sort(order.begin(), order.end());
    std::vector<std::pair<Interval, BufferId>> owners;  // disjoint
    for (const auto& [stage, buffer] : order) {
      for (const Use& use : uses_[buffer]) {
        if (!use.writes) continue;
        for (const auto& [bytes, owner] : owners) {
          if (bytes.overlaps(use.bytes)) add_needs(use, common(bytes, use.bytes), owner);
        }
      }
      take_bytes(owners, buffer);
    }
  }

  void add_needs(const Use& write, const Interval& bytes, BufferId owner) {
    for (const Use& use : uses_[owner]) {
      if (!use.bytes.overlaps(bytes)) continue;
      Edge* const last = needs_.edges.empty() ? nullptr : &needs_.edges.back();
      if (last != nullptr && last->consumer == write.groups &&
          last->producer.stage == use.groups.stage &&
          last->producer.groups.end >= use.groups.groups.begin &&
          last->producer.groups.begin <= use.groups.groups.begin) {
        last->producer.groups.end = std::max(last->producer.groups.end, use.groups.groups.end);
      } else {
        needs_.edges.push_back({write.groups, use.groups, true});
      }
    }
  }

  void take_bytes(std::vector<std::pair<Interval, BufferId>>& owners, BufferId buffer) const {
    const Interval taken = bytes_of(graph_.buffers[buffer]);
    std::vector<std::pair<Interval, BufferId>> left{{taken, buffer}};
    for (const auto& [bytes, owner] : owners) {
      const Interval below{bytes.begin, std::min(bytes.end, taken.begin)};
      const Interval above{std::max(bytes.begin, taken.end), bytes.end};
      if (below.begin < below.end) left.emplace_back(below, owner);
      if (above.begin < above.end) left.emplace_back(above, owner);
    }
    owners = std::move(left);
  }

  static constexpr StageId kNobody = 0xffffffffu;
  const TaskGraph& graph_;
  std::vector<std::vector<Touch>> writes_, reads_;  // by buffer
  std::vector<std::vector<Use>> uses_;              // by buffer that has a place
  bool turned_ = false;                             // of the buffer at hand
  Needs needs_;
};

}  // namespace

Needs find_needs(const TaskGraph& graph) { return Sweep(graph).run(); }

}  // namespace megaconv
