// SPDX-License-Identifier: Apache-2.0
// Each fault that a mapping or a graph can have is found, for the right reason, at its position.
#include <algorithm>

#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace megaconv::test {
namespace {

std::vector<SignalRange> ranges_of(const TaskGraph& graph, const Task& task) {
  const auto first = graph.signals.begin() + task.first_signal;
  return {first, first + task.num_signals};
}

// Totals and waits as the signals say.
void recount(TaskGraph& graph) {
  std::fill(graph.counter_totals.begin(), graph.counter_totals.end(), 0u);
  for (const Task& task : graph.tasks) {
    graph.for_each_signal(task, [&](std::uint32_t c) { ++graph.counter_totals.at(c); });
  }
  for (Task& task : graph.tasks) {
    if (task.wait_counter != kNoCounter) task.wait_count = graph.counter_totals[task.wait_counter];
  }
}

// Whether who waits on the counter has waited for the task, step by step along the waits.
bool waits_by_way_of_others(const TaskGraph& graph, std::uint32_t counter, std::uint32_t wanted) {
  std::vector<std::vector<std::uint32_t>> signallers(graph.counter_totals.size());
  for (std::uint32_t id = 0; id < graph.tasks.size(); ++id) {
    graph.for_each_signal(graph.tasks[id], [&](std::uint32_t c) { signallers[c].push_back(id); });
  }
  std::vector<bool> seen(signallers.size());
  std::vector<std::uint32_t> counters{counter};
  while (!counters.empty()) {
    const std::uint32_t at = counters.back();
    counters.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    for (const std::uint32_t id : signallers[at]) {
      if (id == wanted) return true;
      if (graph.tasks[id].wait_counter != kNoCounter) {
        counters.push_back(graph.tasks[id].wait_counter);
      }
    }
  }
  return false;
}

std::vector<std::string> first_waiters(const TaskGraph& graph) {
  std::vector<std::string> names(graph.counter_totals.size());
  for (const Task& task : graph.tasks) {
    if (task.wait_counter == kNoCounter || !names[task.wait_counter].empty()) continue;
    names[task.wait_counter] = name(graph, task);
  }
  return names;
}

}  // namespace
}  // namespace megaconv::test

namespace {

using Property = Violation::Property;

// 4 groups of 2 : 2 : 2 with one filter task, 2 slots of V and of M, depth-first:
//   0 F[0]   1 I[0,0]  2 I[0,1]  3 G[0,0]  4 G[0,1]  5 O[0,0]  6 O[0,1]   7 I[1,0] ...
//   13 I[2,0] ... 19 I[3,0] 20 I[3,1] 21 G[3,0] 22 G[3,1] 23 O[3,0] 24 O[3,1]
struct Sample {
  TaskGraph graph = build_graph(
      winograd_tiling({.ng = 4, .nf = 1, .si = 2, .sg = 2, .so = 2, .v_slots = 2, .m_slots = 2}));
  TaskMapping mapping = make_mapping(graph, {.policy = "depth_first"});

  std::vector<std::string> waiter_of = first_waiters(graph);  // by counter, before any fault

  Task& at(std::size_t position) { return graph.tasks[mapping.order[position]]; }

  // The counter on which the task of this name waits.
  std::uint32_t counter_of(const std::string& task) const {
    const auto found = std::find(waiter_of.begin(), waiter_of.end(), task);
    REQUIRE(found != waiter_of.end());
    return static_cast<std::uint32_t>(found - waiter_of.begin());
  }

  // The task signals these counters only.
  void set_signals(Task& task, const std::vector<SignalRange>& ranges) {
    task.first_signal = static_cast<std::uint32_t>(graph.signals.size());
    task.num_signals = static_cast<std::uint32_t>(ranges.size());
    graph.signals.insert(graph.signals.end(), ranges.begin(), ranges.end());
  }
  void add_signal(Task& task, std::uint32_t counter) {
    std::vector<SignalRange> ranges = ranges_of(graph, task);
    ranges.push_back({counter, 1});
    set_signals(task, ranges);
  }

