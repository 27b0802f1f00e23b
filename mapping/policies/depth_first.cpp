// SPDX-License-Identifier: Apache-2.0
// Smallest live footprint: the groups of the last stages in order, each right behind what it needs
// and nobody has needed before. Across the layers of a network this keeps a few rows of each.
//
// With DIG or M groups, all stages go on together: the deepest stage has its turn whose next group
// stands DIG positions behind what it needs, and takes M groups. Where there is none, the one whose
// producers stand furthest ahead. Without a distance this is depth-first, too; with one that is
// longer than the order it is one stage after the other.
#include <algorithm>
#include <utility>
#include <vector>

#include "mapping/consumers.hpp"
#include "mapping/policies/policies.hpp"
#include "megaconv/error.hpp"

namespace megaconv {
namespace {

class DepthFirst {
 public:
  explicit DepthFirst(const TaskGraph& graph)
      : graph_(graph), emitted_(graph.stages.size()), consumers_(graph.stages.size()) {
    order_.reserve(graph.tasks.size());
    std::vector<std::vector<Consumer>> consumers = find_consumers(graph);
    for (StageId stage = 0; stage < graph.stages.size(); ++stage) {
      consumers_[stage].all = std::move(consumers[stage]);
      emitted_[stage].resize(graph.stages[stage].groups);
    }
  }

  TaskOrder run() {
    std::vector<bool> is_read(graph_.stages.size());
    for (const Edge& edge : graph_.edges) {
      if (!edge.reuse) is_read[edge.producer.stage] = true;
    }
    // In the second pass only groups are left that nobody reads, of stages that others read.
    for (const bool read : {false, true}) {
      for (StageId stage = 0; stage < graph_.stages.size(); ++stage) {
        if (is_read[stage] != read) continue;
        for (std::uint32_t group = 0; group < graph_.stages[stage].groups; ++group) {
          emit(stage, group);
        }
      }
    }
    return std::move(order_);
  }

 private:
  void emit(StageId stage, std::uint64_t group) {
    if (emitted_[stage][group]) return;
    emitted_[stage][group] = true;
    if (const Consumer* consumer = consumers_[stage].find(group)) {
      for (const Edge* edge : consumer->edges) {
        if (edge->reuse) continue;
        const Interval producers = edge->producer.groups;
        for (std::uint64_t g = producers.begin; g < producers.end; ++g) {
          emit(edge->producer.stage, g);
        }
      }
    }
    const Stage& of = graph_.stages[stage];
    for (std::uint32_t block = 0; block < of.per_group; ++block) {
      order_.push_back(of.id(static_cast<std::uint32_t>(group), block));
    }
  }

  // The consumers of a stage, asked for mostly in the order of their groups.
  struct Cursor {
    std::vector<Consumer> all;
    std::size_t next = 0;
    const Consumer* find(std::uint64_t group) {
      if (next < all.size() && group < all[next].groups.begin) next = 0;
      while (next < all.size() && all[next].groups.end <= group) ++next;
      return next < all.size() && all[next].groups.begin <= group ? &all[next] : nullptr;
    }
  };

  const TaskGraph& graph_;
  std::vector<std::vector<bool>> emitted_;  // by stage and group
  std::vector<Cursor> consumers_;           // by stage
  TaskOrder order_;
};

class Spaced {
 public:
  Spaced(const TaskGraph& graph, std::uint64_t distance, std::uint64_t at_a_time)
      : graph_(graph), distance_(distance), at_a_time_(at_a_time), stages_(graph.stages.size()) {
    order_.reserve(graph.tasks.size());
    std::vector<std::vector<Consumer>> consumers = find_consumers(graph);
    for (StageId stage = 0; stage < graph.stages.size(); ++stage) {
      stages_[stage].consumers = std::move(consumers[stage]);
      stages_[stage].last.reserve(graph.stages[stage].groups);
    }
  }

  TaskOrder run() {
    while (order_.size() < graph_.tasks.size()) {
      const StageId stage = choose();
      if (needs(stage) == kMissing) window_holds_ = false;  // the proof says that it is too small
      for (std::uint64_t i = 0; i < at_a_time_ && needs(stage) != kMissing; ++i) emit(stage);
    }
    return std::move(order_);
  }

 private:
  static constexpr std::uint64_t kMissing = ~std::uint64_t{0};

  struct Progress {
    std::vector<Consumer> consumers;  // in the order of their groups
    std::size_t at = 0;               // the one of the next group, or one behind it
    std::vector<std::uint64_t> last;  // by group that stands: positions up to its last task
  };

  // So many positions of the order must stand before the next group of a stage; kMissing if not all
  // do, or there is none.
  std::uint64_t needs(StageId stage) {
    Progress& own = stages_[stage];
    const std::uint64_t group = own.last.size();
    if (group == graph_.stages[stage].groups) return kMissing;
    while (own.at < own.consumers.size() && own.consumers[own.at].groups.end <= group) ++own.at;
    std::uint64_t before = 0;
    if (own.at == own.consumers.size() || own.consumers[own.at].groups.begin > group) return before;
    for (const Edge* edge : own.consumers[own.at].edges) {
      if (edge->reuse && !window_holds_) continue;
      const std::vector<std::uint64_t>& last = stages_[edge->producer.stage].last;
      const std::uint64_t end = edge->producer.groups.end;
      if (last.size() < end) return kMissing;
      if (!edge->reuse) before = std::max(before, last[end - 1]);
    }
    return before;
  }

  StageId choose() {
    StageId best = 0;
    std::uint64_t least = kMissing;
    for (auto stage = static_cast<StageId>(stages_.size()); stage-- > 0;) {
      const std::uint64_t before = needs(stage);
      if (before == kMissing) continue;
      if (before == 0 || order_.size() - (before - 1) >= distance_) return stage;
      if (before < least) least = before, best = stage;
    }
    return best;
  }

  void emit(StageId stage) {
    const Stage& of = graph_.stages[stage];
    const auto group = static_cast<std::uint32_t>(stages_[stage].last.size());
    for (std::uint32_t block = 0; block < of.per_group; ++block) {
      order_.push_back(of.id(group, block));
    }
    stages_[stage].last.push_back(order_.size());
  }

  const TaskGraph& graph_;
  const std::uint64_t distance_, at_a_time_;
  std::vector<Progress> stages_;
  TaskOrder order_;
  bool window_holds_ = true;
};

}  // namespace

TaskOrder order_depth_first(const TaskGraph& graph, const PolicyArguments& arguments) {
  const MappingOptions& asked = arguments.options;
  if (!asked.dig && !asked.m_groups) return DepthFirst(graph).run();
  if (asked.m_groups == 0u) {
    throw Error(Status::invalid_argument, "m_groups = 0: must be at least 1");
  }
  return Spaced(graph, asked.dig.value_or(0), asked.m_groups.value_or(1)).run();
}

}  // namespace megaconv
