// SPDX-License-Identifier: Apache-2.0
// Calibration finds again a machine whose runs it is shown.
#include "megaconv/simulation.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

MeasuredRun run_on(const MachineModel& machine, const char* problem, const char* policy) {
  TilingOptions tiling;
  tiling.algorithm = Algorithm::winograd;
  MeasuredRun run;
  run.lowering = lower(parse_problem(problem), tiling, {.policy = policy}, target_of(machine));
  Simulation simulation = simulate(run.lowering, machine);
  run.time_us = simulation.time_us;
  run.trace = std::move(simulation.trace);
  return run;
}

}  // namespace

TEST_CASE("a machine twice as slow is found, and predicts orders and layers it was not shown") {
  const MachineModel start = machine_preset("cpu");
  MachineModel truth = start;
  truth.noise = 0;
  truth.hbm_gbps /= 2;
  truth.launch_us = 20;
  for (KindModel& kind : truth.kinds) {
    kind.worker_gflops /= 2;
    kind.unit_gflops /= 2;
    kind.overhead_us += 2;
  }
  const std::vector<MeasuredRun> shown = {run_on(truth, "n2c64h28k64", "interleaved"),
                                          run_on(truth, "n1c32h56k96", "staged")};
  const Calibration calibration = calibrate(start, shown);
  CHECK(calibration.machine.launch_us == Approx(20).epsilon(0.01));
  CHECK(calibration.median_error < 0.02);
  CHECK(calibration.errors.size() == 2);
  // Held out: the last step of the search is 4 %, which its parameters may be off by.
  const MeasuredRun held_out = run_on(truth, "n4c128h14k64", "depth_first");
  CHECK(simulate(held_out.lowering, calibration.machine).time_us ==
        Approx(held_out.time_us).epsilon(0.1));
}

TEST_CASE("calibration refuses no runs, and a trace of something else") {
  const MachineModel machine = machine_preset("cpu");
  CHECK(error_of([&] { calibrate(machine, {}); }) == "calibrate: no runs");
  MeasuredRun run = run_on(machine, "n1c16h14k16", "staged");
  run.trace.records.pop_back();
  CHECK_THAT(error_of([&] {
               calibrate(machine, {&run, 1});
             }),
             ContainsSubstring("the mapping has"));
  run = run_on(machine, "n1c16h14k16", "staged");
  run.trace.records[1].end_ns = 0;
  CHECK_THAT(error_of([&] { calibrate(machine, {&run, 1}); }), ContainsSubstring("position 1"));
}
