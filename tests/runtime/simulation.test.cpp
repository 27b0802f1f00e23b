// SPDX-License-Identifier: Apache-2.0
// The simulator on graphs and machines whose times can be counted by hand, and its properties on
// others.
#include "megaconv/simulation.hpp"

#include <algorithm>
#include <cmath>

#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

Lowering lowering_of(const Counts& counts, const std::string& policy) {
  Lowering lowering = cut(winograd_tiling(counts));
  lowering.mapping = make_mapping(lowering.graph, {.policy = policy, .seed = 3}, {.workers = 2});
  return lowering;
}

// Every task takes `us`, whatever it is.
MachineModel clockwork(std::uint32_t units, std::uint32_t workers_per_unit, double us) {
  MachineModel machine = machine_preset("toy");
  machine.units = units;
  machine.workers_per_unit = workers_per_unit;
  machine.l2_gbps = machine.hbm_gbps = 1e7;
  for (KindModel& kind : machine.kinds) {
    kind = {.overhead_us = us, .worker_gflops = 1e7, .unit_gflops = 1e7};
  }
  return machine;
}

// The work that is not the overhead: bytes and operations at 1e7 a ns. Less than this share.
constexpr double kSlack = 1e-3;

}  // namespace

TEST_CASE("one worker takes the sum of all tasks") {
  const Counts counts{.ng = 3, .nf = 2, .si = 2, .sg = 3, .so = 1};
  const Lowering lowering = lowering_of(counts, "interleaved");
  const Simulation run = simulate(lowering, clockwork(1, 1, 10));
  CHECK(run.time_us == Approx(10 * (2 + 3 * 6)).epsilon(kSlack));
  CHECK(run.utilisation.workers == Approx(1).epsilon(kSlack));
  CHECK(run.analysis.waits.empty());
  CHECK(run.analysis.tracks == 1);
}

TEST_CASE("workers wait for the last producer, a hop after its signal") {
  // F[0] I[0,0] G[0,0] O[0,0] on four workers: each waits for the one before.
  const Lowering lowering = lowering_of({}, "staged");
  MachineModel machine = clockwork(4, 1, 10);
  machine.hop_us = 2;
  machine.ticket_us = 1;
  machine.launch_us = 5;
  const Simulation run = simulate(lowering, machine);
  // launch 5, ticket 1; F and I side by side 10; hop 2, G 10; hop 2, O 10.
  CHECK(run.time_us == Approx(5 + 1 + 10 + 2 + 10 + 2 + 10).epsilon(kSlack));
  REQUIRE(run.analysis.waits.size() == 2);
  CHECK(run.analysis.waits[0].from == TaskKind::gemm);
  CHECK(run.analysis.waits[0].to == TaskKind::output_transform);
  CHECK(run.analysis.waits[0].us == Approx(1 + 10 + 2 + 10 + 2).epsilon(kSlack));
  CHECK(run.analysis.waits[1].us == Approx(1 + 10 + 2).epsilon(kSlack));
  CHECK(run.trace.records[2].ready_ns - run.trace.records[0].end_ns == 2000);
}

TEST_CASE("workers of a unit share its multipliers, and one alone has its own limit") {
  // Two GEMM tasks behind one input transform.
  const Counts counts{.nf = 0, .sg = 2};
  const Lowering lowering = lowering_of(counts, "staged");
  MachineModel machine = clockwork(1, 2, 0);
  const double operations = 2.0 * 16 * 16 * 36;  // of a GEMM task: one tile, a filter block
  KindModel& gemm = machine.kinds[static_cast<std::size_t>(TaskKind::gemm)];
  gemm = {.overhead_us = 0, .worker_gflops = 3, .unit_gflops = 4};
  const double alone_us = operations / 3 / 1000, together_us = 2 * operations / 4 / 1000;
  CHECK(simulate(lowering, machine).time_us == Approx(together_us).epsilon(kSlack));
  machine.units = 2;
  machine.workers_per_unit = 1;
  CHECK(simulate(lowering, machine).time_us == Approx(alone_us).epsilon(kSlack));
}

TEST_CASE("a simulation is the same for the same seed, and another for another") {
  const Lowering lowering = lower(parse_problem("n4c64h28k64"), {}, {}, {.workers = 8});
  MachineModel machine = machine_preset("toy");
  machine.noise = 0.1;
  const auto ends_with = [&](std::uint64_t seed) {
    std::vector<std::uint64_t> ends;
    for (const TraceRecord& record : simulate(lowering, machine, {.seed = seed}).trace.records) {
      ends.push_back(record.end_ns);
    }
    return ends;
  };
  CHECK(ends_with(7) == ends_with(7));
  CHECK(ends_with(7) != ends_with(8));
}

