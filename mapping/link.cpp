// SPDX-License-Identifier: Apache-2.0
// From regions to edges.
//
// What a group of tasks writes is collected as rectangles (rows x columns, with all channels and
// positions that its tasks have there) and sorted by rows. A read then finds its producers by a
// binary search. Neighbouring groups that read the same are one consumer, so that a stage whose
// tasks all read the same has one edge.
#include <algorithm>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/graph.hpp"

namespace megaconv {
namespace {

// What the tasks of one group write of one buffer in the same rows and columns.
struct Rectangle {
  Region region;
  StageId stage;
  std::uint32_t group;
};

void include(Interval& interval, const Interval& other) {
  interval.begin = std::min(interval.begin, other.begin);
  interval.end = std::max(interval.end, other.end);
}

// All rectangles of one buffer, by their first row, or column if of these there are more.
class Writers {
 public:
  // Called group by group.
  void add(const Region& region, StageId stage, std::uint32_t group) {
    for (std::size_t i = rectangles_.size(); i > 0; --i) {
      Rectangle& known = rectangles_[i - 1];
      if (known.stage != stage || known.group != group) break;
      if (known.region.rows != region.rows || known.region.cols != region.cols) continue;
      include(known.region.channels, region.channels);
      include(known.region.positions, region.positions);
      return;
    }
    rectangles_.push_back({region, stage, group});
  }

  void sort() {
    const std::size_t by_rows = sort_by(&Region::rows);
    if (sort_by(&Region::cols) <= by_rows) sort_by(&Region::rows);
    for (const Rectangle& rectangle : rectangles_) {
      longest_ = std::max(longest_, (rectangle.region.*axis_).size());
    }
  }

  bool empty() const { return rectangles_.empty(); }

  template <class Visit>
  void for_each_overlap(const Region& region, Visit visit) const {
    const Interval& wanted = region.*axis_;
    const std::uint64_t from = wanted.begin >= longest_ ? wanted.begin - longest_ : 0;
    auto at = std::lower_bound(rectangles_.begin(), rectangles_.end(), from,
                               [this](const Rectangle& rectangle, std::uint64_t begin) {
                                 return (rectangle.region.*axis_).begin < begin;
                               });
    for (; at != rectangles_.end() && (at->region.*axis_).begin < wanted.end; ++at) {
      if (at->region.overlaps(region)) visit(*at);
    }
  }

 private:
  // How many different beginnings there are on this axis.
  std::size_t sort_by(Interval Region::*axis) {
    axis_ = axis;
    const auto begin_of = [axis](const Rectangle& rectangle) {
      return (rectangle.region.*axis).begin;
    };
    const auto earlier = [&](const Rectangle& a, const Rectangle& b) {
      return begin_of(a) < begin_of(b);
    };
    if (!std::is_sorted(rectangles_.begin(), rectangles_.end(), earlier)) {
      std::stable_sort(rectangles_.begin(), rectangles_.end(), earlier);
    }
    std::size_t count = rectangles_.empty() ? 0 : 1;
    for (std::size_t i = 1; i < rectangles_.size(); ++i) {
      count += begin_of(rectangles_[i]) != begin_of(rectangles_[i - 1]) ? 1 : 0;
    }
    return count;
  }

  std::vector<Rectangle> rectangles_;
  Interval Region::*axis_ = &Region::rows;
  std::uint64_t longest_ = 0;  // of all rectangles, on the axis
};

class Linker {
 public:
  explicit Linker(TaskGraph& graph) : graph_(graph), writers_(graph.buffers.size()) {}

  void run() {
    graph_.edges.clear();
    find_read_buffers();
    for (StageId stage = 0; stage < graph_.stages.size(); ++stage) {
      if (writes_for_others(stage)) collect_writes(stage);
    }
    for (Writers& writers : writers_) writers.sort();
    for (StageId stage = 0; stage < graph_.stages.size(); ++stage) link_stage(stage);
  }

 private:
  [[noreturn]] void reject(StageId stage, const Access& access, const std::string& what) const {
    const Stage& of = graph_.stages[stage];
    throw Error(Status::invalid_argument,
                graph_.nodes[of.node] + ", " + graph_.kinds[of.kind].name + ": " +
                    (access.mode == Mode::read ? "reads " : "writes ") + to_string(access.region) +
                    " of buffer " + graph_.buffers[access.buffer].name + ", " + what);
  }

  [[noreturn]] void reject_buffer(StageId stage, const Access& access) const {
    const Stage& of = graph_.stages[stage];
    throw Error(Status::invalid_argument,
                graph_.nodes[of.node] + ", " + graph_.kinds[of.kind].name + ": " +
                    (access.mode == Mode::read ? "reads" : "writes") + " buffer " +
                    std::to_string(access.buffer) + ", there are " +
                    std::to_string(graph_.buffers.size()));
  }

