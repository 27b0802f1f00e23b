// SPDX-License-Identifier: Apache-2.0
// Giving up a run (runtime/give_up.hpp) under Relacy, with what is around it: counters, the pool's
// calls and the lease of the workspace. In the first run tasks may wait for ever, and all workers
// but one wait for a few polls only. All workers come back, one of them reports, a run without a
// report has run every task, and the next run on the same workspace is right.
#include "runtime/give_up.hpp"

#include "runtime/counters.hpp"
#include "runtime/lease.hpp"
#include "runtime/worker_calls.hpp"
// Relacy redefines what <atomic> names.
#include <cstdint>
#include <relacy/relacy.hpp>

#include "tests/runtime/model_check.hpp"
#include "tests/runtime/model_sync.hpp"

namespace {

using megaconv::kNoCounter;
using megaconv::SignalRange;
using megaconv::Task;

constexpr int kNumWorkers = 3, kNumTasks = 4, kNumRuns = 2;
constexpr int kAll = -1;
constexpr std::uint32_t kTotals[] = {1};
constexpr SignalRange kSignals[] = {{0, 1}};
constexpr std::uint64_t kIdle = std::uint64_t{0xabc} << 32;
// One producer and a consumer per worker. `block` names the task.
constexpr Task kProducer{0, 0, 0, kNoCounter, 0, 0, 1};
constexpr Task consumer(std::uint32_t block) { return {1, 0, block, 0, 1, 0, 0}; }
constexpr Task kRight[kNumTasks] = {kProducer, consumer(1), consumer(2), consumer(3)};
// Every worker waits for a task that nobody has taken.
constexpr Task kStuck[kNumTasks] = {consumer(1), consumer(2), consumer(3), kProducer};

template <Fault kFault>
struct Model : rl::test_suite<Model<kFault>, kNumWorkers> {
  using Sync = ModelSync<kFault>;
  using CounterSync = ModelSync<kFault == Fault::deaf ? Fault::none : kFault>;
  using PoolSync = ModelPoolSync<kFault>;
  using LeaseSync = ModelLeaseSync<kFault, rl::atomic<std::uint32_t>>;
  using Counters = megaconv::DependencyCounters<CounterSync>;

  struct Run {
    const Task* tasks;
    std::uint32_t epoch;
    int patient;  // the worker that never gives up, or kAll
    rl::atomic<std::uint32_t> ticket;
    megaconv::GiveUp<Sync> give_up;
    rl::var<int> num_reports;
    rl::var<int> runs_of[kNumTasks];
  };
  Run runs[kNumRuns];
  megaconv::WorkerCalls<PoolSync, Run*> calls;
  typename PoolSync::Cell calls_of[kNumWorkers - 1] = {typename PoolSync::Cell(0),
                                                       typename PoolSync::Cell(0)};
  megaconv::LeaseHeader<LeaseSync> header;
  rl::atomic<std::uint32_t> counters[1];

  void before() {
    header.owner.store(0, rl::mo_relaxed, $);
    header.epoch.store(7, rl::mo_relaxed, $);
    counters[0].store(5, rl::mo_relaxed, $);
    for (Run& run : runs) {
      run.num_reports($) = 0;
      for (auto& task : run.runs_of) task($) = 0;
    }
  }

  void thread(unsigned index) { index == 0 ? call() : serve(index); }

  void call() {
    const bool stuck = rl::rand(2) == 0;
    runs[0].patient = static_cast<int>(rl::rand(kNumWorkers));
    runs[1].patient = kAll;
    const bool completed = execute(runs[0], stuck ? kStuck : kRight);
    RL_ASSERT(!(stuck && completed));
    RL_ASSERT(execute(runs[1], kRight));
    RL_ASSERT(runs[1].epoch == (completed ? 1 : 0));
    calls.begin(nullptr, 0);
    for (auto& thread : calls_of) calls.call(thread);
  }

  // Whether the run was completed.
  bool execute(Run& run, const Task* tasks) {
    megaconv::Lease<LeaseSync> lease(header, kIdle);
    RL_ASSERT(lease.take(counters, kTotals));
    run.tasks = tasks;
    run.epoch = lease.epoch();
    run.ticket.store(view(run).first_ticket(), rl::mo_relaxed, $);
    calls.begin(&run, kNumWorkers - 1);
    for (auto& thread : calls_of) calls.call(thread);
    work(run, 0);
    calls.wait_for_all();
    bool all_ran = true;
    for (auto& task : run.runs_of) all_ran = task($) == 1 && all_ran;
    const int num_reports = run.num_reports($);
    RL_ASSERT(num_reports == (all_ran ? 0 : 1));
    lease.give_back(num_reports == 0);
    return num_reports == 0;
  }

  void serve(unsigned worker) {
    std::uint32_t seen = 0;
    while (Run* const run = calls.wait_for_call(calls_of[worker - 1], seen)) {
      work(*run, static_cast<int>(worker));
      calls.finish();
    }
  }

  void work(Run& run, int worker) {
    Counters counters = view(run);
    for (std::uint32_t position; (position = counters.take_position()) < kNumTasks;) {
      const Task& task = run.tasks[position];
      const bool ready = run.give_up.wait(
          1, [&] { return counters.is_ready(task); },
          [&] { return run.patient != kAll && worker != run.patient; },
          [&] { run.num_reports($) = run.num_reports($) + 1; });
      if (!ready && kFault != Fault::wrong_use) return;
      run.runs_of[task.block]($) = 1;
      if (task.wait_counter != kNoCounter) RL_ASSERT(run.runs_of[0]($) == 1);
      counters.signal(task, kSignals);
    }
  }

  Counters view(Run& run) {
    return Counters(&run.ticket, counters, run.epoch, kNumTasks, kNumWorkers);
  }
};

}  // namespace

int main() {
  constexpr rl::iteration_t kExecutions = 200'000;
  expect_right<Model<Fault::none>>(kExecutions, 1);
  expect_caught<Model<Fault::give_up_by_load_and_store>>(kExecutions, "a torn exchange");
  expect_caught<Model<Fault::deaf>>(kExecutions, "workers that do not look whether others gave up");
  expect_caught<Model<Fault::wrong_use>>(kExecutions, "a task that runs although it was given up");
  expect_caught<Model<Fault::relaxed_finish>>(kExecutions, "a relaxed end of a run");
  return failures == 0 ? 0 : 1;
}