  void recount() { test::recount(graph); }

  // "PROPERTY@POSITION MESSAGE", in which a counter is named after the first that waits on it.
  std::string verdict() const {
    const auto violation = validate(graph, mapping);
    if (!violation) return "right";
    const char* const names[] = {"permutation", "regions", "complete_waits", "producers_first"};
    std::string message = violation->message;
    for (std::uint32_t c = static_cast<std::uint32_t>(waiter_of.size()); c-- > 0;) {
      const std::string number = "on counter " + std::to_string(c);
      const std::size_t at = message.find(number), end = at + number.size();
      const bool is_digit = end < message.size() && message[end] >= '0' && message[end] <= '9';
      if (at == std::string::npos || is_digit) continue;
      message.replace(at, number.size(), "on the counter of " + waiter_of[c]);
      break;
    }
    return std::string(names[static_cast<int>(violation->property)]) + "@" +
           std::to_string(violation->position) + " " + message;
  }
};

}  // namespace

TEST_CASE("a right mapping is right") { CHECK(Sample().verdict() == "right"); }

TEST_CASE("a task that stands twice, is missing or does not exist breaks the permutation") {
  Sample twice;
  twice.mapping.order[6] = twice.mapping.order[5];
  CHECK(twice.verdict() == "permutation@6 position 6: O[0,0] stands also earlier, at 5");

  Sample missing;
  missing.mapping.order.pop_back();
  CHECK(missing.verdict() == "permutation@24 position 24: O[3,1] is missing");

  Sample empty;
  empty.mapping.order.clear();
  CHECK(empty.verdict() == "permutation@0 position 0: F[0] is missing");

  Sample unknown;
  unknown.mapping.order[7] = 25;
  CHECK(unknown.verdict() == "permutation@7 position 7: task 25 does not exist, there are 25");

  Sample more;
  more.mapping.order.push_back(3);
  CHECK(more.verdict() == "permutation@25 position 25: I[1,0] stands also earlier, at 7");
}

TEST_CASE("a graph whose tasks are not those of its stages breaks the permutation") {
  Sample same_work;
  same_work.at(4).block = 0;  // G[0,0] twice, G[0,1] never
  CHECK(same_work.verdict() == "permutation@4 position 4: task 10 is G[0,0], must be G[0,1]");

  Sample other_kind;
  other_kind.at(3).kind = id_of(TaskKind::direct);
  CHECK(other_kind.verdict() == "permutation@3 position 3: task 9 is D[0,0], must be G[0,0]");

  Sample shorter;
  shorter.graph.tasks.pop_back();
  CHECK(shorter.verdict() ==
        "permutation@0 position 0: the graph has 24 tasks, its stages have 25");

  Sample other_node;
  other_node.at(3).node = 1;
  CHECK_THAT(other_node.verdict(), ContainsSubstring("permutation@3 position 3: task 9 is "));

  Sample gap;
  gap.graph.stages[2].first = 10;
  CHECK(gap.verdict() ==
        "permutation@0 position 0: a stage begins at task 10, must at 9, of a node and kind that "
        "exist");

  Sample no_such_kind;
  no_such_kind.graph.stages[2].kind = 99;
  CHECK_THAT(no_such_kind.verdict(), ContainsSubstring("permutation@0 position 0: a stage begins"));
}

