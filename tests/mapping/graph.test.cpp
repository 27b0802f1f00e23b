// SPDX-License-Identifier: Apache-2.0
// Tasks and counters: literal small graphs, and the meaning of the window's edges played through.
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using namespace megaconv::test;

TEST_CASE("a windowed graph has these tasks and counters") {
  // 3 groups, one task of each kind; V has one slot, M has two.
  //   counter 0 1 2: G[g] ready   3 4 5: O[g] ready   6 7: I[1], I[2] may overwrite V
  const TaskGraph graph = build_graph(winograd_tiling({.ng = 3, .v_slots = 1, .m_slots = 2}));
  const auto task = [](TaskKind kind, std::uint32_t group, std::uint32_t counter,
                       std::uint32_t count, std::uint32_t first, std::uint32_t num,
                       std::uint32_t release) {
    return Task{kind, group, 0, counter, count, first, num, release};
  };
  using K = TaskKind;
  constexpr std::uint32_t none = kNoCounter;
  const std::vector<Task> expected = {
      task(K::filter_transform, 0, none, 0, 0, 3, none),
      task(K::input_transform, 0, none, 0, 0, 1, none),
      task(K::input_transform, 1, 6, 1, 1, 1, none),
      task(K::input_transform, 2, 7, 1, 2, 1, none),
      task(K::gemm, 0, 0, 2, 3, 1, 6),
      task(K::gemm, 1, 1, 2, 4, 1, 7),
      task(K::gemm, 2, 2, 3, 5, 1, none),  // F, I[2], and O[0], which frees the M slot
      task(K::output_transform, 0, 3, 1, 0, 0, 2),
      task(K::output_transform, 1, 4, 1, 0, 0, none),
      task(K::output_transform, 2, 5, 1, 0, 0, none),
  };
  CHECK(graph.tasks == expected);
  CHECK(graph.counter_totals == std::vector<std::uint32_t>{2, 2, 3, 1, 1, 1, 1, 1});
}

TEST_CASE("whole tensors need no counters for their slots") {
  const TaskGraph graph = build_graph(winograd_tiling({.ng = 3, .nf = 0, .si = 2, .sg = 3}));
  CHECK(graph.counter_totals == std::vector<std::uint32_t>{2, 2, 2, 3, 3, 3});
  for (const Task& task : graph.tasks) CHECK(task.release_counter == kNoCounter);
}

TEST_CASE("direct tasks wait for the filters and for nothing else") {
  const TaskGraph graph = build_graph(direct_tiling({.ng = 2, .nf = 3, .sg = 2}));
  CHECK(names(graph, {0, 1, 2, 3, 4, 5, 6}) == "F[0] F[1] F[2] D[0,0] D[0,1] D[1,0] D[1,1]");
  CHECK(graph.counter_totals == std::vector<std::uint32_t>{3});
  CHECK(graph.tasks[0] == Task{.signal_first = 0, .signal_count = 1});
  CHECK(graph.tasks[6] ==
        Task{.kind = TaskKind::direct, .group = 1, .block = 1, .wait_counter = 0, .wait_count = 3});

  const TaskGraph prepared = build_graph(direct_tiling({.ng = 2, .nf = 0, .sg = 2}));
  CHECK(prepared.tasks.size() == 4);
  CHECK(prepared.counter_totals.empty());
  CHECK(prepared.tasks[0].wait_counter == kNoCounter);
}

TEST_CASE("a filter graph has the filter tasks alone") {
  for (std::uint32_t nf : {0u, 3u}) {
    for (const Tiling& tiling : {winograd_tiling({.ng = 4, .nf = nf}), direct_tiling({.nf = nf})}) {
      const TaskGraph graph = build_filter_graph(tiling);
      CHECK(graph.tasks.size() == std::max(1u, nf));
      CHECK(graph.counter_totals.empty());
      const TaskMapping mapping = make_mapping(graph, {.policy = Policy::staged});
      CHECK_FALSE(validate(graph, mapping).has_value());
    }
  }
}

