// SPDX-License-Identifier: Apache-2.0
// The lease of a workspace (runtime/lease.hpp) under Relacy: three threads run two plans on one
// workspace, whatever it holds at first. One run has it at a time; each finds the counters as its
// epoch says, goes on where a completed run of its plan left them, and else begins afresh.
#include "runtime/lease.hpp"

#include <cstdint>
#include <relacy/relacy.hpp>

#include "tests/runtime/model_check.hpp"
#include "tests/runtime/model_sync.hpp"

namespace {

constexpr int kNumThreads = 3;
constexpr int kNumCounters = 2;
constexpr std::uint32_t kTotals[kNumCounters] = {3, 5};
constexpr std::uint64_t kIdle[] = {megaconv::plan_word(0xabc, 2),
                                   megaconv::plan_word(0xabc, 4)};  // by plan
constexpr std::uint32_t kLastEpoch = 0xffffffffu;                   // the next one wraps around

template <Fault kFault>
struct Model : rl::test_suite<Model<kFault>, kNumThreads> {
  using Sync = ModelLeaseSync<kFault>;
  using Lease = megaconv::Lease<Sync>;
  megaconv::LeaseHeader<Sync> header;
  typename Sync::Number counters[kNumCounters];
  // The plan whose counters the workspace holds, or -1; and the epoch that comes next.
  rl::var<int> holds;
  rl::var<std::uint32_t> next;

  void before() {
    const unsigned begin = rl::rand(3);
    const bool known = begin == 2;
    header.owner.store(begin == 0 ? ~kIdle[0] : kIdle[0], rl::mo_relaxed, $);
    header.epoch($) = kLastEpoch;
    for (int c = 0; c < kNumCounters; ++c) counters[c]($) = kLastEpoch * kTotals[c];
    if (!known) counters[1]($) = 77;  // others have used a part of the memory
    holds($) = known ? 0 : -1;
    next($) = kLastEpoch;
  }

  void thread(unsigned index) {
    const int plan = index == 0 ? 1 : 0;
    Lease lease(header, kIdle[plan]);
    rl::linear_backoff backoff;
    while (!lease.take(counters, {kTotals, kFault == Fault::wrong_use ? 0u : kNumCounters})) {
      backoff.yield($);
    }
    RL_ASSERT(lease.epoch() == (holds($) == plan ? next($) : 0));
    const bool completed = rl::rand(2) == 0;
    for (int c = 0; c < kNumCounters; ++c) {
      RL_ASSERT(Sync::read(counters[c]) == lease.epoch() * kTotals[c]);
      Sync::write(counters[c], Sync::read(counters[c]) + (completed ? kTotals[c] : 1));
    }
    holds($) = completed ? plan : -1;
    next($) = lease.epoch() + 1;
    lease.give_back(completed);
  }
};

}  // namespace

int main() {
  constexpr rl::iteration_t kExecutions = 500'000;
  expect_right<Model<Fault::none>>(kExecutions, 2);
  expect_caught<Model<Fault::relaxed_take>>(kExecutions, "a relaxed take");
  expect_caught<Model<Fault::take_by_load_and_store>>(kExecutions, "a torn take");
  expect_caught<Model<Fault::relaxed_return>>(kExecutions, "a relaxed return");
  expect_caught<Model<Fault::wrong_use>>(kExecutions, "counters that nobody compares");
  return failures == 0 ? 0 : 1;
}
