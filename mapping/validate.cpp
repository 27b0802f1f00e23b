// SPDX-License-Identifier: Apache-2.0
// The proof that a mapping is right.
//
// What each task needs is derived from the accesses (needs.hpp), not from the counters or the
// graph's edges: these are what is being checked. If every task is there once, every wait covers
// all that the task needs, and all that signals a counter stands before those who wait on it, then
// the first unfinished task of the mapping can always run: no deadlock, whatever the number of
// workers, as long as they take positions in order.
#include <algorithm>
#include <vector>

#include "mapping/consumers.hpp"
#include "mapping/needs.hpp"
#include "megaconv/mapping.hpp"

namespace megaconv {
namespace {

constexpr std::uint32_t kNobody = 0xffffffffu;

class Validator {
 public:
  Validator(const TaskGraph& graph, const TaskMapping& mapping)
      : graph_(graph), order_(mapping.order) {}

  std::optional<Violation> run() {
    if (auto violation = check_permutation()) return violation;
    if (auto violation = check_regions()) return violation;
    if (auto violation = check_waits()) return violation;
    return check_order();
  }

 private:
  using Property = Violation::Property;

  static Violation violation(Property property, std::uint64_t position, const std::string& what) {
    return {property, position, "position " + std::to_string(position) + ": " + what};
  }
  const Task& at(std::uint64_t position) const { return graph_.tasks[order_[position]]; }
  std::string name_of(std::uint32_t id) const { return name(graph_, graph_.tasks[id]); }

  // --- every task once, and as its stage says

  std::optional<Violation> check_permutation() {
    const std::uint64_t num = graph_.tasks.size();
    std::uint64_t expected = 0;
    for (const Stage& stage : graph_.stages) {
      if (stage.first != expected || stage.node >= graph_.nodes.size() ||
          stage.kind >= graph_.kinds.size()) {
        return violation(Property::permutation, 0,
                         "a stage begins at task " + std::to_string(stage.first) + ", must at " +
                             std::to_string(expected) + ", of a node and kind that exist");
      }
      expected += stage.num_tasks();
    }
    if (num != expected) {
      return violation(Property::permutation, 0,
                       "the graph has " + std::to_string(num) + " tasks, its stages have " +
                           std::to_string(expected));
    }
    position_of_.assign(num, kNobody);
    for (std::uint64_t position = 0; position < order_.size(); ++position) {
      const std::uint32_t id = order_[position];
      if (id >= num) {
        return violation(
            Property::permutation, position,
            "task " + std::to_string(id) + " does not exist, there are " + std::to_string(num));
      }
      if (position_of_[id] != kNobody) {
        return violation(
            Property::permutation, position,
            name_of(id) + " stands also earlier, at " + std::to_string(position_of_[id]));
      }
      const Task& task = graph_.tasks[id];
      const Task expected_task = task_of(id);
      if (task.node != expected_task.node || task.kind != expected_task.kind ||
          task.group != expected_task.group || task.block != expected_task.block) {
        return violation(Property::permutation, position,
                         "task " + std::to_string(id) + " is " + name(graph_, task) + ", must be " +
                             name(graph_, expected_task));
      }
      position_of_[id] = static_cast<std::uint32_t>(position);
    }
    if (order_.size() == num) return std::nullopt;
    const auto missing = std::find(position_of_.begin(), position_of_.end(), kNobody);
    return violation(
        Property::permutation, order_.size(),
        name_of(static_cast<std::uint32_t>(missing - position_of_.begin())) + " is missing");
  }

  Task task_of(std::uint32_t id) const {
    const Stage& stage = graph_.stages[graph_.stage_of(id)];
    const std::uint32_t index = id - stage.first;
    return {.kind = stage.kind,
            .group = index / stage.per_group,
            .block = index % stage.per_group,
            .node = stage.node};
  }

  // --- what tasks read and write

  std::optional<Violation> check_regions() {
    needs_ = find_needs(graph_);
    if (!needs_.wrong) return std::nullopt;
    const WrongAccess& wrong = *needs_.wrong;
    const std::uint32_t id = graph_.stages[wrong.stage].id(wrong.group, wrong.block);
    return violation(Property::regions, position_of_[id], name_of(id) + " " + wrong.what);
  }