TEST_CASE("a wait that does not count all producers is incomplete") {
  Sample too_small;
  too_small.at(3).wait_count = 2;  // would run before one of F[0], I[0,0], I[0,1]
  CHECK(too_small.verdict() ==
        "complete_waits@3 position 3: G[0,0] waits on the counter of G[0,0] for 2 signals, which "
        "receives 3");

  Sample second_of_group;
  second_of_group.at(4).wait_count = 2;
  CHECK(second_of_group.verdict() ==
        "complete_waits@4 position 4: G[0,1] waits on the counter of G[0,0] for 2 signals, which "
        "receives 3");

  Sample too_large;  // would wait for ever
  too_large.at(5).wait_count = 3;
  CHECK(too_large.verdict() ==
        "complete_waits@5 position 5: O[0,0] waits on the counter of O[0,0] for 3 signals, which "
        "receives 2");

  Sample no_wait;
  no_wait.at(5).wait_counter = kNoCounter;
  CHECK(no_wait.verdict() ==
        "complete_waits@5 position 5: O[0,0] waits for nothing, needs 2 tasks");

  Sample needless;
  needless.at(1).wait_counter = needless.counter_of("O[0,0]");
  CHECK(needless.verdict() ==
        "complete_waits@1 position 1: I[0,0] waits on the counter of O[0,0] for 0 signals, which "
        "receives 2");
  needless.at(1).wait_count = 2;
  CHECK(needless.verdict() ==
        "complete_waits@1 position 1: I[0,0] waits on the counter of O[0,0], needs nothing");
}

TEST_CASE("a wait on the wrong counter is incomplete") {
  Sample other_group;
  other_group.at(5).wait_counter = other_group.counter_of("O[1,0]");
  CHECK(other_group.verdict() ==
        "complete_waits@5 position 5: O[0,0] waits on the counter of O[1,0], which G[0,0] does not "
        "signal");

  Sample no_such_counter;
  no_such_counter.at(5).wait_counter = 99;
  CHECK(no_such_counter.verdict() ==
        "complete_waits@5 position 5: O[0,0] waits on counter 99, there are 10");
}

TEST_CASE("a signal that is missing, doubled or misdirected makes a wait incomplete") {
  Sample missing;
  missing.at(2).num_signals = 0;  // I[0,1]
  CHECK(missing.verdict() ==
        "complete_waits@3 position 3: G[0,0] waits on the counter of G[0,0] for 3 signals, which "
        "receives 2");
  missing.recount();  // so that all numbers agree
  CHECK(missing.verdict() ==
        "complete_waits@3 position 3: G[0,0] waits on the counter of G[0,0], which I[0,1] does not "
        "signal");

  Sample filter;
  REQUIRE(filter.counter_of("G[3,0]") == filter.counter_of("G[0,0]") + 3);
  filter.set_signals(filter.at(0), {{filter.counter_of("G[0,0]"), 3}});  // groups 0 to 2 only
  CHECK(filter.verdict() ==
        "complete_waits@21 position 21: G[3,0] waits on the counter of G[3,0] for 5 signals, which "
        "receives 4");
  filter.recount();  // I[3] has waited for a slot of V until G[1] was done, which waited for F[0]
  CHECK(filter.verdict() == "right");
  filter.set_signals(filter.at(0), {{filter.counter_of("G[0,0]"), 1}});  // nobody implies G[1]'s
  filter.recount();
  CHECK(filter.verdict() ==
        "complete_waits@9 position 9: G[1,0] waits on the counter of G[1,0], which F[0] does not "
        "signal");

  Sample doubled;
  doubled.add_signal(doubled.at(2), doubled.counter_of("G[0,0]"));
  CHECK(doubled.verdict() ==
        "complete_waits@3 position 3: G[0,0] waits on the counter of G[0,0] for 3 signals, which "
        "receives 4");
  doubled.recount();
  CHECK(doubled.verdict() ==
        "complete_waits@3 position 3: G[0,0] waits on the counter of G[0,0], which I[0,1] signals "
        "twice");

  Sample doubled_by_all;  // tasks of a group: no different
  for (const std::size_t position : {1, 2}) {
    doubled_by_all.set_signals(
        doubled_by_all.at(position),
        {{doubled_by_all.counter_of("G[0,0]"), 1}, {doubled_by_all.counter_of("G[0,0]"), 1}});
  }
  doubled_by_all.at(2).first_signal = doubled_by_all.at(1).first_signal;
  doubled_by_all.recount();
  CHECK(doubled_by_all.verdict() ==
        "complete_waits@3 position 3: G[0,0] waits on the counter of G[0,0], which I[0,0] signals "
        "twice");

  Sample stranger;  // G[1,*] would start one signal early
  stranger.add_signal(stranger.at(24), stranger.counter_of("G[1,0]"));
  CHECK(stranger.verdict() ==
        "complete_waits@9 position 9: G[1,0] waits on the counter of G[1,0] for 3 signals, which "
        "receives 4");
  stranger.recount();  // or, counted, wait for a task that stands later
  CHECK(stranger.verdict() ==
        "producers_first@9 position 9: G[1,0] waits for O[3,1], which stands later, at 24");

  Sample itself;
  itself.add_signal(itself.at(9), itself.counter_of("G[1,0]"));
  itself.recount();
  CHECK(itself.verdict() ==
        "producers_first@9 position 9: G[1,0] waits for G[1,0], which stands later, at 9");

  Sample outside;
  outside.set_signals(outside.at(0), {{2, 9}});
  CHECK(outside.verdict() == "complete_waits@0 position 0: F[0] signals counter 10, there are 10");
  outside.set_signals(outside.at(0), {{0xffffffff, 0xffffffff}});
  CHECK_THAT(outside.verdict(), ContainsSubstring("complete_waits@0 "));
  outside.at(0).first_signal = outside.at(0).num_signals = 0xffffffff;
  CHECK_THAT(outside.verdict(), ContainsSubstring("complete_waits@0 ") &&
                                    ContainsSubstring("has signals up to range 8589934590"));

  Sample last_outside;
  last_outside.set_signals(last_outside.at(24), {{10, 1}});
  CHECK(last_outside.verdict() ==
        "complete_waits@24 position 24: O[3,1] signals counter 10, there are 10");

  Sample total;
  total.graph.counter_totals[total.counter_of("O[0,0]")] = 3;
  CHECK(total.verdict() ==
        "complete_waits@5 position 5: O[0,0] waits on the counter of O[0,0], whose total is given "
        "as 3, but receives 2");
}

