// SPDX-License-Identifier: Apache-2.0
// The policies: Algorithm 1 worked by hand, its promises for any parameters, and what every policy
// must keep on every shape.
#include <ctime>
#include <utility>

#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

MappingOptions interleaved(std::uint32_t dig, std::uint32_t dgo, std::uint32_t m_groups) {
  return {.policy = "interleaved", .dig = dig, .dgo = dgo, .m_groups = m_groups};
}

std::string interleaved_names(const Counts& counts, const MappingOptions& options) {
  const TaskGraph graph = build_graph(winograd_tiling(counts));
  return names(graph, make_mapping(graph, options).order);
}

}  // namespace

TEST_CASE("interleaved is Algorithm 1, worked by hand") {
  // DIG = 4 input tasks; then, M = 2: two inputs, a column of two GEMMs, two outputs a step. O[0,*]
  // may stand from position 11 + DGO on, which is in the third step.
  CHECK(interleaved_names({.ng = 4, .nf = 1, .si = 2, .sg = 2, .so = 2}, interleaved(4, 3, 2)) ==
        "F[0] "
        "I[0,0] I[0,1] I[1,0] I[1,1] "
        "I[2,0] I[2,1] G[0,0] G[1,0] "
        "I[3,0] I[3,1] G[0,1] G[1,1] "
        "G[2,0] G[3,0] O[0,0] O[0,1] "
        "G[2,1] G[3,1] O[1,0] O[1,1] "
        "O[2,0] O[2,1] O[3,0] O[3,1]");
}

TEST_CASE("interleaved spreads ratios that are not whole") {
  // SI / SG = 1/3: an input in every third step. SO / SG = 2/3: outputs in two steps of three.
  CHECK(interleaved_names({.ng = 3, .nf = 0, .si = 1, .sg = 3, .so = 2}, interleaved(1, 0, 1)) ==
        "I[0,0] "
        "G[0,0] "
        "G[0,1] "
        "I[1,0] G[0,2] O[0,0] "
        "G[1,0] "
        "G[1,1] O[0,1] "
        "I[2,0] G[1,2] O[1,0] "
        "G[2,0] "
        "G[2,1] O[1,1] "
        "G[2,2] O[2,0] "
        "O[2,1]");
}

TEST_CASE("interleaved takes more inputs first when M groups need more than DIG") {
  CHECK(interleaved_names({.ng = 3, .nf = 0, .si = 2, .sg = 1, .so = 1}, interleaved(0, 0, 1)) ==
        "I[0,0] I[0,1] G[0,0] O[0,0] I[1,0] I[1,1] G[1,0] O[1,0] I[2,0] I[2,1] G[2,0] O[2,0]");
  // The same distance, from inputs that would have come later.
  CHECK(interleaved_names({.ng = 3, .nf = 0, .si = 1, .sg = 1, .so = 1}, interleaved(3, 0, 1)) ==
        "I[0,0] I[1,0] I[2,0] G[0,0] O[0,0] G[1,0] O[1,0] G[2,0] O[2,0]");
}

TEST_CASE("interleaved clamps parameters larger than the problem") {
  const Counts counts{.ng = 3, .nf = 2, .si = 2, .sg = 2, .so = 2};
  const std::string columns =
      "F[0] F[1] I[0,0] I[0,1] I[1,0] I[1,1] I[2,0] I[2,1] "
      "G[0,0] G[1,0] G[2,0] G[0,1] G[1,1] G[2,1] "
      "O[0,0] O[0,1] O[1,0] O[1,1] O[2,0] O[2,1]";
  CHECK(interleaved_names(counts, interleaved(1000000, 1000000, 1000000)) == columns);
  CHECK(interleaved_names(counts, interleaved(0xffffffff, 0xffffffff, 0xffffffff)) == columns);
}

