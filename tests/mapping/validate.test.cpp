// SPDX-License-Identifier: Apache-2.0
// Each fault that a mapping or a graph can have is found, for the right reason, at its position.
#include <algorithm>

#include "mapping/policies.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

using Property = Violation::Property;

// 4 groups of 2 : 2 : 2 with one filter task, 2 slots of V and of M, depth-first:
//   0 F[0]   1 I[0,0]  2 I[0,1]  3 G[0,0]  4 G[0,1]  5 O[0,0]  6 O[0,1]   7 I[1,0] ...
//   13 I[2,0] ... 19 I[3,0] 20 I[3,1] 21 G[3,0] 22 G[3,1] 23 O[3,0] 24 O[3,1]
struct Sample {
  TaskGraph graph = build_graph(
      winograd_tiling({.ng = 4, .nf = 1, .si = 2, .sg = 2, .so = 2, .v_slots = 2, .m_slots = 2}));
  TaskMapping mapping = make_mapping(graph, {.policy = Policy::depth_first});

  Task& at(std::size_t position) { return graph.tasks[mapping.order[position]]; }

  // "PROPERTY@POSITION MESSAGE"
  std::string verdict() const {
    const auto violation = validate(graph, mapping);
    if (!violation) return "right";
    const char* const names[] = {"permutation", "complete_waits", "producers_first"};
    return std::string(names[static_cast<int>(violation->property)]) + "@" +
           std::to_string(violation->position) + " " + violation->message;
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

TEST_CASE("a graph whose tasks are not those of its tiling breaks the permutation") {
  Sample same_work;
  same_work.at(4).block = 0;  // G[0,0] twice, G[0,1] never
  CHECK(same_work.verdict() == "permutation@4 position 4: task 10 is G[0,0], must be G[0,1]");

  Sample other_kind;
  other_kind.at(3).kind = TaskKind::direct;
  CHECK(other_kind.verdict() == "permutation@3 position 3: task 9 is D[0,0], must be G[0,0]");

  Sample shorter;
  shorter.graph.tasks.pop_back();
  CHECK(shorter.verdict() ==
        "permutation@0 position 0: the graph has 24 tasks, its tiling makes 25");
}

TEST_CASE("a wait that does not count all producers is incomplete") {
  Sample too_small;
  too_small.at(3).wait_count = 2;  // would run before one of F[0], I[0,0], I[0,1]
  CHECK(too_small.verdict() ==
        "complete_waits@3 position 3: G[0,0] waits on counter 0 for 2 signals, needs 3 tasks");

  Sample second_of_group;
  second_of_group.at(4).wait_count = 2;
  CHECK(second_of_group.verdict() ==
        "complete_waits@4 position 4: G[0,1] waits on counter 0 for 2 signals, needs 3 tasks");

  Sample too_large;  // would wait for ever
  too_large.at(5).wait_count = 3;
  CHECK(too_large.verdict() ==
        "complete_waits@5 position 5: O[0,0] waits on counter 4 for 3 signals, needs 2 tasks");

  Sample no_wait;
  no_wait.at(5).wait_counter = kNoCounter;
  CHECK(no_wait.verdict() ==
        "complete_waits@5 position 5: O[0,0] waits for nothing, needs 2 tasks");

  Sample needless;
  needless.at(1).wait_counter = 4;
  CHECK(needless.verdict() ==
        "complete_waits@1 position 1: I[0,0] waits on counter 4 for 0 signals, needs 0 tasks");
}

TEST_CASE("a wait on the wrong counter is incomplete") {
  Sample other_group;
  other_group.at(5).wait_counter = 5;
  CHECK(other_group.verdict() ==
        "complete_waits@5 position 5: O[0,0] waits on counter 5, which G[0,0] does not signal");

  Sample no_such_counter;
  no_such_counter.at(5).wait_counter = 99;
  CHECK(no_such_counter.verdict() ==
        "complete_waits@5 position 5: O[0,0] waits on counter 99, there are 10");
}

TEST_CASE("a signal that is missing, doubled or misdirected makes a wait incomplete") {
  Sample missing;
  missing.at(2).signal_count = 0;  // I[0,1]
  CHECK(missing.verdict() ==
        "complete_waits@3 position 3: G[0,0] waits on counter 0, which I[0,1] does not signal");

  Sample filter;
  filter.at(0).signal_count = 3;  // groups 0 to 2 only
  CHECK(filter.verdict() ==
        "complete_waits@21 position 21: G[3,0] waits on counter 3, which F[0] does not signal");

  Sample doubled;
  doubled.at(2).release_counter = 0;
  CHECK(doubled.verdict() ==
        "complete_waits@3 position 3: G[0,0] waits on counter 0, which I[0,1] signals twice");

  Sample stranger;  // G[1,*] would start one signal early
  stranger.at(24).release_counter = 1;
  CHECK(stranger.verdict() ==
        "complete_waits@9 position 9: G[1,0] waits on counter 1, which receives 4 signals in a "
        "run, needs 3 tasks");

  Sample outside;
  outside.at(0).signal_count = 11;
  CHECK(outside.verdict() == "complete_waits@0 position 0: F[0] signals counter 10, there are 10");
  outside.at(0) = {.signal_first = 0xffffffff, .signal_count = 0xffffffff};
  CHECK_THAT(outside.verdict(), ContainsSubstring("complete_waits@0 "));

  Sample release_outside;
  release_outside.at(24).release_counter = 10;
  CHECK(release_outside.verdict() ==
        "complete_waits@24 position 24: O[3,1] signals counter 10, there are 10");

  Sample total;
  total.graph.counter_totals[4] = 3;
  CHECK(total.verdict() ==
        "complete_waits@5 position 5: O[0,0] waits on counter 4, whose total is given as 3, needs "
        "2 tasks");
}

TEST_CASE("a slot that is freed by nobody makes a wait incomplete") {
  Sample v_slot;
  v_slot.at(13).wait_counter = kNoCounter;  // I[2,0] would overwrite the V of group 0
  CHECK(v_slot.verdict() ==
        "complete_waits@13 position 13: I[2,0] waits for nothing, needs 2 tasks");

  Sample m_slot;
  m_slot.at(6).release_counter = kNoCounter;  // O[0,1] does not free the M of group 0
  CHECK(m_slot.verdict() ==
        "complete_waits@15 position 15: G[2,0] waits on counter 2, which O[0,1] does not signal");

  // A graph built for whole tensors, run in a window.
  Sample whole;
  whole.graph = build_graph(winograd_tiling({.ng = 4, .nf = 1, .si = 2, .sg = 2, .so = 2}));
  CHECK(whole.verdict() == "right");
  whole.graph.tiling.v_slots = 2;
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
    const auto signals = [](const Task& producer, const Task& task) {
      return task.wait_counter - producer.signal_first < producer.signal_count;
    };
    TaskMapping mapping{.policy = "any", .options = {}, .order = order_staged(graph)};
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
  sample.mapping = make_mapping(sample.graph, {.policy = Policy::staged});
  CHECK(sample.verdict() ==
        "producers_first@5 position 5: I[2,0] waits for G[0,0], which stands later, at 9");
}

TEST_CASE("a direct task must wait for all filter tasks") {
  Sample sample;
  sample.graph = build_graph(direct_tiling({.ng = 2, .nf = 2, .sg = 2}));
  sample.mapping = make_mapping(sample.graph, {.policy = Policy::staged});
  CHECK(sample.verdict() == "right");
  sample.at(4).wait_count = 1;
  CHECK(sample.verdict() ==
        "complete_waits@4 position 4: D[1,0] waits on counter 0 for 1 signals, needs 2 tasks");
  sample.at(4).wait_count = 2;
  std::swap(sample.mapping.order[1], sample.mapping.order[2]);
  CHECK(sample.verdict() ==
        "producers_first@1 position 1: D[0,0] waits for F[1], which stands later, at 2");
}

TEST_CASE("every single missing signal and every single short wait is found, on every shape") {
  for (Counts counts : kOddCounts) {
    counts.v_slots = 2;
    counts.m_slots = 3;
    TaskGraph graph = build_graph(winograd_tiling(counts));
    const TaskMapping mapping = make_mapping(graph, {.policy = Policy::depth_first});
    REQUIRE_FALSE(validate(graph, mapping).has_value());
    const auto breaks = [&](Task& task, auto change) {
      const Task kept = task;
      change(task);
      if (task == kept) return true;
      const auto violation = validate(graph, mapping);
      task = kept;
      return violation && violation->property == Property::complete_waits;
    };
    for (Task& task : graph.tasks) {
      INFO(to_string(graph.tiling) << name(task));
      CHECK(breaks(task, [](Task& t) { t.signal_count -= t.signal_count > 0 ? 1 : 0; }));
      CHECK(breaks(task, [](Task& t) { t.release_counter = kNoCounter; }));
      CHECK(breaks(task, [](Task& t) { t.wait_count -= t.wait_count > 0 ? 1 : 0; }));
      CHECK(breaks(task, [](Task& t) { t.wait_counter = kNoCounter; }));
    }
  }
}

TEST_CASE("smallest_window is the smallest that validates, and every larger one does") {
  for (const Counts& counts : kOddCounts) {
    const TaskGraph whole = build_graph(winograd_tiling(counts));
    for (Policy policy : kPolicies) {
      const TaskMapping mapping =
          make_mapping(whole, {.policy = policy, .seed = 3}, {.workers = 3});
      const Window least = smallest_window(whole, mapping);
      const auto fits = [&](std::uint32_t v_slots, std::uint32_t m_slots) {
        Tiling tiling = whole.tiling;
        tiling.v_slots = v_slots;
        tiling.m_slots = m_slots;
        return !validate(build_graph(tiling), mapping).has_value();
      };
      INFO(to_string(whole.tiling)
           << to_string(policy) << ": " << least.v_slots << ", " << least.m_slots);
      for (std::uint32_t slots = 1; slots <= counts.ng; ++slots) {
        if (slots >= least.v_slots) CHECK(fits(slots, counts.ng));
        if (slots >= least.m_slots) CHECK(fits(counts.ng, slots));
      }
      if (least.v_slots > 1) CHECK_FALSE(fits(least.v_slots - 1, counts.ng));
      if (least.m_slots > 1) CHECK_FALSE(fits(counts.ng, least.m_slots - 1));
    }
  }
}

TEST_CASE("stats count distances, live groups and bytes") {
  const TaskGraph graph =
      build_graph(winograd_tiling({.ng = 4, .nf = 1, .si = 2, .sg = 2, .so = 2}));
  const auto of = [&](Policy policy) {
    return stats(graph, make_mapping(graph, {.policy = policy}));
  };
  const std::uint64_t v = graph.tiling.v_slot_bytes(), m = graph.tiling.m_slot_bytes();

  const MappingStats staged = of(Policy::staged);
  CHECK(staged.least_dig == 7);  // I[0,1] at 2, G[0,0] at 9
  CHECK(staged.least_dgo == 7);
  CHECK(staged.live_v_groups == 4);
  CHECK(staged.live_m_groups == 4);
  CHECK(staged.live_bytes == std::max(4 * v + m, v + 4 * m));

  const MappingStats depth_first = of(Policy::depth_first);
  CHECK(depth_first.least_dig == 1);
  CHECK(depth_first.least_dgo == 1);
  CHECK(depth_first.live_v_groups == 1);
  CHECK(depth_first.live_m_groups == 1);
  CHECK(depth_first.live_bytes == v + m);
}