TEST_CASE("a wait may count more than its task needs, if all of it stands earlier") {
  Sample sample;
  sample.add_signal(sample.at(0), sample.counter_of("O[0,0]"));
  sample.recount();
  CHECK(sample.verdict() == "right");
}

TEST_CASE("a slot that is freed by nobody makes a wait incomplete") {
  Sample v_slot;
  v_slot.at(13).wait_counter = kNoCounter;  // I[2,0] would overwrite the V of group 0
  CHECK(v_slot.verdict() ==
        "complete_waits@13 position 13: I[2,0] waits for nothing, needs 2 tasks");

  Sample m_slot;
  m_slot.at(6).num_signals = 0;  // O[0,1] does not free the M of group 0
  m_slot.recount();
  CHECK(m_slot.verdict() ==
        "complete_waits@15 position 15: G[2,0] waits on the counter of G[2,0], which O[0,1] does "
        "not signal");

  // A graph built for whole tensors, run in a window.
  Sample whole;
  whole.graph = build_graph(winograd_tiling({.ng = 4, .nf = 1, .si = 2, .sg = 2, .so = 2}));
  CHECK(whole.verdict() == "right");
  whole.graph.buffers.at(buffer_id(whole.graph, "V")).slots = 2;
  CHECK(whole.verdict() ==
        "complete_waits@13 position 13: I[2,0] waits for nothing, needs 2 tasks");
}

TEST_CASE("a producer behind its consumer is named with both positions") {
  Sample swapped;
  std::swap(swapped.mapping.order[2], swapped.mapping.order[3]);
  CHECK(swapped.verdict() ==
        "producers_first@2 position 2: G[0,0] waits for I[0,1], which stands later, at 3");

  Sample filter_last;
  std::rotate(filter_last.mapping.order.begin(), filter_last.mapping.order.begin() + 1,
              filter_last.mapping.order.end());
  CHECK(filter_last.verdict() ==
        "producers_first@2 position 2: G[0,0] waits for F[0], which stands later, at 24");

  Sample output_first;
  std::swap(output_first.mapping.order[4], output_first.mapping.order[6]);
  CHECK(output_first.verdict() ==
        "producers_first@4 position 4: O[0,1] waits for G[0,1], which stands later, at 6");
}