TEST_CASE("blended is Algorithm 1 with its first inputs among the filters, a quarter behind them") {
  const Counts counts{.ng = 3, .nf = 4, .si = 2, .sg = 1, .so = 1};
  const auto blended = [](Counts shape, std::uint32_t dig, std::uint32_t workers) {
    const TaskGraph graph = build_graph(winograd_tiling(shape));
    const MappingOptions options{
        .policy = "blended", .dig = dig, .dgo = 0, .m_groups = 1, .seed = 0};
    return names(graph, make_mapping(graph, options, {.workers = workers}).order);
  };
  CHECK(blended(counts, 4, 7) ==
        "F[0] I[0,0] F[1] I[0,1] F[2] I[1,0] F[3] I[1,1] I[2,0] I[2,1] "
        "G[0,0] O[0,0] G[1,0] O[1,0] G[2,0] O[2,0]");
  // Four inputs are few for eight workers.
  CHECK(blended(counts, 4, 8) ==
        "I[0,0] I[0,1] I[1,0] I[1,1] F[0] F[1] F[2] F[3] I[2,0] I[2,1] "
        "G[0,0] O[0,0] G[1,0] O[1,0] G[2,0] O[2,0]");
  // Four filters are few for nine.
  CHECK(blended(counts, 4, 9) == interleaved_names(counts, interleaved(4, 0, 1)));
  for (const std::uint32_t dig : {0u, 1u, 5u, 100u}) {
    Counts prepared = counts;
    prepared.nf = 0;
    CHECK(blended(prepared, dig, 3) == interleaved_names(prepared, interleaved(dig, 0, 1)));
  }
}

TEST_CASE("interleaved sets direct tasks of the same filters next to each other") {
  const TaskGraph graph = build_graph(direct_tiling({.ng = 3, .nf = 1, .sg = 2}));
  CHECK(names(graph, make_mapping(graph, interleaved(4, 4, 2)).order) ==
        "F[0] D[0,0] D[1,0] D[0,1] D[1,1] D[2,0] D[2,1]");
}

TEST_CASE("interleaved keeps DIG and DGO as long as there is anything left to put in between") {
  for (const Counts& counts : kOddCounts) {
    const TaskGraph graph = build_graph(winograd_tiling(counts));
    for (std::uint32_t dig : {0u, 1u, 3u, 8u, 50u}) {
      for (std::uint32_t dgo : {0u, 2u, 7u, 60u}) {
        for (std::uint32_t m_groups : {1u, 2u, 3u, 100u}) {
          INFO(to_string(winograd_tiling(counts))
               << "dig " << dig << ", dgo " << dgo << ", m_groups " << m_groups);
          const auto order = make_mapping(graph, interleaved(dig, dgo, m_groups)).order;
          std::vector<std::size_t> last_input(counts.ng), last_gemm(counts.ng);
          std::size_t last_of_inputs = 0, last_of_gemms = 0;
          for (std::size_t p = 0; p < order.size(); ++p) {
            const Task& task = graph.tasks[order[p]];
            if (kind_of(task) == TaskKind::input_transform)
              last_of_inputs = last_input[task.group] = p;
            if (kind_of(task) == TaskKind::gemm) last_of_gemms = last_gemm[task.group] = p;
          }
          bool far_enough = true;
          for (std::size_t p = 0; p < order.size(); ++p) {
            const Task& task = graph.tasks[order[p]];
            if (kind_of(task) == TaskKind::gemm && p < last_of_inputs) {
              far_enough &= p - last_input[task.group] >= dig && p > last_input[task.group];
            }
            if (kind_of(task) == TaskKind::output_transform && p < last_of_gemms) {
              far_enough &= p - last_gemm[task.group] >= dgo && p > last_gemm[task.group];
            }
          }
          CHECK(far_enough);
        }
      }
    }
  }
}

