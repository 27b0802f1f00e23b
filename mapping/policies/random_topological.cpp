// SPDX-License-Identifier: Apache-2.0
// Any task that is ready, by a seed: for tests and research.
#include <utility>

#include "mapping/policies/dry_run.hpp"
#include "mapping/policies/policies.hpp"

namespace megaconv {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): the same sequence on every machine.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Uniform in [0, bound), to within 2^-32: bound is at most 2^31.
  std::uint32_t below(std::uint64_t bound) {
    return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
  }

 private:
  std::uint64_t state_;
};

}  // namespace

TaskOrder order_random_topological(const TaskGraph& graph, const PolicyArguments& arguments) {
  SplitMix64 random(arguments.options.seed);
  std::vector<std::uint32_t> ready;
  const auto push = [&](std::uint32_t id) { ready.push_back(id); };
  DryRun run(graph);
  TaskOrder order;
  order.reserve(graph.tasks.size());
  for (run.start(push); !ready.empty();) {
    std::swap(ready[random.below(ready.size())], ready.back());
    const std::uint32_t id = ready.back();
    ready.pop_back();
    order.push_back(id);
    run.finish(id, push);
  }
  return order;
}

}  // namespace megaconv
