// SPDX-License-Identifier: Apache-2.0
// Tasks and counters: literal small graphs, and the meaning of the window's edges played through.
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

// One line a task that waits, "O[0,0]: G[0,0] G[0,1]".
std::vector<std::string> waits(const TaskGraph& graph) {
  std::vector<std::string> lines;
  for (const Task& task : graph.tasks) {
    if (task.wait_counter == kNoCounter) continue;
    lines.push_back(name(graph, task) + ": " + waits_for(graph, task));
  }
  return lines;
}

// Counts of waits and totals of counters are what the counters receive.
void check_counts(const TaskGraph& graph) {
  std::vector<std::uint32_t> received(graph.counter_totals.size());
  for (const Task& task : graph.tasks) {
    graph.for_each_signal(task, [&](std::uint32_t counter) { ++received.at(counter); });
  }
  CHECK(graph.counter_totals == received);
  for (const Task& task : graph.tasks) {
    const bool waits = task.wait_counter != kNoCounter;
    CHECK(task.wait_count == (waits ? received.at(task.wait_counter) : 0));
  }
}

}  // namespace

TEST_CASE("a windowed graph has these tasks and waits") {
  // 3 groups, one task of each kind; V has one slot, M has two.
  const TaskGraph graph = build_graph(winograd_tiling({.ng = 3, .v_slots = 1, .m_slots = 2}));
  CHECK(names(graph, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) ==
        "F[0] I[0,0] I[1,0] I[2,0] G[0,0] G[1,0] G[2,0] O[0,0] O[1,0] O[2,0]");
  REQUIRE(graph.tasks.size() == 10);
  CHECK(waits(graph) == std::vector<std::string>{
                            "I[1,0]: G[0,0]",  // which has read the slot of V
                            "I[2,0]: G[1,0]",
                            "G[0,0]: F[0] I[0,0]",
                            "G[1,0]: F[0] I[1,0]",
                            "G[2,0]: F[0] I[2,0] O[0,0]",  // O[0] frees the slot of M
                            "O[0,0]: G[0,0]",
                            "O[1,0]: G[1,0]",
                            "O[2,0]: G[2,0]",
                        });
  check_counts(graph);
  // F signals all groups of G in one range; G[0] those of I[1] and O[0], which are two.
  CHECK(graph.tasks[0].num_signals == 1);
  CHECK(graph.signals[graph.tasks[0].first_signal].count == 3);
  CHECK(graph.tasks[4].num_signals == 2);
  CHECK(graph.tasks[9].num_signals == 0);
}

TEST_CASE("counters are numbered in the order of stages and groups, one for each that waits") {
  for (Counts counts : kOddCounts) {
    counts.v_slots = 2;
    const TaskGraph graph = build_graph(winograd_tiling(counts));
    std::uint32_t next = 0, last = kNoCounter;
    for (const Task& task : graph.tasks) {
      if (task.wait_counter == kNoCounter || task.wait_counter == last) continue;
      CHECK(task.wait_counter == next);
      CHECK(task.block == 0);
      last = next++;
    }
    CHECK(next == graph.counter_totals.size());
    check_counts(graph);
  }
}

TEST_CASE("whole tensors need no counters for their slots") {
  const TaskGraph graph = build_graph(winograd_tiling({.ng = 3, .nf = 0, .si = 2, .sg = 3}));
  CHECK(graph.counter_totals == std::vector<std::uint32_t>{2, 2, 2, 3, 3, 3});
  for (const Edge& edge : graph.edges) CHECK_FALSE(edge.reuse);
  for (const Task& task : graph.tasks) {
    if (kind_of(task) == TaskKind::input_transform) CHECK(task.wait_counter == kNoCounter);
    if (kind_of(task) == TaskKind::output_transform) CHECK(task.num_signals == 0);
  }
}

TEST_CASE("direct tasks wait for the filters and for nothing else") {
  const TaskGraph graph = build_graph(direct_tiling({.ng = 2, .nf = 3, .sg = 2}));
  CHECK(names(graph, {0, 1, 2, 3, 4, 5, 6}) == "F[0] F[1] F[2] D[0,0] D[0,1] D[1,0] D[1,1]");
  CHECK(graph.counter_totals == std::vector<std::uint32_t>{3});
  CHECK(graph.signals == std::vector<SignalRange>{{0, 1}});
  CHECK(graph.tasks[0] == Task{.kind = id_of(TaskKind::filter_transform), .num_signals = 1});
  CHECK(graph.tasks[6] == Task{.kind = id_of(TaskKind::direct),
                               .group = 1,
                               .block = 1,
                               .wait_counter = 0,
                               .wait_count = 3});

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
      const TaskMapping mapping = make_mapping(graph, {.policy = "staged"});
      CHECK_FALSE(validate(graph, mapping).has_value());
    }
  }
}