TEST_CASE("every task runs once, after its producers, on a worker of its own, in every order") {
  for (const Counts& counts : kOddCounts) {
    for (const std::string& policy : kPolicies) {
      const Lowering lowering = lowering_of(counts, policy);
      MachineModel machine = machine_preset("toy");
      machine.noise = 0.2;
      machine.hop_us = 0.5;
      const Simulation run = simulate(lowering, machine);
      CAPTURE(policy, counts.ng, counts.si, counts.sg);
      std::vector<std::uint32_t> received(lowering.graph.counter_totals.size());
      for (const TraceRecord& record : run.trace.records) {
        const Task& task = lowering.graph.tasks[lowering.mapping.order[record.position]];
        if (task.wait_counter == kNoCounter) continue;
        std::uint32_t before = 0;
        for (const TraceRecord& other : run.trace.records) {
          const Task& producer = lowering.graph.tasks[lowering.mapping.order[other.position]];
          if (other.end_ns > record.ready_ns) continue;
          lowering.graph.for_each_signal(
              producer, [&](std::uint32_t counter) { before += counter == task.wait_counter; });
        }
        REQUIRE(before == task.wait_count);
      }
      CHECK(run.analysis.tracks <= machine.workers());
      machine.noise = 0;  // with it, tasks may be faster than the bounds expect
      CHECK(simulate(lowering, machine).time_us >=
            lower_bounds(lowering.graph, machine).least_us() * (1 - 1e-9));
    }
  }
}

TEST_CASE("no order beats the bounds") {
  for (const char* const name : {"h200", "v100", "cpu", "toy"}) {
    MachineModel machine = machine_preset(name);
    machine.noise = 0;
    for (const std::string& policy : kPolicies) {
      for (const char* const problem : {"n8c64h28k64", "n2c128h14k96"}) {
        const Lowering lowering = lower(parse_problem(problem), {.algorithm = Algorithm::winograd},
                                        {.policy = policy}, target_of(machine));
        const Bounds bounds = lower_bounds(lowering.graph, machine);
        CAPTURE(name, policy, problem);
        CHECK(bounds.least_us() > machine.launch_us);
        CHECK(simulate(lowering, machine).time_us >= bounds.least_us() * (1 - 1e-9));
      }
    }
  }
}

TEST_CASE("the critical path of a chain is its sum, and the only worker reaches the bound") {
  const Lowering lowering = lowering_of({}, "staged");
  MachineModel machine = clockwork(1, 1, 10);
  CHECK(lower_bounds(lowering.graph, machine).critical_path_us == Approx(30).epsilon(kSlack));
  CHECK(lower_bounds(lowering.graph, machine).work_us == Approx(40).epsilon(kSlack));
  CHECK(simulate(lowering, machine).time_us == Approx(40).epsilon(kSlack));
}

TEST_CASE("an order that deadlocks is reported with what is missing") {
  Lowering lowering = lowering_of({.ng = 2}, "staged");
  // The output transforms first: both workers wait for ever.
  std::rotate(lowering.mapping.order.begin(), lowering.mapping.order.end() - 2,
              lowering.mapping.order.end());
  const std::string message =
      error_of([&] { simulate(lowering, clockwork(2, 1, 1)); }, Status::timeout);
  CHECK_THAT(message, ContainsSubstring("position 0: O[0,0]"));
  CHECK_THAT(message, ContainsSubstring("G[0,0] (position"));
  CHECK_THAT(message, ContainsSubstring("not started"));
  // With a worker more than tasks that stand too early, the run gets through.
  CHECK(simulate(lowering, clockwork(3, 1, 1)).time_us > 0);
}

TEST_CASE("an order with a task twice or missing is refused") {
  Lowering lowering = lowering_of({.ng = 2}, "staged");
  lowering.mapping.order.back() = 0;
  CHECK_THAT(error_of([&] { simulate(lowering, machine_preset("toy")); }),
             ContainsSubstring("task id 0 stands twice"));
  lowering.mapping.order.pop_back();
  CHECK_THAT(error_of([&] { simulate(lowering, machine_preset("toy")); }),
             ContainsSubstring("6 tasks, must be all 7"));
}

TEST_CASE("a staged launch ends every stage before the next begins") {
  const Lowering lowering = lowering_of({.ng = 3}, "staged");
  MachineModel machine = clockwork(4, 1, 10);
  machine.launch_us = 3;
  const Simulation run = simulate(lowering, machine, {.launch = CudaLaunch::staged});
  // F, then three each of I, G and O on four workers, and a launch before each.
  CHECK(run.time_us == Approx(4 * (3 + 10)).epsilon(kSlack));
  CHECK(run.analysis.waits.empty());
}

TEST_CASE("reuse is found in the cache when it fits and lost when it does not") {
  const Lowering lowering = lower(parse_problem("n4c64h28k64"), {.whole_tensors = true},
                                  {.policy = "staged"}, {.workers = 2});
  MachineModel machine = machine_preset("toy");
  machine.l2_bytes = std::uint64_t{1} << 30;
  const Simulation fits = simulate(lowering, machine);
  CHECK(fits.products.hit_rate() == Approx(1));
  CHECK(fits.filters.hit_rate() == Approx(1));
  CHECK(fits.hbm_bytes == 0);
  const Simulation cold = simulate(lowering, machine, {.warm_cache = false});
  const ConvProblem& problem = lowering.tiling().problem;
  CHECK(cold.hbm_bytes == Approx(4.0 * static_cast<double>(problem.x_size() + problem.w_size())));
  machine.l2_bytes = 1 << 16;
  const Simulation lost = simulate(lowering, machine);
  CHECK(lost.products.hit_rate() < 0.1);
  CHECK(lost.hbm_bytes > fits.hbm_bytes);
  CHECK(lost.products.bytes == Approx(fits.products.bytes));
}

