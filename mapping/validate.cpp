// SPDX-License-Identifier: Apache-2.0
// The proof that a mapping is right.
//
// What each task needs is derived here from the tiling alone (`needs_of`), not from the counters:
// the counters are what is being checked. If every task is there once, every wait counts all that
// the task needs, and all of that stands earlier, then the first unfinished task of the mapping can
// always run: no deadlock, whatever the number of workers, as long as they take positions in order.
#include <algorithm>
#include <array>
#include <vector>

#include "mapping/tiling.hpp"
#include "megaconv/mapping.hpp"

namespace megaconv {
namespace {

// `count` tasks of consecutive ids.
struct IdRange {
  std::uint32_t first = 0, count = 0;
};

// All that one task needs; the same for all tasks of a kind and group.
struct Needs {
  std::array<IdRange, 3> ranges;
  std::uint64_t count() const {
    return std::uint64_t{ranges[0].count} + ranges[1].count + ranges[2].count;
  }
};

class Validator {
 public:
  Validator(const TaskGraph& graph, const TaskMapping& mapping)
      : graph_(graph), tiling_(graph.tiling), order_(mapping.order) {}

  std::optional<Violation> run() {
    if (auto violation = check_permutation()) return violation;
    if (auto violation = check_waits()) return violation;
    return check_order();
  }

 private:
  using Property = Violation::Property;

  static Violation violation(Property property, std::uint64_t position, const std::string& what) {
    return {property, position, "position " + std::to_string(position) + ": " + what};
  }

  Needs needs_of(const Task& task) const {
    const std::uint32_t g = task.group;
    const IdRange filters{graph_.filter_id(0), tiling_.num_filter_tasks};
    const IdRange none;
    const auto gemms = [&](std::uint32_t group) {
      return IdRange{graph_.gemm_id(group, 0), tiling_.gemm_tasks};
    };
    switch (task.kind) {
      case TaskKind::filter_transform:
        return {};
      case TaskKind::input_transform:  // its V slot, if it has one, must have been read
        return {{g >= tiling_.v_slots ? gemms(g - tiling_.v_slots) : none}};
      case TaskKind::gemm:  // U, V, and its M slot must have been read
        return {{filters, IdRange{graph_.input_id(g, 0), tiling_.input_tasks},
                 g >= tiling_.m_slots
                     ? IdRange{graph_.output_id(g - tiling_.m_slots, 0), tiling_.output_tasks}
                     : none}};
      case TaskKind::output_transform:
        return {{gemms(g)}};
      case TaskKind::direct:  // of inputs all
        return {
            {filters, IdRange{graph_.input_id(0, 0), tiling_.num_groups * tiling_.input_tasks}}};
    }
    return {};
  }

  // The task that belongs at `id`, which says its kind, group and block.
  Task expected_task(std::uint64_t id) const {
    const auto task = [](TaskKind kind, std::uint64_t index, std::uint32_t of_group) {
      Task result;
      result.kind = kind;
      result.group = static_cast<std::uint32_t>(index / of_group);
      result.block = static_cast<std::uint32_t>(index % of_group);
      return result;
    };
    const std::uint64_t groups = tiling_.num_groups;
    if (id < tiling_.num_filter_tasks) {
      return task(TaskKind::filter_transform, id, tiling_.num_filter_tasks);
    }
    id -= tiling_.num_filter_tasks;
    if (id < groups * tiling_.input_tasks) {
      return task(TaskKind::input_transform, id, tiling_.input_tasks);
    }
    id -= groups * tiling_.input_tasks;
    if (id < groups * tiling_.gemm_tasks) {
      const bool direct = tiling_.algorithm != Algorithm::winograd;
      return task(direct ? TaskKind::direct : TaskKind::gemm, id, tiling_.gemm_tasks);
    }
    return task(TaskKind::output_transform, id - groups * tiling_.gemm_tasks, tiling_.output_tasks);
  }

