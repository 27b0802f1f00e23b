// SPDX-License-Identifier: Apache-2.0
// From edges to counters.
//
// Groups of a stage that have the same edges share one counter. A task that waits on it waits
// for all tasks that these edges name, but for those that another edge implies:
//
//   conv1 --> conv2 --> conv3        conv3's tasks need no signal of conv1 where they wait for
//     |                   ^          tasks of conv2 that have waited for the same ones
//     +-------------------+
#include <algorithm>
#include <string>
#include <vector>

#include "mapping/consumers.hpp"
#include "megaconv/error.hpp"
#include "megaconv/graph.hpp"

namespace megaconv {
namespace {

// Groups of one stage that are done: an interval, to which others are added that touch it. Of those
// that do not, the larger is kept.
void add(Interval& done, const Interval& groups) {
  if (done.size() == 0) {
    done = groups;
  } else if (groups.begin <= done.end && done.begin <= groups.end) {
    done.begin = std::min(done.begin, groups.begin);
    done.end = std::max(done.end, groups.end);
  } else if (groups.size() > done.size()) {
    done = groups;
  }
}

// Which groups of which stages are done when a consumer may run: one interval a stage, by stage.
using Known = std::vector<GroupRange>;

const Interval* find(const Known& known, StageId stage) {
  const auto found = std::lower_bound(
      known.begin(), known.end(), stage,
      [](const GroupRange& range, StageId wanted) { return range.stage < wanted; });
  return found != known.end() && found->stage == stage ? &found->groups : nullptr;
}

class SignalCounter {
 public:
  explicit SignalCounter(TaskGraph& graph) : graph_(graph) {
    std::uint64_t groups = 0;
    for (const Stage& stage : graph.stages) {
      first_group_.push_back(groups);
      groups += stage.groups;
    }
    first_group_.push_back(groups);
    find_stages_with_several_readers();
    known_.resize(graph.stages.size());
    consumer_of_.resize(graph.stages.size());
    done_.resize(graph.stages.size());
  }

  void run() {
    graph_.counter_totals.clear();
    graph_.signals.clear();
    for (Task& task : graph_.tasks) {
      task.wait_counter = kNoCounter;
      task.wait_count = task.first_signal = task.num_signals = 0;
    }
    const Edge* const all = graph_.edges.data();
    std::size_t begin = 0;
    for (StageId stage = 0; stage < graph_.stages.size(); ++stage) {
      std::size_t end = begin;
      while (end < graph_.edges.size() && graph_.edges[end].consumer.stage == stage) ++end;
      make_counters(stage, find_consumers(all + begin, all + end));
      begin = end;
    }
    hand_out_signals();
  }

 private:
  // Only their edges can be implied by others, so only these need to be known.
  void find_stages_with_several_readers() {
    std::vector<StageId> reader(graph_.stages.size(), kNobody);
    has_several_readers_.resize(graph_.stages.size());
    for (const Edge& edge : graph_.edges) {
      if (edge.reuse) continue;
      StageId& first = reader[edge.producer.stage];
      if (first == kNobody) first = edge.consumer.stage;
      if (first != edge.consumer.stage) has_several_readers_[edge.producer.stage] = true;
    }
  }

  void make_counters(StageId stage, const std::vector<Consumer>& consumers) {
    consumer_of_[stage].assign(graph_.stages[stage].groups, kNobody);
    for (const Consumer& consumer : consumers) {
      const auto counter = static_cast<std::uint32_t>(graph_.counter_totals.size());
      for (std::uint64_t g = consumer.groups.begin; g < consumer.groups.end; ++g) {
        consumer_of_[stage][g] = static_cast<std::uint32_t>(known_[stage].size());
      }
      known_[stage].push_back(known_by(consumer));
      std::uint64_t total = 0;
      for (const Edge* edge : consumer.edges) {
        if (is_implied(*edge, consumer)) continue;
        total += edge->producer.groups.size() * graph_.stages[edge->producer.stage].per_group;
        arcs_.push_back({edge->producer, counter});
      }
      if (total >= kNoCounter) {
        throw Error(Status::unsupported,
                    std::to_string(total) + " signals to one counter: must be less than 2^32");
      }
      graph_.counter_totals.push_back(static_cast<std::uint32_t>(total));
      const Stage& of = graph_.stages[stage];
      for (std::uint32_t id = of.id(static_cast<std::uint32_t>(consumer.groups.begin), 0);
           id < of.first + consumer.groups.end * of.per_group; ++id) {
        graph_.tasks[id].wait_counter = counter;
        graph_.tasks[id].wait_count = static_cast<std::uint32_t>(total);
      }
    }
  }

