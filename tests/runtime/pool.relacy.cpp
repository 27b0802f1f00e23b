// SPDX-License-Identifier: Apache-2.0
// The meetings of a pool's caller and threads (runtime/worker_calls.hpp) under Relacy: every run
// gets all its threads, ends, and is seen whole by the caller; the pool ends. A wake-up that is
// lost shows as a deadlock. Weakened copies must be caught, or this check proves nothing.
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

  void thread(unsigned index) { index == 0 ? call() : serve(index - 1); }

  void call() {
    for (int run = 1; run <= kNumRuns; ++run) {
      // The second run leaves a thread asleep.
      const int num_threads = run == 1 ? kNumThreads : 1;
      calls.begin(run, num_threads);
      for (int i = 0; i < num_threads; ++i) calls.call(runs[i]);
      calls.wait_for_all();
      for (int i = 0; i < num_threads; ++i) RL_ASSERT(result[i]($) == run);
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
  constexpr auto kRandom = rl::random_scheduler_type;
  constexpr auto kBounded = rl::fair_context_bound_scheduler_type;
  constexpr rl::iteration_t kUnbounded = 1'000'000'000;
  expect(holds<Model<Fault::none>>(kRandom, 200'000, 0), "random executions");
  expect(holds<Model<Fault::none>>(kBounded, kUnbounded, 2),
         "every execution with at most 2 preemptions");
  expect(!holds<Model<Fault::relaxed_call>>(kRandom, 200'000, 0), "a relaxed call is caught");
  expect(!holds<Model<Fault::relaxed_finish>>(kRandom, 200'000, 0), "a relaxed finish is caught");
  expect(!holds<Model<Fault::early_notice>>(kRandom, 200'000, 0),
         "a notice before its call is caught");
  expect(!holds<Model<Fault::no_notice>>(kRandom, 200'000, 0), "a call without a notice is caught");
  expect(!holds<Model<Fault::careless_sleep>>(kRandom, 200'000, 0),
         "a sleep without a look is caught");
  return failures == 0 ? 0 : 1;
}