TEST_CASE("ids, names and letters agree") {
  const TaskGraph graph =
      build_graph(winograd_tiling({.ng = 5, .nf = 2, .si = 3, .sg = 2, .so = 4}));
  CHECK(names(graph, {task_id(graph, Role::prepare, 0, 1), task_id(graph, Role::input, 3, 2),
                      task_id(graph, Role::product, 4, 1), task_id(graph, Role::output, 2, 3)}) ==
        "F[1] I[3,2] G[4,1] O[2,3]");
  CHECK(task_id(graph, Role::output, 4, 3) + 1 == graph.tasks.size());
  for (std::uint32_t id = 0; id < graph.tasks.size(); ++id) {
    const Stage& stage = graph.stages[graph.stage_of(id)];
    CHECK(stage.id(graph.tasks[id].group, graph.tasks[id].block) == id);
    CHECK(stage.kind == graph.tasks[id].kind);
    CHECK(&stage == graph.find(0, stage.role));
  }
  CHECK(graph.find(1, Role::product) == nullptr);
  CHECK(build_graph(direct_tiling({})).find(0, Role::output) == nullptr);
  CHECK(to_string(TaskKind::output_transform) == std::string("output_transform"));
  CHECK(letter(TaskKind::direct) == 'D');
}

// Plays V and M slots through an order: what a task reads must be what its own group wrote, whole.
// Returns the first task that would read or destroy something else.
static std::string first_hazard(const Tiling& t, const TaskGraph& graph,
                                const std::vector<std::uint32_t>& order) {
  struct Slot {
    std::uint32_t group = 0, written = 0, read = 0;
  };
  std::vector<Slot> v(t.window()->v_slots), m(t.window()->m_slots);
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
    if (kind_of(task) == TaskKind::input_transform) {
      fine = write(v[task.group % t.window()->v_slots], task, t.gemm_tasks);
    } else if (kind_of(task) == TaskKind::gemm) {
      fine = read(v[task.group % t.window()->v_slots], task, t.input_tasks) &&
             write(m[task.group % t.window()->m_slots], task, t.output_tasks);
    } else if (kind_of(task) == TaskKind::output_transform) {
      fine = read(m[task.group % t.window()->m_slots], task, t.gemm_tasks);
    }
    if (!fine) return name(graph, task);
  }
  return {};
}

TEST_CASE("no order that respects the counters reads or overwrites a slot of another group") {
  for (Counts counts : kOddCounts) {
    for (std::uint32_t v_slots : {1u, 2u, 3u, 0u}) {
      for (std::uint32_t m_slots : {1u, 2u, 5u, 0u}) {
        counts.v_slots = v_slots;
        counts.m_slots = m_slots;
        const Tiling tiling = winograd_tiling(counts);
        const TaskGraph graph = build_graph(tiling);
        for (std::uint64_t seed = 0; seed < 8; ++seed) {
          const TaskMapping mapping =
              make_mapping(graph, {.policy = "random_topological", .seed = seed});
          INFO(to_string(tiling) << "seed " << seed);
          REQUIRE(mapping.order.size() == graph.tasks.size());
          CHECK(first_hazard(tiling, graph, mapping.order) == "");
        }
      }
    }
  }
}

TEST_CASE("the hazard check itself sees a window that is too small") {
  const Tiling tiling = winograd_tiling({.ng = 3, .v_slots = 2});
  const TaskGraph graph = build_graph(tiling);
  const TaskMapping staged = make_mapping(graph, {.policy = "staged"});
  CHECK(first_hazard(tiling, graph, staged.order) == "I[2,0]");
}

// Tasks of the same position share its filters, which caches have room for.
TEST_CASE("the staged order has products of one position after the other, of all groups each") {
  Tiling tiling = make_tiling(parse_problem("n9c40h20k70+nhwc"),
                              {.algorithm = Algorithm::winograd,
                               .m = 2,
                               .group_tiles = 64,
                               .filter_blocks_per_gemm_task = 2,
                               .positions_per_gemm_task = 3},
                              Target{});
  const TaskGraph graph = build_graph(tiling);
  const std::vector<std::uint32_t> order = make_mapping(graph, {.policy = "staged"}).order;
  const Stage& products = *graph.find(0, Role::product);
  REQUIRE(products.groups > 1);
  const std::uint32_t chunks = 6;  // of 16 positions
  REQUIRE(products.per_group == 3 * chunks);
  std::vector<std::uint32_t> expected;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::uint32_t group = 0; group < products.groups; ++group) {
      for (std::uint32_t filters = 0; filters < 3; ++filters) {
        expected.push_back(products.id(group, filters * chunks + chunk));
      }
    }
  }
  const auto first = order.begin() + products.first;
  CHECK(std::vector<std::uint32_t>(first, first + products.num_tasks()) == expected);
  // All else is as it is numbered.
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    const bool is_product = i >= products.first && i < products.first + products.num_tasks();
    if (!is_product) CHECK(order[i] == i);
  }
}

TEST_CASE("more tasks than 2^31 are refused") {
  Tiling tiling = winograd_tiling({.ng = 1 << 16, .sg = 1, .so = 1});
  tiling.input_tasks = 1 << 16;  // as the widest problem could have
  CHECK(error_of([&] { build_graph(tiling); }, Status::unsupported) ==
        "4295098369 tasks: must be at most 2^31; use larger groups");
}