  // --- waits

  std::optional<Violation> check_waits() {
    for (std::uint64_t position = 0; position < order_.size(); ++position) {
      if (const std::string wrong = wrong_signals(at(position)); !wrong.empty()) {
        return violation(Property::complete_waits, position,
                         name(graph_, at(position)) + " " + wrong);
      }
    }
    count_signals();
    list_needs();
    for (std::uint64_t position = 0; position < order_.size(); ++position) {
      if (const std::string wrong = wrong_wait(order_[position]); !wrong.empty()) {
        return violation(Property::complete_waits, position,
                         name(graph_, at(position)) + " " + wrong);
      }
    }
    return std::nullopt;
  }

  // What is wrong with the counters that a task signals; "" when they exist.
  std::string wrong_signals(const Task& task) const {
    const std::uint64_t end = std::uint64_t{task.first_signal} + task.num_signals;
    if (end > graph_.signals.size()) {
      return "has signals up to range " + std::to_string(end) + ", there are " +
             std::to_string(graph_.signals.size());
    }
    for (std::uint64_t i = task.first_signal; i < end; ++i) {
      const SignalRange& range = graph_.signals[i];
      const std::uint64_t counters_end = std::uint64_t{range.first} + range.count;
      if (counters_end > graph_.counter_totals.size()) {
        return "signals counter " + std::to_string(counters_end - 1) + ", there are " +
               std::to_string(graph_.counter_totals.size());
      }
    }
    return {};
  }

  // How many signals each counter really receives in a run, and who sends them: groups whose tasks
  // all signal the same are listed once.
  void count_signals() {
    std::vector<std::int64_t> change(graph_.counter_totals.size() + 1);
    first_group_.clear();
    uniform_.clear();
    for (const Stage& stage : graph_.stages) {
      first_group_.push_back(uniform_.size());
      for (std::uint32_t group = 0; group < stage.groups; ++group) {
        const Task& first = graph_.tasks[stage.id(group, 0)];
        bool uniform = true;
        for (std::uint32_t block = 0; block < stage.per_group; ++block) {
          const Task& task = graph_.tasks[stage.id(group, block)];
          uniform = uniform && task.first_signal == first.first_signal &&
                    task.num_signals == first.num_signals;
          for (std::uint32_t i = 0; i < task.num_signals; ++i) {
            const SignalRange& range = graph_.signals[task.first_signal + i];
            ++change[range.first];
            --change[std::size_t{range.first} + range.count];
          }
        }
        uniform_.push_back(uniform);
      }
    }
    received_.resize(graph_.counter_totals.size());
    std::int64_t running = 0;
    for (std::size_t c = 0; c < received_.size(); ++c) {
      running += change[c];
      received_[c] = static_cast<std::uint64_t>(running);
    }
  }

  // Of every group, the consumer (needs.hpp) that it belongs to.
  void list_needs() {
    need_of_.assign(uniform_.size(), kNobody);
    const Edge* const all = needs_.edges.data();
    std::size_t begin = 0;
    for (StageId stage = 0; stage < graph_.stages.size(); ++stage) {
      std::size_t end = begin;
      while (end < needs_.edges.size() && needs_.edges[end].consumer.stage == stage) ++end;
      for (Consumer& consumer : find_consumers(all + begin, all + end)) {
        const auto index = static_cast<std::uint32_t>(consumers_.size());
        for (std::uint64_t g = consumer.groups.begin; g < consumer.groups.end; ++g) {
          need_of_[first_group_[stage] + g] = index;
        }
        consumers_.push_back(std::move(consumer));
      }
      begin = end;
    }
    proven_.assign(consumers_.size(), kNoCounter);
  }

  // Times that a task signals a counter.
  std::uint32_t times_signalled(const Task& task, std::uint32_t counter) const {
    std::uint32_t times = 0;
    for (std::uint32_t i = 0; i < task.num_signals; ++i) {
      const SignalRange& range = graph_.signals[task.first_signal + i];
      times += counter >= range.first && counter - range.first < range.count ? 1 : 0;
    }
    return times;
  }

