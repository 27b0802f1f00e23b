// SPDX-License-Identifier: Apache-2.0
// What no order can beat: by hand, and against the best of all orders of graphs that are small
// enough to try them.
#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <random>

#include "megaconv/simulation.hpp"
#include "megaconv/trace.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

OrderBound bound_of(const Counts& counts, const std::array<double, kNumTaskKinds>& us,
                    std::uint32_t workers) {
  const TaskGraph graph = build_graph(winograd_tiling(counts));
  std::vector<double> task_us;
  for (const Task& task : graph.tasks) task_us.push_back(us[task.kind]);
  return order_bound(graph, {task_us, task_us}, workers);
}

// Time of one order: workers take positions in turn, wait, work.
double span_of(const TaskGraph& graph, const std::vector<std::uint32_t>& order,
               const std::vector<double>& task_us, std::uint32_t workers) {
  std::vector<double> ready_at(graph.counter_totals.size());
  std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
  for (std::uint32_t w = 0; w < workers; ++w) free_at.push(0);
  double span = 0;
  for (const std::uint32_t id : order) {
    const Task& task = graph.tasks[id];
    const double ready = task.wait_counter == kNoCounter ? 0 : ready_at[task.wait_counter];
    const double end = std::max(free_at.top(), ready) + task_us[id];
    free_at.pop();
    free_at.push(end);
    span = std::max(span, end);
    graph.for_each_signal(
        task, [&](std::uint32_t counter) { ready_at[counter] = std::max(ready_at[counter], end); });
  }
  return span;
}

// Of all orders in which producers stand before consumers.
double best_span(const TaskGraph& graph, const std::vector<double>& task_us,
                 std::uint32_t workers) {
  TaskMapping mapping;
  mapping.order.resize(graph.tasks.size());
  std::iota(mapping.order.begin(), mapping.order.end(), 0u);
  double best = 1e9;
  do {
    if (!validate(graph, mapping)) {
      best = std::min(best, span_of(graph, mapping.order, task_us, workers));
    }
  } while (std::next_permutation(mapping.order.begin(), mapping.order.end()));
  return best;
}

}  // namespace

TEST_CASE("no order beats one worker's sum, the longest chain, or whole rounds of GEMM tasks") {
  const std::array<double, kNumTaskKinds> us{3, 2, 10, 4, 0};
  CHECK(bound_of({.ng = 2, .nf = 2, .si = 2, .sg = 3, .so = 1}, us, 1).least_us() ==
        Approx(2 * 3 + 2 * (2 * 2 + 3 * 10 + 4)));
  CHECK(bound_of({}, us, 4).least_us() == Approx(3 + 10 + 4));  // F, G, O; I beside F
  // Five GEMM tasks on four workers take two rounds, whoever runs the fifth.
  const OrderBound rounds = bound_of({.sg = 5}, us, 4);
  CHECK(rounds.least_us() == Approx(3 + 2 * 10 + 4));
  CHECK(rounds.work_us == Approx((3 + 2 + 50 + 4) / 4.0));
  // Seven filter tasks on three workers: three rounds before any GEMM, and one input beside them.
  CHECK(bound_of({.nf = 7}, us, 3).least_us() == Approx(3 * 3 + 10 + 4));
  // Six outputs on three workers, none before an input and a GEMM.
  CHECK(bound_of({.ng = 2, .nf = 0, .sg = 1, .so = 3}, us, 3).least_us() == Approx(2 + 10 + 2 * 4));
}