TEST_CASE(
    "depth-first order lives in less memory than staged order, and interleaving mixes kinds") {
  const auto run = [](const char* policy) {
    return simulate(lowering_of({.ng = 31, .nf = 0, .si = 2, .sg = 3, .so = 2}, policy),
                    clockwork(2, 1, 10));
  };
  const Simulation staged = run("staged"), depth = run("depth_first"),
                   interleaved = run("interleaved");
  CHECK(depth.analysis.peak_live_bytes * 5 < staged.analysis.peak_live_bytes);
  const auto infusible = [](const Simulation& simulation) {
    std::uint64_t sum = 0;
    for (const KindTimes& kind : simulation.analysis.kinds) sum += kind.infusible;
    return sum;
  };
  CHECK(infusible(staged) > 200);  // of 217; few run where one stage meets the next
  CHECK(infusible(interleaved) < infusible(staged) / 2);
}

TEST_CASE("what a simulation did can be replayed as an order") {
  Lowering lowering = lowering_of(kOddCounts[4], "random_topological");
  MachineModel machine = clockwork(3, 1, 10);
  machine.noise = 0.5;
  const Simulation run = simulate(lowering, machine);
  const Lowering again{lowering.nodes, lowering.graph, replay(lowering, run.trace)};
  CHECK_FALSE(validate(again.graph, again.mapping));
  CHECK(simulate(again, machine).analysis.span_us <= run.analysis.span_us * 1.2);
}

TEST_CASE("100,000 tasks are simulated whole") {
  const Counts counts{.ng = 10'000, .nf = 0, .si = 2, .sg = 6, .so = 2};
  const Simulation run = simulate(lowering_of(counts, "interleaved"), machine_preset("h200"));
  CHECK(run.trace.records.size() == 100'000);
}

TEST_CASE("a launch that is left to choice is persistent in a simulation") {
  const MachineModel machine = machine_preset("h200");
  const Lowering lowering = lower(parse_problem("n8c64h28k64"), {}, {}, target_of(machine));
  const auto time_us = [&](CudaLaunch launch) {
    return simulate(lowering, machine, {.launch = launch}).time_us;
  };
  CHECK(time_us(CudaLaunch::automatic) == time_us(CudaLaunch::persistent));
  CHECK(time_us(CudaLaunch::automatic) != time_us(CudaLaunch::one_block_per_task));
  PlanOptions options;
  options.backend = Backend::sim;
  CHECK_THAT(Plan::create(parse_problem("n8c64h28k64"), options).describe(),
             ContainsSubstring("\nlaunch: persistent, the default of a simulation\n"));
  CHECK_THAT(Plan::create(lowering, options).describe(),
             ContainsSubstring("\nlaunch: persistent, for the caller's order\n"));
  options.cuda_launch = CudaLaunch::staged;
  CHECK_THAT(Plan::create(parse_problem("n8c64h28k64"), options).describe(),
             ContainsSubstring("\nlaunch: staged, as asked for\n"));
}

TEST_CASE("implicit GEMM is not simulated with rates that are not its own") {
  const MachineModel machine = machine_preset("h200");
  for (const Algorithm algorithm : {Algorithm::implicit_gemm, Algorithm::small_gemm}) {
    const TilingOptions tiling{.algorithm = algorithm, .filters = FilterMode::prepared};
    const Lowering lowering =
        lower(parse_problem("n2c32h14k32+nhwc"), tiling, {}, target_of(machine));
    CHECK_THROWS_WITH(simulate(lowering, machine),
                      ContainsSubstring(std::string(to_string(algorithm)) +
                                        ": machine models have no rates for it"));
  }
}

TEST_CASE("a plan on the simulator fills a trace and leaves y alone") {
  const ConvProblem problem = parse_problem("n2c32h14k32");
  PlanOptions options;
  options.backend = Backend::sim;
  const Plan plan = Plan::create(problem, options);
  CHECK(plan.num_workers() == machine_preset("h200").workers());
  CHECK_THAT(plan.describe(), ContainsSubstring("sim, h200"));
  std::vector<float> x(static_cast<std::size_t>(problem.x_size())), w(32 * 32 * 9),
      y(static_cast<std::size_t>(problem.y_size()), 7.0f);
  alignas(Plan::kAlignment) std::byte workspace[Plan::kAlignment];
  Trace trace;
  plan.execute({.x = x.data(), .w = w.data(), .y = y.data()}, workspace, sizeof(workspace),
               {.trace = &trace});
  CHECK(trace.records.size() == plan.lowering().graph.tasks.size());
  CHECK(y[0] == 7.0f);
}
