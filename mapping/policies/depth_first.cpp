// SPDX-License-Identifier: Apache-2.0
// Smallest live footprint: the groups of the last stages in order, each right behind what it needs
// and nobody has needed before. Across the layers of a network this keeps a few rows of each.
#include <vector>

#include "mapping/consumers.hpp"
#include "mapping/policies/policies.hpp"

namespace megaconv {
namespace {

class DepthFirst {
 public:
  explicit DepthFirst(const TaskGraph& graph)
      : graph_(graph), emitted_(graph.stages.size()), consumers_(graph.stages.size()) {
    order_.reserve(graph.tasks.size());
    const Edge* next = graph.edges.data();
    const Edge* const end = next + graph.edges.size();
    for (StageId stage = 0; stage < graph.stages.size(); ++stage) {
      const Edge* const begin = next;
      while (next != end && next->consumer.stage == stage) ++next;
      consumers_[stage].all = find_consumers(begin, next);
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

}  // namespace

TaskOrder order_depth_first(const TaskGraph& graph, const PolicyArguments&) {
  return DepthFirst(graph).run();
}

}  // namespace megaconv