TEST_CASE("of all orders of a small graph, the right ones are those with producers first") {
  for (const Counts& counts :
       {Counts{.ng = 2, .nf = 0, .sg = 2}, Counts{.ng = 1, .nf = 2, .si = 2, .sg = 2},
        Counts{.ng = 1, .nf = 0, .si = 3, .sg = 2, .so = 2}, Counts{.ng = 2, .nf = 1}}) {
    const TaskGraph graph = build_graph(winograd_tiling(counts));
    const auto signals = [&](const Task& producer, const Task& task) {
      bool found = false;
      graph.for_each_signal(producer, [&](std::uint32_t c) { found |= c == task.wait_counter; });
      return found;
    };
    TaskMapping mapping = make_mapping(graph, {.policy = "staged"});
    std::uint64_t wrong_verdicts = 0;
    do {
      bool right = true;
      for (std::size_t late = 1; late < mapping.order.size(); ++late) {
        for (std::size_t early = 0; early < late; ++early) {
          const Task& task = graph.tasks[mapping.order[early]];
          const bool waits = task.wait_counter != kNoCounter;
          if (waits && signals(graph.tasks[mapping.order[late]], task)) right = false;
        }
      }
      wrong_verdicts += validate(graph, mapping).has_value() == right;
    } while (std::next_permutation(mapping.order.begin(), mapping.order.end()));
    CAPTURE(counts.ng, counts.nf, counts.si, counts.sg, counts.so);
    CHECK(wrong_verdicts == 0);
  }
}

TEST_CASE("a window smaller than the order's distance puts a producer behind its consumer") {
  Sample sample;
  sample.mapping = make_mapping(sample.graph, {.policy = "staged"});
  CHECK(sample.verdict() ==
        "producers_first@5 position 5: I[2,0] waits for G[0,1], which stands later, at 10");
}

TEST_CASE("a direct task must wait for all filter tasks") {
  Sample sample;
  sample.graph = build_graph(direct_tiling({.ng = 2, .nf = 2, .sg = 2}));
  sample.waiter_of.clear();
  sample.mapping = make_mapping(sample.graph, {.policy = "staged"});
  CHECK(sample.verdict() == "right");
  sample.at(4).wait_count = 1;
  CHECK(sample.verdict() ==
        "complete_waits@4 position 4: D[1,0] waits on counter 0 for 1 signals, which receives 2");
  sample.at(4).wait_count = 2;
  std::swap(sample.mapping.order[1], sample.mapping.order[2]);
  CHECK(sample.verdict() ==
        "producers_first@1 position 1: D[0,0] waits for F[1], which stands later, at 2");
}

TEST_CASE("every single missing signal and every single short wait is found, on every shape") {
  int found = 0;
  for (Counts counts : kOddCounts) {
    counts.v_slots = 2;
    counts.m_slots = 3;
    TaskGraph graph = build_graph(winograd_tiling(counts));
    const TaskMapping mapping = make_mapping(graph, {.policy = "depth_first"});
    REQUIRE_FALSE(validate(graph, mapping).has_value());
    const auto is_incomplete = [&](const TaskGraph& broken) {
      const auto violation = validate(broken, mapping);
      return violation && violation->property == Property::complete_waits;
    };
    const auto breaks = [&](Task& task, auto change) {
      const Task kept = task;
      change(task);
      if (task == kept) return true;
      const bool refused = is_incomplete(graph);
      task = kept;
      return refused;
    };
    for (Task& task : graph.tasks) {
      INFO(to_string(winograd_tiling(counts)) << name(graph, task));
      CHECK(breaks(task, [](Task& t) { t.num_signals -= t.num_signals > 0 ? 1 : 0; }));
      CHECK(breaks(task, [](Task& t) { t.num_signals = 0; }));
      CHECK(breaks(task, [](Task& t) { t.wait_count -= t.wait_count > 0 ? 1 : 0; }));
      CHECK(breaks(task, [](Task& t) { ++t.wait_count; }) == (task.wait_counter != kNoCounter));
      CHECK(breaks(task, [](Task& t) { t.wait_counter = kNoCounter; }));
    }
    // One signal of one task is missing, and all counts agree with that: that is wrong unless who
    // waits has waited for the task by way of others.
    for (std::uint32_t id = 0; id < graph.tasks.size(); ++id) {
      std::vector<std::uint32_t> counters;
      graph.for_each_signal(graph.tasks[id], [&](std::uint32_t c) { counters.push_back(c); });
      for (const std::uint32_t missing : counters) {
        TaskGraph broken = graph;
        Task& task = broken.tasks[id];
        task.first_signal = static_cast<std::uint32_t>(broken.signals.size());
        task.num_signals = 0;
        for (const std::uint32_t c : counters) {
          if (c == missing) continue;
          broken.signals.push_back({c, 1});
          ++task.num_signals;
        }
        recount(broken);
        INFO(to_string(winograd_tiling(counts)) << name(graph, task) << " to " << missing);
        if (waits_by_way_of_others(broken, missing, id)) continue;
        CHECK(is_incomplete(broken));
        ++found;
      }
    }
  }
  CHECK(found > 500);
}