TEST_CASE("the bound is at most the best of all orders, and often is that") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> length(1, 10);
  int tight = 0, all = 0;
  for (const Counts& counts :
       {Counts{.ng = 1, .nf = 2, .si = 1, .sg = 2, .so = 2}, Counts{.ng = 2, .nf = 1},
        Counts{.ng = 1, .nf = 1, .si = 1, .sg = 4, .so = 1}, Counts{.ng = 2, .nf = 0, .sg = 2},
        Counts{.ng = 1, .nf = 3, .si = 2, .sg = 1, .so = 1}}) {
    const TaskGraph graph = build_graph(winograd_tiling(counts));
    for (int i = 0; i < 6; ++i) {
      std::vector<double> task_us(graph.tasks.size());
      for (double& us : task_us) us = length(random);
      for (const std::uint32_t workers : {1u, 2u, 3u}) {
        const double best = best_span(graph, task_us, workers);
        const double least = order_bound(graph, {task_us, task_us}, workers).least_us();
        CAPTURE(counts.ng, counts.nf, counts.si, counts.sg, counts.so, workers, i);
        CHECK(least <= best * (1 + 1e-12));
        CHECK(least > 0.7 * best);
        tight += least > best * (1 - 1e-12);
        ++all;
      }
    }
  }
  CHECK(2 * tight > all);
}

TEST_CASE("a task counts with its like, the last group's by themselves, and without its waits") {
  const Counts counts{.ng = 3, .nf = 0};
  Lowering lowering = cut(winograd_tiling(counts));
  lowering.mapping = make_mapping(lowering.graph, {.policy = "staged"});
  Trace trace{.records = {}, .num_workers = 1};
  // Inputs take 1, 9 and 4 us; GEMMs 5, 6 and 2; outputs 3. GEMMs are ready 0.5 us late or more.
  std::uint64_t now = 0;
  const std::uint64_t work_ns[] = {1000, 9000, 4000, 5000, 6000, 2000, 3000, 3000, 3000};
  for (std::uint32_t position = 0; position < 9; ++position) {
    const std::uint64_t wait = position == 3 ? 7000 : position / 3 == 1 ? 500 : 0;
    trace.records.push_back({position, 0, now, now + wait, now + wait + work_ns[position]});
    now = trace.records.back().end_ns;
  }
  const std::vector<double> typical{5, 5, 4, 6, 6, 2.5, 3, 3, 3},
      least{1, 1, 4, 5.5, 5.5, 2.5, 3, 3, 3};
  const TaskTimes times = task_times(lowering, trace);
  REQUIRE(times.typical_us.size() == typical.size());
  REQUIRE(times.least_us.size() == least.size());
  for (std::size_t id = 0; id < typical.size(); ++id) {
    CHECK(times.typical_us[id] == Approx(typical[id]));
    CHECK(times.least_us[id] == Approx(least[id]));
  }
}

TEST_CASE("simulated runs are never faster than the bound of their own tasks") {
  MachineModel machine = machine_preset("h200");
  for (const char* problem : {"n64c64h28k64", "n16c512h7k512", "n1c256h14k256"}) {
    for (const char* const policy : {"interleaved", "staged", "critical_path"}) {
      const Lowering lowering = lower(parse_problem(problem), {.algorithm = Algorithm::winograd},
                                      {.policy = policy}, target_of(machine));
      const Simulation run = simulate(lowering, machine);
      const TaskTimes times = task_times(lowering, run.trace);
      const double least = order_bound(lowering.graph, times, machine.workers()).least_us();
      CAPTURE(problem, policy, run.analysis.span_us);
      CHECK(least <= run.analysis.span_us * (1 + 1e-9));
      CHECK(least > 0.5 * run.analysis.span_us);
    }
  }
}

TEST_CASE("a bound needs a worker, and one time for each task") {
  const TaskGraph graph = build_graph(winograd_tiling({}));
  const std::vector<double> task_us(graph.tasks.size(), 1.0);
  CHECK_THROWS_WITH(order_bound(graph, {task_us, task_us}, 0),
                    ContainsSubstring("4 least times on 0 workers"));
  CHECK_THROWS_WITH(order_bound(graph, {task_us, {}}, 2),
                    ContainsSubstring("0 least times on 2 workers, must be 4 each on at least 1"));
}