TEST_CASE("interleaved holds the proportion of kinds along the mapping") {
  // 200 groups of 3 : 5 : 2. In the body, any 100 positions hold 30 : 50 : 20, give or take what
  // one step of M = 2 groups adds at either end.
  const TaskGraph graph =
      build_graph(winograd_tiling({.ng = 200, .nf = 4, .si = 3, .sg = 5, .so = 2}));
  const auto order = make_mapping(graph, interleaved(16, 16, 2)).order;
  for (std::size_t begin = 200; begin + 100 < order.size() - 200; begin += 10) {
    int num[kNumTaskKinds] = {};
    for (std::size_t p = begin; p < begin + 100; ++p) {
      ++num[graph.tasks[order[p]].kind];
    }
    INFO("from position " << begin);
    CHECK(std::abs(num[1] - 30) <= 2);
    CHECK(std::abs(num[2] - 50) <= 2);
    CHECK(std::abs(num[3] - 20) <= 2);
  }
}

TEST_CASE("depth_first ends each group before the next, staged each stage") {
  const TaskGraph graph =
      build_graph(winograd_tiling({.ng = 2, .nf = 1, .si = 1, .sg = 2, .so = 1}));
  CHECK(names(graph, make_mapping(graph, {.policy = "depth_first"}).order) ==
        "F[0] I[0,0] G[0,0] G[0,1] O[0,0] I[1,0] G[1,0] G[1,1] O[1,0]");
  CHECK(names(graph, make_mapping(graph, {.policy = "staged"}).order) ==
        "F[0] I[0,0] I[1,0] G[0,0] G[0,1] G[1,0] G[1,1] O[0,0] O[1,0]");
}

TEST_CASE("critical_path starts what the longest path hangs on") {
  // One V slot: each group's chain hangs on the chain before, so the first group is most urgent.
  const TaskGraph graph = build_graph(winograd_tiling({.ng = 3, .nf = 1, .v_slots = 1}));
  CHECK(names(graph, make_mapping(graph, {.policy = "critical_path"}).order) ==
        "F[0] I[0,0] G[0,0] I[1,0] G[1,0] I[2,0] G[2,0] O[0,0] O[1,0] O[2,0]");
}

TEST_CASE("critical_path weighs tasks, not only counts them") {
  // One M slot: GEMMs and outputs form one chain, G[0] O[0] G[1] ..., which is more urgent than the
  // input of a later group; an output that hangs on as much as an input comes after it, by id.
  const TaskGraph graph = build_graph(winograd_tiling({.ng = 3, .nf = 1, .m_slots = 1}));
  CHECK(names(graph, make_mapping(graph, {.policy = "critical_path"}).order) ==
        "F[0] I[0,0] G[0,0] I[1,0] O[0,0] G[1,0] I[2,0] O[1,0] G[2,0] O[2,0]");
}

TEST_CASE("every policy is right on every shape, with every window that it fits") {
  for (Counts counts : kOddCounts) {
    for (std::uint32_t slots : {1u, 2u, 4u, 0u}) {
      counts.v_slots = counts.m_slots = slots;
      const Tiling tiling = winograd_tiling(counts);
      const TaskGraph graph = build_graph(tiling);
      const TaskGraph whole = without_window(graph);
      const BufferId v = buffer_id(graph, "V"), m = buffer_id(graph, "M");
      for (const std::string& policy : kPolicies) {
        for (std::uint32_t workers : {1u, 3u, 64u}) {
          const WorkerGroup target{.workers = workers};
          INFO(to_string(tiling) << policy << ", " << workers << " workers");
          const TaskMapping mapping = make_mapping(graph, {.policy = policy, .seed = 7}, target);
          CHECK(make_mapping(graph, {.policy = policy, .seed = 7}, target) == mapping);
          CHECK_FALSE(validate(whole, mapping).has_value());
          // A policy that walks the graph fits any window. For others smallest_window() says.
          const std::vector<std::uint32_t> least = smallest_window(whole, mapping);
          const bool fits =
              least[v] <= tiling.window()->v_slots && least[m] <= tiling.window()->m_slots;
          const bool walks = policy == "critical_path" || policy == "random_topological" ||
                             policy == "depth_first";
          if (fits || walks) {
            CHECK_FALSE(validate(graph, mapping).has_value());
          }
        }
      }
    }
  }
}

