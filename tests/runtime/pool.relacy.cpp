// SPDX-License-Identifier: Apache-2.0
// The meetings of a pool's caller and threads (runtime/worker_calls.hpp) under Relacy: every run
// gets all its threads, ends, and is seen whole by the caller; the pool ends. A wake-up that is
// lost shows as a deadlock. Weakened copies must be caught, or this check proves nothing.
#include <cstdint>
#include <relacy/relacy.hpp>

#include "runtime/worker_calls.hpp"
#include "tests/runtime/model_check.hpp"

namespace {

enum class Fault { none, relaxed_call, relaxed_finish, early_notice, no_notice, careless_sleep };

template <Fault kFault>
struct ModelSync {
  // The lock is that of a futex: it is held from the look at the value to the sleep.
  struct Cell {
    explicit Cell(std::uint32_t begin) : value(begin) {}
    rl::atomic<std::uint32_t> value;
    rl::mutex lock;
    rl::condition_variable sleepers;
  };
  template <class T>
  using Plain = rl::var<T>;

  template <class T>
  static T read(rl::var<T>& value) {
    return value($);
  }
  template <class T>
  static void write(rl::var<T>& target, T value) {
    target($) = value;
  }
  static void store_relaxed(Cell& cell, std::uint32_t value) {
    cell.value.store(value, rl::mo_relaxed, $);
  }
  static std::uint32_t load_acquire(Cell& cell) { return cell.value.load(rl::mo_acquire, $); }
  static void add_release(Cell& cell, std::uint32_t value) {
    if (kFault == Fault::early_notice) wake(cell);
    cell.value.fetch_add(value, kFault == Fault::relaxed_call ? rl::mo_relaxed : rl::mo_release, $);
  }
  static std::uint32_t subtract(Cell& cell, std::uint32_t value) {
    return cell.value.fetch_sub(
        value, kFault == Fault::relaxed_finish ? rl::mo_relaxed : rl::mo_acq_rel, $);
  }
  static void notify(Cell& cell) {
    if (kFault != Fault::no_notice && kFault != Fault::early_notice) wake(cell);
  }
  static void wait(Cell& cell, std::uint32_t old) {
    if (cell.value.load(rl::mo_relaxed, $) != old) return;  // while it spins
    cell.lock.lock($);
    if (kFault == Fault::careless_sleep) {
      cell.sleepers.wait(cell.lock, $);
    } else {
      while (cell.value.load(rl::mo_relaxed, $) == old) cell.sleepers.wait(cell.lock, $);
    }
    cell.lock.unlock($);
  }

 private:
  static void wake(Cell& cell) {
    cell.lock.lock($);
    cell.sleepers.notify_all($);
    cell.lock.unlock($);
  }
};

constexpr int kNumThreads = 2;  // besides the caller
constexpr int kNumRuns = 2;

template <Fault kFault>
struct Model : rl::test_suite<Model<kFault>, kNumThreads + 1> {
  using Sync = ModelSync<kFault>;
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