  // All that is done when a consumer may run, of stages with several readers.
  Known known_by(const Consumer& consumer) {
    const auto note = [this](const GroupRange& range) {
      Interval& done = done_[range.stage];
      if (done.size() == 0) noted_.push_back(range.stage);
      add(done, range.groups);
    };
    for (const Edge* edge : consumer.edges) {
      if (edge->reuse) continue;
      if (has_several_readers_[edge->producer.stage]) note(edge->producer);
      for_each_producer(*edge, [&](const Known& of_producer) {
        for (const GroupRange& range : of_producer) note(range);
      });
    }
    std::sort(noted_.begin(), noted_.end());
    Known known;
    known.reserve(noted_.size());
    for (const StageId stage : noted_) {
      known.push_back({stage, done_[stage]});
      done_[stage] = {};
    }
    noted_.clear();
    return known;
  }

  // Calls visit() with what each group of consumers among an edge's producers knows.
  template <class Visit>
  void for_each_producer(const Edge& edge, Visit visit) const {
    const std::vector<std::uint32_t>& consumers = consumer_of_[edge.producer.stage];
    std::uint32_t last = kNobody;
    for (std::uint64_t g = edge.producer.groups.begin; g < edge.producer.groups.end; ++g) {
      if (consumers[g] == last || consumers[g] == kNobody) continue;
      last = consumers[g];
      visit(known_[edge.producer.stage][last]);
    }
  }

  bool is_implied(const Edge& edge, const Consumer& consumer) const {
    if (edge.reuse || !has_several_readers_[edge.producer.stage]) return false;
    Interval done;
    for (const Edge* other : consumer.edges) {
      if (other == &edge || other->reuse) continue;
      for_each_producer(*other, [&](const Known& known) {
        if (const Interval* groups = find(known, edge.producer.stage)) add(done, *groups);
      });
    }
    return done.contains(edge.producer.groups);
  }

  // Every group of producers signals its counters, in ranges.
  void hand_out_signals() {
    std::vector<std::uint64_t> begin(first_group_.back() + 1);  // of each group's counters
    const auto for_each_group = [&](const Arc& arc, auto visit) {
      const std::uint64_t base = first_group_[arc.producer.stage];
      for (std::uint64_t g = arc.producer.groups.begin; g < arc.producer.groups.end; ++g) {
        visit(base + g);
      }
    };
    for (const Arc& arc : arcs_) for_each_group(arc, [&](std::uint64_t g) { ++begin[g + 1]; });
    for (std::size_t g = 1; g < begin.size(); ++g) begin[g] += begin[g - 1];
    std::vector<std::uint32_t> counters(begin.back());
    std::vector<std::uint64_t> end(begin);
    for (const Arc& arc : arcs_) {
      for_each_group(arc, [&](std::uint64_t g) { counters[end[g]++] = arc.counter; });
    }
    for (const Stage& stage : graph_.stages) {
      const std::uint64_t base =
          first_group_[static_cast<std::size_t>(&stage - graph_.stages.data())];
      for (std::uint32_t g = 0; g < stage.groups; ++g) {
        set_signals(stage, g, counters.data() + begin[base + g], counters.data() + end[base + g]);
      }
    }
  }

  // Counters are in ascending order.
  void set_signals(const Stage& stage, std::uint32_t group, const std::uint32_t* counter,
                   const std::uint32_t* end) {
    const auto first = static_cast<std::uint32_t>(graph_.signals.size());
    for (; counter != end; ++counter) {
      const bool extends = graph_.signals.size() > first &&
                           graph_.signals.back().first + graph_.signals.back().count == *counter;
      if (extends) {
        ++graph_.signals.back().count;
      } else {
        graph_.signals.push_back({*counter, 1});
      }
    }
    const auto num = static_cast<std::uint32_t>(graph_.signals.size()) - first;
    for (std::uint32_t block = 0; num > 0 && block < stage.per_group; ++block) {
      Task& task = graph_.tasks[stage.id(group, block)];
      task.first_signal = first;
      task.num_signals = num;
    }
  }

  // A counter, and producers that signal it.
  struct Arc {
    GroupRange producer;
    std::uint32_t counter;
  };

  static constexpr std::uint32_t kNobody = 0xffffffffu;
  TaskGraph& graph_;
  std::vector<std::uint64_t> first_group_;               // by stage: groups of all stages before
  std::vector<bool> has_several_readers_;                // by stage
  std::vector<std::vector<Known>> known_;                // by stage and consumer
  std::vector<std::vector<std::uint32_t>> consumer_of_;  // by stage and group
  std::vector<Arc> arcs_;                                // by counter
  std::vector<Interval> done_;                           // by stage; all empty between uses
  std::vector<StageId> noted_;                           // those of done_ that are not empty
};

}  // namespace

void count_signals(TaskGraph& graph) { SignalCounter(graph).run(); }

}  // namespace megaconv