TEST_CASE("ids, names and letters agree") {
  const TaskGraph graph =
      build_graph(winograd_tiling({.ng = 5, .nf = 2, .si = 3, .sg = 2, .so = 4}));
  CHECK(name(graph.tasks[graph.filter_id(1)]) == "F[1]");
  CHECK(name(graph.tasks[graph.input_id(3, 2)]) == "I[3,2]");
  CHECK(name(graph.tasks[graph.gemm_id(4, 1)]) == "G[4,1]");
  CHECK(name(graph.tasks[graph.output_id(2, 3)]) == "O[2,3]");
  CHECK(graph.output_id(4, 3) + 1 == graph.tasks.size());
  CHECK(to_string(TaskKind::output_transform) == std::string("output_transform"));
  CHECK(letter(TaskKind::direct) == 'D');
}

// Plays V and M slots through an order: what a task reads must be what its own group wrote, whole.
// Returns the first task that would read or destroy something else.
static std::string first_hazard(const TaskGraph& graph, const std::vector<std::uint32_t>& order) {
  struct Slot {
    std::uint32_t group = 0, written = 0, read = 0;
  };
  const Tiling& t = graph.tiling;
  std::vector<Slot> v(t.v_slots), m(t.m_slots);
  const auto write = [](Slot& slot, const Task& task, std::uint32_t reads) {
    if (slot.group != task.group || slot.written == 0) {  // first writer: the slot must be free
      if (slot.written > 0 && slot.read < reads) return false;
      slot = {.group = task.group};
    }
    ++slot.written;
    return true;
  };
  const auto read = [](Slot& slot, const Task& task, std::uint32_t writes) {
    ++slot.read;
    return slot.group == task.group && slot.written == writes;
  };
  for (std::uint32_t id : order) {
    const Task& task = graph.tasks[id];
    bool fine = true;
    if (task.kind == TaskKind::input_transform) {
      fine = write(v[task.group % t.v_slots], task, t.gemm_tasks);
    } else if (task.kind == TaskKind::gemm) {
      fine = read(v[task.group % t.v_slots], task, t.input_tasks) &&
             write(m[task.group % t.m_slots], task, t.output_tasks);
    } else if (task.kind == TaskKind::output_transform) {
      fine = read(m[task.group % t.m_slots], task, t.gemm_tasks);
    }
    if (!fine) return name(task);
  }
  return {};
}

TEST_CASE("no order that respects the counters reads or overwrites a slot of another group") {
  for (Counts counts : kOddCounts) {
    for (std::uint32_t v_slots : {1u, 2u, 3u, 0u}) {
      for (std::uint32_t m_slots : {1u, 2u, 5u, 0u}) {
        counts.v_slots = v_slots;
        counts.m_slots = m_slots;
        const TaskGraph graph = build_graph(winograd_tiling(counts));
        for (std::uint64_t seed = 0; seed < 8; ++seed) {
          const TaskMapping mapping =
              make_mapping(graph, {.policy = Policy::random_topological, .seed = seed});
          INFO(to_string(graph.tiling) << "seed " << seed);
          REQUIRE(mapping.order.size() == graph.tasks.size());
          CHECK(first_hazard(graph, mapping.order) == "");
        }
      }
    }
  }
}

TEST_CASE("the hazard check itself sees a window that is too small") {
  const TaskGraph graph = build_graph(winograd_tiling({.ng = 3, .v_slots = 2}));
  const TaskMapping staged = make_mapping(graph, {.policy = Policy::staged});
  CHECK(first_hazard(graph, staged.order) == "I[2,0]");
}

TEST_CASE("more tasks than 2^31 are refused") {
  Tiling tiling = winograd_tiling({.ng = 1 << 16, .sg = 1, .so = 1});
  tiling.input_tasks = 1 << 16;  // as the widest problem could have
  CHECK(error_of([&] { build_graph(tiling); }, Status::unsupported) ==
        "4295098369 tasks: must be at most 2^31; use larger groups");
}