TEST_CASE("smallest_window is the smallest that validates, and every larger one does") {
  for (const Counts& counts : kOddCounts) {
    const TaskGraph whole = build_graph(winograd_tiling(counts));
    const BufferId v = buffer_id(whole, "V"), m = buffer_id(whole, "M");
    for (const std::string& policy : kPolicies) {
      const TaskMapping mapping =
          make_mapping(whole, {.policy = policy, .seed = 3}, {.workers = 3});
      const std::vector<std::uint32_t> least = smallest_window(whole, mapping);
      const auto fits = [&](std::uint32_t v_slots, std::uint32_t m_slots) {
        return !validate(with_slots(whole, v_slots, m_slots), mapping).has_value();
      };
      INFO(to_string(winograd_tiling(counts)) << policy << ": " << least[v] << ", " << least[m]);
      REQUIRE(least.size() == whole.buffers.size());
      for (BufferId buffer = 0; buffer < least.size(); ++buffer) {
        CHECK((least[buffer] > 0) == (buffer == v || buffer == m));
      }
      for (std::uint32_t slots = 1; slots <= counts.ng; ++slots) {
        if (slots >= least[v]) CHECK(fits(slots, counts.ng));
        if (slots >= least[m]) CHECK(fits(counts.ng, slots));
      }
      if (least[v] > 1) CHECK_FALSE(fits(least[v] - 1, counts.ng));
      if (least[m] > 1) CHECK_FALSE(fits(counts.ng, least[m] - 1));
    }
  }
}

TEST_CASE("stats count distances, live groups and bytes") {
  const Tiling tiling = winograd_tiling({.ng = 4, .nf = 1, .si = 2, .sg = 2, .so = 2});
  const TaskGraph graph = build_graph(tiling);
  const auto of = [&](const char* policy) {
    return stats(graph, make_mapping(graph, {.policy = policy}));
  };
  const std::uint64_t v = tiling.v_slot_bytes(), m = tiling.m_slot_bytes();
  const auto live = [&](std::uint32_t v_groups, std::uint32_t m_groups) {
    std::vector<std::uint32_t> groups(graph.buffers.size());
    groups.at(buffer_id(graph, "V")) = v_groups;
    groups.at(buffer_id(graph, "M")) = m_groups;
    return groups;
  };

  const MappingStats staged = of("staged");
  CHECK(staged.least_dig == 7);  // I[0,1] at 2, G[0,0] at 9
  CHECK(staged.least_dgo == 7);
  CHECK(staged.live_groups == live(4, 4));
  CHECK(staged.live_bytes == std::max(4 * v + m, v + 4 * m));

  const MappingStats depth_first = of("depth_first");
  CHECK(depth_first.least_dig == 1);
  CHECK(depth_first.least_dgo == 1);
  CHECK(depth_first.live_groups == live(1, 1));
  CHECK(depth_first.live_bytes == v + m);
}