  void list(StageId stage, std::uint32_t group, std::uint32_t block) {
    accesses_.clear();
    graph_.list_accesses(stage, group, block, accesses_);
    for (const Access& access : accesses_) {
      if (access.buffer >= graph_.buffers.size()) reject_buffer(stage, access);
      const Region& extent = graph_.buffers[access.buffer].extent;
      if (!extent.contains(access.region)) {
        reject(stage, access, "which has only " + to_string(extent));
      }
    }
  }

  void find_read_buffers() {
    is_read_.resize(graph_.buffers.size());
    for (StageId stage = 0; stage < graph_.stages.size(); ++stage) {
      for (std::uint32_t group = 0; group < graph_.stages[stage].groups; ++group) {
        list(stage, group, 0);
        for (const Access& access : accesses_) {
          if (access.mode == Mode::read && !graph_.buffers[access.buffer].given) {
            is_read_[access.buffer] = true;
          }
        }
      }
    }
  }

  // Tasks of a stage write the same buffers.
  bool writes_for_others(StageId stage) {
    list(stage, 0, 0);
    return std::any_of(accesses_.begin(), accesses_.end(), [this](const Access& access) {
      return access.mode == Mode::write && is_read_[access.buffer];
    });
  }

  void collect_writes(StageId stage) {
    const Stage& of = graph_.stages[stage];
    for (std::uint32_t group = 0; group < of.groups; ++group) {
      for (std::uint32_t block = 0; block < of.per_group; ++block) {
        list(stage, group, block);
        for (const Access& access : accesses_) {
          if (access.mode == Mode::write && is_read_[access.buffer] && access.region.size() > 0) {
            writers_[access.buffer].add(access.region, stage, group);
          }
        }
      }
    }
  }

  void link_stage(StageId stage) {
    const auto is_same = [](const Access& a, const Access& b) {
      return a.buffer == b.buffer && a.region == b.region;
    };
    std::size_t first_edge = graph_.edges.size();  // of the last consumer
    std::vector<Access> last;
    for (std::uint32_t group = 0; group < graph_.stages[stage].groups; ++group) {
      list(stage, group, 0);
      std::erase_if(accesses_, [&](const Access& access) {
        return access.mode == Mode::write || access.region.size() == 0 ||
               graph_.buffers[access.buffer].given;
      });
      // However often it says so.
      accesses_.erase(std::unique(accesses_.begin(), accesses_.end(), is_same), accesses_.end());
      if (group > 0 &&
          std::equal(accesses_.begin(), accesses_.end(), last.begin(), last.end(), is_same)) {
        for (std::size_t e = first_edge; e < graph_.edges.size(); ++e) {
          ++graph_.edges[e].consumer.groups.end;
        }
        continue;
      }
      first_edge = graph_.edges.size();
      last = accesses_;
      find_producers(stage);
      for (const GroupRange& producer : producers_) {
        graph_.edges.push_back({{stage, {group, group + 1}}, producer, false});
      }
    }
  }

  // Of the reads in accesses_, into producers_: sorted, neighbouring groups of a stage together.
  void find_producers(StageId stage) {
    producers_.clear();
    for (const Access& access : accesses_) {
      bool found = false;
      writers_[access.buffer].for_each_overlap(access.region, [&](const Rectangle& writer) {
        if (writer.stage >= stage) {
          reject(stage, access,
                 "which only later tasks write: " +
                     graph_.kinds[graph_.stages[writer.stage].kind].name + " of " +
                     graph_.nodes[graph_.stages[writer.stage].node]);
        }
        found = true;
        add_producer(writer.stage, writer.group);
      });
      if (!found) reject(stage, access, "which no task writes");
    }
    std::sort(producers_.begin(), producers_.end(), [](const GroupRange& a, const GroupRange& b) {
      return a.stage != b.stage ? a.stage < b.stage : a.groups.begin < b.groups.begin;
    });
    std::size_t kept = 0;
    for (const GroupRange& next : producers_) {
      GroupRange* const before = kept > 0 ? &producers_[kept - 1] : nullptr;
      if (before && before->stage == next.stage && next.groups.begin <= before->groups.end) {
        before->groups.end = std::max(before->groups.end, next.groups.end);
      } else {
        producers_[kept++] = next;
      }
    }
    producers_.resize(kept);
  }

  void add_producer(StageId stage, std::uint32_t group) {
    if (!producers_.empty() && producers_.back().stage == stage) {
      Interval& groups = producers_.back().groups;
      if (groups.begin <= group && group <= groups.end) {
        groups.end = std::max<std::uint64_t>(groups.end, group + 1);
        return;
      }
    }
    producers_.push_back({stage, {group, std::uint64_t{group} + 1}});
  }

  TaskGraph& graph_;
  std::vector<Writers> writers_;  // by buffer
  std::vector<bool> is_read_;     // by buffer
  std::vector<Access> accesses_;
  std::vector<GroupRange> producers_;
};

}  // namespace

void link(TaskGraph& graph) { Linker(graph).run(); }

}  // namespace megaconv
