// SPDX-License-Identifier: Apache-2.0
// The meetings of a pool's caller and threads (runtime/worker_calls.hpp) under Relacy: every run
// gets all its threads but those whose calls are withdrawn, ends, and is seen whole by the caller;
// the pool ends. A wake-up that is lost shows as a deadlock. Weakened copies must be caught, or
// this check proves nothing.
#include <cstdint>
#include <relacy/relacy.hpp>

#include "runtime/worker_calls.hpp"
#include "tests/runtime/model_check.hpp"
#include "tests/runtime/model_sync.hpp"

namespace {

constexpr int kNumThreads = 2;  // besides the caller
constexpr int kNumRuns = 2;

template <Fault kFault>
struct Model : rl::test_suite<Model<kFault>, kNumThreads + 1> {
  using Sync = ModelPoolSync<kFault>;
  using Cell = typename Sync::Cell;
  // The number of a run stands for its body; null is the end.
  megaconv::WorkerCalls<Sync, int> calls;
  Cell runs[kNumThreads] = {Cell(0), Cell(0)};
  rl::var<int> result[kNumThreads];

  void before() {
    for (auto& number : result) number($) = 0;
  }

  void thread(unsigned index) { index == 0 ? call() : serve(index - 1); }

  void call() {
    for (int run = 1; run <= kNumRuns; ++run) {
      // The second run leaves a thread asleep.
      const int num_threads = run == 1 ? kNumThreads : 1;
      calls.begin(run, num_threads);
      for (int i = 0; i < num_threads; ++i) calls.call(runs[i]);
      const bool withdraws = rl::rand(2) == 0;
      for (int i = 0; withdraws && i < num_threads; ++i) calls.withdraw(runs[i]);
      calls.wait_for_all();
      for (int i = 0; i < num_threads; ++i) {
        RL_ASSERT(result[i]($) == run || (withdraws && result[i]($) < run));
        result[i]($) = run;  // nobody writes any more
      }
    }
    calls.begin(0, 0);
    for (Cell& thread : runs) calls.call(thread);
  }

  void serve(unsigned index) {
    std::uint32_t seen = 0;
    while (const int run = calls.wait_for_call(runs[index], seen)) {
      result[index]($) = run;
      calls.finish();
    }
  }
};

}  // namespace

int main() {
  constexpr rl::iteration_t kExecutions = 200'000;
  expect_right<Model<Fault::none>>(kExecutions, 2);
  expect_caught<Model<Fault::relaxed_call>>(kExecutions, "a relaxed call");
  expect_caught<Model<Fault::relaxed_finish>>(kExecutions, "a relaxed finish");
  expect_caught<Model<Fault::early_notice>>(kExecutions, "a notice before its call");
  expect_caught<Model<Fault::claim_by_load_and_store>>(kExecutions,
                                                       "a claim that others may make, too");
  expect_caught<Model<Fault::no_notice>>(kExecutions, "a call without a notice");
  expect_caught<Model<Fault::careless_sleep>>(kExecutions, "a sleep without a look");
  return failures == 0 ? 0 : 1;
}