  std::string wrong_wait(std::uint32_t id) {
    const Task& task = graph_.tasks[id];
    const StageId stage = graph_.stage_of(id);
    const std::uint32_t need = need_of_[first_group_[stage] + task.group];
    const std::uint32_t counter = task.wait_counter;
    if (counter == kNoCounter) {
      return need == kNobody ? "" : "waits for nothing, needs " + needed_text(need);
    }
    if (counter < received_.size() && need != kNobody && proven_[need] == counter &&
        task.wait_count == received_[counter]) {
      return {};  // as for the task before
    }
    const std::string waits = "waits on counter " + std::to_string(counter);
    if (counter >= received_.size()) {
      return waits + ", there are " + std::to_string(received_.size());
    }
    if (task.wait_count != received_[counter]) {
      return waits + " for " + std::to_string(task.wait_count) + " signals, which receives " +
             std::to_string(received_[counter]);
    }
    if (graph_.counter_totals[counter] != received_[counter]) {
      return waits + ", whose total is given as " + std::to_string(graph_.counter_totals[counter]) +
             ", but receives " + std::to_string(received_[counter]);
    }
    if (need == kNobody) return waits + ", needs nothing";
    StageId first = kNobody;
    for (const Edge* edge : consumers_[need].edges) first = std::min(first, edge->producer.stage);
    for (const Edge* edge : consumers_[need].edges) {
      for (std::uint64_t g = edge->producer.groups.begin; g < edge->producer.groups.end; ++g) {
        const std::string wrong = missing_signal(edge->producer.stage, g, counter);
        if (wrong.empty()) continue;
        if (is_implied(first_group_[edge->producer.stage] + g, counter, first)) continue;
        return waits + ", " + wrong;
      }
    }
    proven_[need] = counter;
    return {};
  }

  std::string needed_text(std::uint32_t need) const {
    std::uint64_t num = 0;
    for (const Edge* edge : consumers_[need].edges) {
      num += edge->producer.groups.size() * graph_.stages[edge->producer.stage].per_group;
    }
    return std::to_string(num) + " tasks";
  }

  // Which task of a group does not signal the counter once; "" if all do.
  std::string missing_signal(StageId stage, std::uint64_t group, std::uint32_t counter) const {
    const Stage& of = graph_.stages[stage];
    const std::uint32_t last = uniform_[first_group_[stage] + group] ? 1 : of.per_group;
    for (std::uint32_t block = 0; block < last; ++block) {
      const Task& task = graph_.tasks[of.id(static_cast<std::uint32_t>(group), block)];
      const std::uint32_t times = times_signalled(task, counter);
      if (times == 0) return "which " + name(graph_, task) + " does not signal";
      if (times > 1) return "which " + name(graph_, task) + " signals twice";
    }
    return {};
  }

  // Whether who waits on the counter has waited for the group by way of others: a search back along
  // the waits, down to a stage. It serves all groups that this counter is asked for.
  bool is_implied(std::uint64_t group, std::uint32_t counter, StageId first) {
    if (senders_.empty()) list_senders();
    const std::uint64_t from = first_group_[first];
    if (searched_ != counter || from < searched_from_) search(counter, from);
    return seen_[group] == search_ && sent_[group] != search_;  // who sends does so twice
  }

  void search(std::uint32_t counter, std::uint64_t from) {
    searched_ = counter, searched_from_ = from;
    ++search_;
    for (const std::uint32_t sender : senders_[counter]) sent_[sender] = search_;
    std::vector<std::uint32_t> counters{counter};
    while (!counters.empty()) {
      const std::vector<std::uint32_t>& senders = senders_[counters.back()];
      counters.pop_back();
      for (const std::uint32_t sender : senders) {
        if (sender < from || seen_[sender] == search_) continue;
        seen_[sender] = search_;
        const std::uint32_t next = common_wait_[sender];
        if (next == kNoCounter || met_[next] == search_) continue;
        met_[next] = search_;
        counters.push_back(next);
      }
    }
  }

