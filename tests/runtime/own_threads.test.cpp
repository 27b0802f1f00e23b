// SPDX-License-Identifier: Apache-2.0
// Runs on threads of the caller's own.
#include <atomic>
#include <cfenv>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "megaconv/megaconv.h"
#include "tests/catch.hpp"
#include "tests/runtime/exact_run.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

using Body = void (*)(void* state, std::uint32_t worker);

constexpr std::uint32_t kWorkers = 3;

PlanOptions options_with(const WorkerThreads& threads) {
  PlanOptions options = exact_options(Algorithm::winograd, kWorkers);
  options.tiling.filters = FilterMode::every_run;
  options.threads = threads;
  return options;
}

ExactRun run_on(const WorkerThreads& threads) {
  return ExactRun("n1c32h20k32", options_with(threads));
}

void call_at_once(void* context, std::uint32_t num_workers, Body body, void* state) {
  ++*static_cast<std::atomic<int>*>(context);
  std::vector<std::thread> threads;
  for (std::uint32_t worker = 0; worker < num_workers; ++worker) {
    threads.emplace_back(body, state, worker);
  }
  for (std::thread& thread : threads) thread.join();
}

// The last worker first, one after the other, on the calling thread.
void call_backwards(void*, std::uint32_t num_workers, Body body, void* state) {
  for (std::uint32_t worker = num_workers; worker-- > 0;) body(state, worker);
}

TEST_CASE("a plan runs on the caller's threads, at once and one after the other") {
  std::atomic<int> runs{0};
  ExactRun at_once = run_on({call_at_once, &runs});
  CHECK(at_once.plan.describe().find("cpu, 3 workers on the caller's threads") !=
        std::string::npos);
  for (int run = 1; run <= 20; ++run) {
    CHECK(at_once.runs_right());
    CHECK(runs == run);
  }
  ExactRun backwards = run_on({call_backwards, nullptr});
  for (int run = 0; run < 3; ++run) CHECK(backwards.runs_right());
}

TEST_CASE("a run on the caller's threads rounds to nearest, and leaves their rounding as it was") {
  ExactRun run = run_on({call_backwards, nullptr});
  std::fesetround(FE_UPWARD);
  const bool right = run.runs_right();
  const int rounding = std::fegetround();
  std::fesetround(FE_TONEAREST);
  CHECK(right);
  CHECK(rounding == FE_UPWARD);
}

TEST_CASE("threads that do not call every worker once are an error, and the next run is right") {
  struct Pool {
    int wrong_runs;
    std::vector<std::uint32_t> calls;
    static void run(void* context, std::uint32_t num_workers, Body body, void* state) {
      Pool& pool = *static_cast<Pool*>(context);
      if (pool.wrong_runs-- <= 0) return call_backwards(nullptr, num_workers, body, state);
      for (const std::uint32_t worker : pool.calls) body(state, worker);
    }
  };
  const std::string allowed = ", must call 0 to 2 once each";
  for (auto [calls, text] :
       {std::pair<std::vector<std::uint32_t>, std::string>{
            {}, "the caller's threads did not call worker 0"},
        {{0, 2}, "the caller's threads did not call worker 1"},
        {{0, 1, 1, 2}, "the caller's threads called once too often worker 1"},
        {{2, 1, 0, 7}, "the caller's threads called once too often worker 7"}}) {
    CAPTURE(text);
    Pool pool{1, calls};
    ExactRun run = run_on({Pool::run, &pool});
    std::string found;
    try {
      run.execute();
    } catch (const Error& error) {
      CHECK(error.status() == Status::invalid_argument);
      found = error.what();
    }
    CHECK(found == text + allowed);
    CHECK(run.runs_right());
  }
}

TEST_CASE("a layer too small for two workers has one, unless more are asked for") {
  const auto workers = [](const char* problem, std::uint32_t num_threads) {
    const PlanOptions options{.source = PlanSource::heuristic, .num_threads = num_threads};
    return Plan::create(parse_problem(problem), options).num_workers();
  };
  CHECK(workers("n1c16h4k16", 0) == 1);
  CHECK(workers("n1c16h4k16", 3) == 3);
  CHECK(workers("n4c64h56k64", 0) == workers("n64c64h56k64", 0));
}

TEST_CASE("C: a plan prepares filters and runs on the caller's threads") {
  megaconv_problem problem = megaconv_problem_init();
  REQUIRE(megaconv_problem_parse("n1c4h6k16", &problem) == MEGACONV_SUCCESS);
  std::atomic<int> runs{0};
  megaconv_plan_options options = megaconv_plan_options_init();
  options.algorithm = MEGACONV_ALGORITHM_DIRECT;  // which is exact
  options.prepared_filters = 1;
  options.num_threads = kWorkers;
  options.run_workers = call_at_once;
  options.run_workers_context = &runs;
  megaconv_plan* plan = nullptr;
  REQUIRE(megaconv_plan_create(&problem, &options, &plan) == MEGACONV_SUCCESS);
  const std::vector<float> x(4 * 6 * 6, 1.0f), w(16 * 4 * 9, 1.0f);
  std::vector<float> y(16 * 6 * 6);
  std::vector<ExactRun::Line> filters(megaconv_prepared_filter_bytes(plan) / 64 + 1);
  std::vector<ExactRun::Line> workspace(megaconv_workspace_bytes(plan) / 64 + 1);
  REQUIRE(megaconv_prepare_filters(plan, w.data(), filters.data()) == MEGACONV_SUCCESS);
  CHECK(runs == 1);
  megaconv_tensors tensors = megaconv_tensors_init();
  tensors.x = x.data();
  tensors.y = y.data();
  tensors.prepared_filters = filters.data();
  REQUIRE(megaconv_execute(plan, &tensors, workspace.data(), megaconv_workspace_bytes(plan)) ==
          MEGACONV_SUCCESS);
  CHECK(runs == 2);
  CHECK(y[0] == 4 * 4);  // a corner has 4 of 9 taps
  CHECK(y[7] == 4 * 9);
  megaconv_plan_destroy(plan);
}

}  // namespace
