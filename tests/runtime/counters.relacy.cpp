// SPDX-License-Identifier: Apache-2.0
// The protocol of runtime/counters.hpp under Relacy, which explores interleavings *and* the
// reorderings that C++ memory orders allow. Production code, another Sync: weakening any order it
// relies on must be caught, or this check proves nothing.
//
// Relacy redefines new and delete, so this is a program of its own: exit status 0 when the protocol
// holds in every execution explored and every weakened variant is caught.
#include "runtime/counters.hpp"

#include <cstdint>
#include <relacy/relacy.hpp>

#include "tests/runtime/model_check.hpp"
#include "tests/runtime/model_sync.hpp"

namespace {

// Two groups share one slot of V (window of 1), two input transforms each:
//
//   position  0 I[0,0]   1 I[0,1]   2 G[0]   3 I[1,0]   4 I[1,1]   5 G[1]
//   waits     -          -          c0 == 2  c2 == 1    c2 == 1    c1 == 2
//   signals   c0         c0         c2       c1         c1         -
//
// Task bodies touch plain variables, so a missing order shows as a data race.

using megaconv::kNoCounter;
using megaconv::SignalRange;
using megaconv::Task;

constexpr megaconv::KindId kInput = 0, kGemm = 1;
constexpr int kNumTasks = 6;
constexpr int kNumCounters = 3;
constexpr std::uint32_t kCounterTotals[kNumCounters] = {2, 2, 1};
// Each range is one counter: that of the GEMM of group 0, of group 1, of the slot's next writers.
constexpr SignalRange kSignals[] = {{0, 1}, {1, 1}, {2, 1}};
constexpr Task kTasks[kNumTasks] = {
    {kInput, 0, 0, kNoCounter, 0, 0, 1},  // I[0,0]
    {kInput, 0, 1, kNoCounter, 0, 0, 1},  // I[0,1]
    {kGemm, 0, 0, 0, 2, 2, 1},            // G[0]
    {kInput, 1, 0, 2, 1, 1, 1},           // I[1,0]
    {kInput, 1, 1, 2, 1, 1, 1},           // I[1,1]
    {kGemm, 1, 0, 1, 2, 0, 0},            // G[1]
};

constexpr int kNumWorkers = 3;
// Not the first epoch, and one whose targets wrap around.
constexpr std::uint32_t kEpoch = 0xffffffffu;

template <Fault kFault>
struct Model : rl::test_suite<Model<kFault>, kNumWorkers> {
  using Sync = ModelSync<kFault>;
  rl::atomic<std::uint32_t> ticket;
  rl::atomic<std::uint32_t> counters[kNumCounters];
  rl::var<int> slot[2];    // V: written by I[g,i], read by G[g]
  rl::var<int> result[2];  // M: written by G[g]

  void before() {
    ticket.store(kEpoch * (kNumTasks + kNumWorkers), rl::mo_relaxed, $);
    for (int c = 0; c < kNumCounters; ++c) {
      counters[c].store(kEpoch * kCounterTotals[c], rl::mo_relaxed, $);
    }
    for (auto& part : slot) part($) = -1;
  }

  void thread(unsigned) {
    megaconv::DependencyCounters<Sync> view(&ticket, counters, kEpoch, kNumTasks, kNumWorkers);
    for (;;) {
      const std::uint32_t position = view.take_position();
      if (position >= kNumTasks) break;
      const Task& task = kTasks[position];
      rl::linear_backoff backoff;
      while (!view.is_ready(task)) backoff.yield($);
      if (kFault == Fault::wrong_use) view.signal(task, kSignals);
      run(task);
      if (kFault != Fault::wrong_use) view.signal(task, kSignals);
    }
  }

  void run(const Task& task) {
    const int group = static_cast<int>(task.group);
    if (task.kind == kInput) {
      slot[task.block]($) = group;
    } else {
      RL_ASSERT(slot[0]($) == group && slot[1]($) == group);
      result[task.group]($) = group;
    }
  }

  void after() {
    for (int group = 0; group < 2; ++group) RL_ASSERT(result[group]($) == group);
    for (int c = 0; c < kNumCounters; ++c) {
      RL_ASSERT(counters[c].load(rl::mo_relaxed, $) == (kEpoch + 1) * kCounterTotals[c]);
    }
  }
};

}  // namespace

int main() {
  constexpr rl::iteration_t kExecutions = 500'000;
  expect_right<Model<Fault::none>>(kExecutions, 3);
  expect_caught<Model<Fault::relaxed_load>>(kExecutions, "a relaxed load");
  expect_caught<Model<Fault::relaxed_signal>>(kExecutions, "a relaxed signal");
  expect_caught<Model<Fault::signal_by_load_and_store>>(kExecutions, "a torn signal");
  expect_caught<Model<Fault::wrong_use>>(kExecutions, "a signal before the task");
  return failures == 0 ? 0 : 1;
}