  std::optional<Violation> check_permutation() {
    const std::uint64_t num = graph_.tasks.size();
    if (num != num_tasks(tiling_)) {
      return violation(Property::permutation, 0,
                       "the graph has " + std::to_string(num) + " tasks, its tiling makes " +
                           std::to_string(num_tasks(tiling_)));
    }
    position_of_.assign(num, kNowhere);
    for (std::uint64_t position = 0; position < order_.size(); ++position) {
      const std::uint32_t id = order_[position];
      if (id >= num) {
        return violation(
            Property::permutation, position,
            "task " + std::to_string(id) + " does not exist, there are " + std::to_string(num));
      }
      if (position_of_[id] != kNowhere) {
        return violation(Property::permutation, position,
                         name(graph_.tasks[id]) + " stands also earlier, at " +
                             std::to_string(position_of_[id]));
      }
      const Task& task = graph_.tasks[id];
      const Task expected = expected_task(id);
      if (task.kind != expected.kind || task.group != expected.group ||
          task.block != expected.block) {
        return violation(
            Property::permutation, position,
            "task " + std::to_string(id) + " is " + name(task) + ", must be " + name(expected));
      }
      position_of_[id] = static_cast<std::uint32_t>(position);
    }
    if (order_.size() == num) return std::nullopt;
    const auto missing = std::find(position_of_.begin(), position_of_.end(), kNowhere);
    return violation(Property::permutation, order_.size(),
                     name(graph_.tasks[static_cast<std::size_t>(missing - position_of_.begin())]) +
                         " is missing");
  }

  std::optional<Violation> check_waits() {
    for (std::uint64_t position = 0; position < order_.size(); ++position) {
      const Task& task = graph_.tasks[order_[position]];
      if (const std::string wrong = wrong_signals(task); !wrong.empty()) {
        return violation(Property::complete_waits, position, name(task) + " " + wrong);
      }
    }
    count_signals();
    find_common_filter_signals();
    checked_.assign(kNumTaskKinds * std::size_t{tiling_.num_groups} + 1, kNoCounter);
    for (std::uint64_t position = 0; position < order_.size(); ++position) {
      const Task& task = graph_.tasks[order_[position]];
      if (const std::string wrong = wrong_wait(task); !wrong.empty()) {
        return violation(Property::complete_waits, position, name(task) + " " + wrong);
      }
    }
    return std::nullopt;
  }

  // What is wrong with the counters that a task signals; "" when they exist.
  std::string wrong_signals(const Task& task) const {
    const std::uint64_t num_counters = graph_.counter_totals.size();
    const std::string there_are = ", there are " + std::to_string(num_counters);
    const std::uint64_t end = std::uint64_t{task.signal_first} + task.signal_count;
    if (task.signal_count > 0 && end > num_counters) {
      return "signals counter " + std::to_string(end - 1) + there_are;
    }
    if (task.release_counter != kNoCounter && task.release_counter >= num_counters) {
      return "signals counter " + std::to_string(task.release_counter) + there_are;
    }
    return {};
  }

  // How many signals each counter really receives in a run.
  void count_signals() {
    std::vector<std::int64_t> change(graph_.counter_totals.size() + 1);
    for (const Task& task : graph_.tasks) {
      if (task.signal_count > 0) {
        ++change[task.signal_first];
        --change[task.signal_first + task.signal_count];
      }
      if (task.release_counter != kNoCounter) {
        ++change[task.release_counter];
        --change[task.release_counter + 1];
      }
    }
    received_.resize(graph_.counter_totals.size());
    std::int64_t running = 0;
    for (std::size_t c = 0; c < received_.size(); ++c) {
      running += change[c];
      received_[c] = static_cast<std::uint64_t>(running);
    }
  }

  // The counters [begin, end) that every filter task signals, once: with them, a group's need of
  // all filters is checked in one step instead of NF.
  void find_common_filter_signals() {
    filters_begin_ = 0;
    filters_end_ = graph_.counter_totals.size();
    for (std::uint32_t f = 0; f < tiling_.num_filter_tasks; ++f) {
      const Task& task = graph_.tasks[graph_.filter_id(f)];
      filters_begin_ = std::max<std::uint64_t>(filters_begin_, task.signal_first);
      filters_end_ = std::min(filters_end_, std::uint64_t{task.signal_first} + task.signal_count);
      if (task.release_counter != kNoCounter) filters_end_ = 0;
    }
  }

