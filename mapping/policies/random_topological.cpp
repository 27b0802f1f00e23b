// SPDX-License-Identifier: Apache-2.0
// Any task that is ready, by a seed: for tests and research.
#include <utility>

#include "mapping/policies/dry_run.hpp"
#include "mapping/policies/policies.hpp"
#include "mapping/split_mix.hpp"

namespace megaconv {
namespace {

// Uniform in [0, bound), to within 2^-32: bound is at most 2^31.
std::uint32_t below(SplitMix64& random, std::uint64_t bound) {
  return static_cast<std::uint32_t>(((random.next() >> 32) * bound) >> 32);
}

}  // namespace

TaskOrder order_random_topological(const TaskGraph& graph, const PolicyArguments& arguments) {
  SplitMix64 random(arguments.options.seed);
  std::vector<std::uint32_t> ready;
  const auto push = [&](std::uint32_t id) { ready.push_back(id); };
  DryRun run(graph);
  TaskOrder order;
  order.reserve(graph.tasks.size());
  for (run.start(push); !ready.empty();) {
    std::swap(ready[below(random, ready.size())], ready.back());
    const std::uint32_t id = ready.back();
    ready.pop_back();
    order.push_back(id);
    run.finish(id, push);
  }
  return order;
}

}  // namespace megaconv