TEST_CASE("every policy orders direct graphs") {
  for (const Counts& counts : kOddCounts) {
    const TaskGraph graph = build_graph(direct_tiling(counts));
    for (const std::string& policy : kPolicies) {
      INFO(to_string(direct_tiling(counts)) << policy);
      CHECK_FALSE(validate(graph, make_mapping(graph, {.policy = policy}, {.workers = 4})));
    }
  }
}

TEST_CASE("random_topological depends on its seed alone") {
  const TaskGraph graph =
      build_graph(winograd_tiling({.ng = 9, .nf = 2, .si = 4, .sg = 3, .so = 5}));
  const auto order = [&](std::uint64_t seed) {
    return make_mapping(graph, {.policy = "random_topological", .seed = seed}).order;
  };
  CHECK(order(1) == order(1));
  CHECK(order(1) != order(2));
}

TEST_CASE("policies are known by their names") {
  CHECK(policy_names() == kPolicies);
  CHECK(policy_names().front() == MappingOptions{}.policy);
  for (const std::string& policy : kPolicies) CHECK_NOTHROW(check_policy(policy));
  const auto unknown = [](const char* text) { return error_of([&] { check_policy(text); }); };
  CHECK(unknown("fastest\n") ==
        "policy \"fastest?\": must be one of interleaved, blended, staged, depth_first, "
        "critical_path, random_topological");
  CHECK_THAT(unknown(""), ContainsSubstring("must be one of interleaved"));
  CHECK_THAT(unknown("Staged"), ContainsSubstring("must be one of interleaved"));
  const TaskGraph graph = build_graph(winograd_tiling({}));
  CHECK(error_of([&] { make_mapping(graph, {.policy = "fastest"}); }) == unknown("fastest"));
  CHECK(error_of([&] { make_mapping(graph, interleaved(1, 1, 0)); }) ==
        "m_groups = 0: must be at least 1");
}

TEST_CASE("the chosen parameters are recorded") {
  const TaskGraph graph = build_graph(winograd_tiling({.ng = 100}));
  const TaskMapping mapping = make_mapping(graph, {.dgo = 5}, {.workers = 8});
  CHECK(mapping.policy == "interleaved");
  CHECK(mapping.options.dig.has_value());
  CHECK(mapping.options.dgo == 5u);
  CHECK(mapping.options.m_groups.has_value());
  CHECK(make_mapping(graph, mapping.options, {.workers = 1}) == mapping);
}

TEST_CASE("a million tasks are built, ordered and validated") {
  // Processor time, of this one thread.
  std::clock_t last = std::clock();
  const auto milliseconds = [&] {
    const std::clock_t begin = std::exchange(last, std::clock());
    return 1e3 * static_cast<double>(last - begin) / CLOCKS_PER_SEC;
  };
  TaskGraph graph = build_graph(winograd_tiling(
      {.ng = 90000, .nf = 64, .si = 4, .sg = 4, .so = 4, .v_slots = 64, .m_slots = 64}));
  const double built = milliseconds();
  link(graph);
  const double linked = milliseconds();
  add_reuse(graph);
  count_signals(graph);
  const double counted = milliseconds();
  const TaskMapping mapping = make_mapping(graph, {}, {.workers = 16});
  const double ordered = milliseconds();
  const bool right = !validate(graph, mapping).has_value();
  const double validated = milliseconds();
  CHECK(mapping.policy == "interleaved");
  CHECK(graph.tasks.size() == 64 + 90000 * 12);
  CHECK(right);
  WARN(graph.tasks.size() << " tasks built in " << built << " ms, of which linked in " << linked
                          << " and counted in " << counted << "; ordered in " << ordered
                          << ", validated in " << validated << " ms");
}