  // Groups all of whose tasks signal a counter, by counter; and what all of a group wait on.
  void list_senders() {
    senders_.resize(graph_.counter_totals.size());
    met_.resize(graph_.counter_totals.size());
    seen_.resize(uniform_.size());
    sent_.resize(uniform_.size());
    common_wait_.resize(uniform_.size());
    for (StageId stage = 0; stage < graph_.stages.size(); ++stage) {
      const Stage& of = graph_.stages[stage];
      for (std::uint32_t group = 0; group < of.groups; ++group) {
        const auto index = static_cast<std::uint32_t>(first_group_[stage] + group);
        common_wait_[index] = common_wait(of, group);
        if (!uniform_[index]) continue;
        graph_.for_each_signal(graph_.tasks[of.id(group, 0)],
                               [&](std::uint32_t c) { senders_[c].push_back(index); });
      }
    }
  }

  // The counter that all tasks of a group wait on, if it is one.
  std::uint32_t common_wait(const Stage& of, std::uint32_t group) const {
    const std::uint32_t counter = graph_.tasks[of.id(group, 0)].wait_counter;
    for (std::uint32_t block = 1; block < of.per_group; ++block) {
      if (graph_.tasks[of.id(group, block)].wait_counter != counter) return kNoCounter;
    }
    return counter < received_.size() ? counter : kNoCounter;
  }

  // --- producers stand in front

  std::optional<Violation> check_order() {
    std::vector<std::uint32_t> last(graph_.counter_totals.size(), 0);  // position of a signaller
    const auto note = [&](const Task& task, std::uint32_t position) {
      graph_.for_each_signal(task, [&](std::uint32_t c) { last[c] = std::max(last[c], position); });
    };
    for (StageId stage = 0; stage < graph_.stages.size(); ++stage) {
      const Stage& of = graph_.stages[stage];
      for (std::uint32_t group = 0; group < of.groups; ++group) {
        const bool uniform = uniform_[first_group_[stage] + group];
        std::uint32_t position = 0;
        for (std::uint32_t block = 0; block < of.per_group; ++block) {
          const std::uint32_t id = of.id(group, block);
          position = uniform ? std::max(position, position_of_[id]) : position_of_[id];
          if (!uniform || block + 1 == of.per_group) note(graph_.tasks[id], position);
        }
      }
    }
    for (std::uint32_t position = 0; position < order_.size(); ++position) {
      const std::uint32_t counter = at(position).wait_counter;
      if (counter == kNoCounter || last[counter] < position) continue;
      return violation(Property::producers_first, position,
                       name(graph_, at(position)) + " waits for " +
                           name(graph_, at(last[counter])) + ", which stands later, at " +
                           std::to_string(last[counter]));
    }
    return std::nullopt;
  }

  const TaskGraph& graph_;
  const std::vector<std::uint32_t>& order_;
  std::vector<std::uint32_t> position_of_;  // by task
  Needs needs_;
  std::vector<Consumer> consumers_;
  std::vector<std::uint64_t> first_group_;           // by stage: groups of all stages before
  std::vector<bool> uniform_;                        // by group: its tasks signal the same
  std::vector<std::uint32_t> need_of_;               // by group, into consumers_
  std::vector<std::uint32_t> proven_;                // by consumer: counter that covers its needs
  std::vector<std::uint64_t> received_;              // by counter: signals in a run
  std::vector<std::vector<std::uint32_t>> senders_;  // by counter: groups
  std::vector<std::uint32_t> common_wait_;           // by group
  std::vector<std::uint32_t> seen_, sent_;           // by group: last search that met it, from it
  std::vector<std::uint32_t> met_;                   // by counter: last search that met it
  std::uint32_t search_ = 0;
  std::uint32_t searched_ = kNobody;  // the last search: its counter, and down to which group
  std::uint64_t searched_from_ = 0;
};

}  // namespace

std::optional<Violation> validate(const TaskGraph& graph, const TaskMapping& mapping) {
  return Validator(graph, mapping).run();
}

}  // namespace megaconv