  bool signalled_by_all(const IdRange& producers, std::uint32_t counter) const {
    return producers.first == 0 && producers.count == tiling_.num_filter_tasks &&
           filters_begin_ <= counter && counter < filters_end_;
  }

  static std::uint32_t signals(const Task& task, std::uint32_t counter) {
    const bool in_range =
        counter >= task.signal_first && counter - task.signal_first < task.signal_count;
    return std::uint32_t{in_range} + std::uint32_t{task.release_counter == counter};
  }

  // What is wrong with the counter that a task waits on; "" when it counts exactly what the task
  // needs.
  std::string wrong_wait(const Task& task) {
    const std::uint32_t counter = task.wait_counter;
    std::uint32_t& checked = checked_[group_index(task)];
    if (counter != kNoCounter && checked == counter && task.wait_count == received_[counter]) {
      return {};  // as for the task before, of the same kind and group
    }
    const Needs needs = needs_of(task);
    const std::string needed = std::to_string(needs.count()) + " tasks";
    if (counter == kNoCounter) {
      return needs.count() == 0 ? "" : "waits for nothing, needs " + needed;
    }
    const std::string waits = "waits on counter " + std::to_string(counter);
    if (counter >= received_.size()) {
      return waits + ", there are " + std::to_string(received_.size());
    }
    if (task.wait_count != needs.count() || needs.count() == 0) {
      return waits + " for " + std::to_string(task.wait_count) + " signals, needs " + needed;
    }
    for (const IdRange& range : needs.ranges) {
      if (signalled_by_all(range, counter)) continue;
      for (std::uint32_t id = range.first; id < range.first + range.count; ++id) {
        const std::uint32_t times = signals(graph_.tasks[id], counter);
        if (times == 0) return waits + ", which " + name(graph_.tasks[id]) + " does not signal";
        if (times > 1) return waits + ", which " + name(graph_.tasks[id]) + " signals twice";
      }
    }
    if (received_[counter] != needs.count()) {
      return waits + ", which receives " + std::to_string(received_[counter]) +
             " signals in a run, needs " + needed;
    }
    if (graph_.counter_totals[counter] != received_[counter]) {
      return waits + ", whose total is given as " + std::to_string(graph_.counter_totals[counter]) +
             ", needs " + needed;
    }
    checked = counter;
    return {};
  }

  // Tasks of one kind and group need the same producers, so only the first of them in the mapping
  // has to be looked at.
  std::optional<Violation> check_order() {
    std::uint32_t last_filter = 0;
    for (std::uint32_t f = 0; f < tiling_.num_filter_tasks; ++f) {
      last_filter = std::max(last_filter, position_of_[graph_.filter_id(f)]);
    }
    std::vector<bool> seen(checked_.size());
    for (std::uint32_t position = 0; position < order_.size(); ++position) {
      const Task& task = graph_.tasks[order_[position]];
      if (seen[group_index(task)]) continue;
      seen[group_index(task)] = true;
      for (const IdRange& range : needs_of(task).ranges) {
        const bool filters = range.first == 0 && tiling_.num_filter_tasks > 0;
        if (filters && last_filter < position) continue;
        for (std::uint32_t id = range.first; id < range.first + range.count; ++id) {
          if (position_of_[id] < position) continue;
          return violation(Property::producers_first, position,
                           name(task) + " waits for " + name(graph_.tasks[id]) +
                               ", which stands later, at " + std::to_string(position_of_[id]));
        }
      }
    }
    return std::nullopt;
  }

  std::size_t group_index(const Task& task) const {
    return static_cast<std::size_t>(task.kind) * tiling_.num_groups + task.group;
  }

  static constexpr std::uint32_t kNowhere = 0xffffffffu;
  const TaskGraph& graph_;
  const Tiling& tiling_;
  const std::vector<std::uint32_t>& order_;
  std::vector<std::uint32_t> position_of_;  // by task id
  std::vector<std::uint64_t> received_;     // signals in a run, by counter
  std::uint64_t filters_begin_ = 0, filters_end_ = 0;
  std::vector<std::uint32_t> checked_;  // by kind and group: counter found right for its tasks
};

}  // namespace

std::optional<Violation> validate(const TaskGraph& graph, const TaskMapping& mapping) {
  return Validator(graph, mapping).run();
}

}  // namespace megaconv
