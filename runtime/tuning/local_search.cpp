// SPDX-License-Identifier: Apache-2.0
// Strategies that move from point to point: coordinate descent and simulated annealing, both from
// the heuristic's choice, then from random points until the budget is spent.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "runtime/tuning/search.hpp"

namespace megaconv {
namespace {

// Restarts that find no point not seen before end the search: the space is exhausted.
constexpr int kMostIdleRestarts = 200;
// A step that makes things worse by a share of kFirstHeat is taken with probability 1/e at first.
constexpr double kFirstHeat = 0.15, kLastHeat = 0.005, kCooling = 0.97;

class Walk {
 public:
  Walk(const Search& search, const Evaluate& evaluate)
      : search_(search), evaluate_(evaluate), random_(search.seed) {}

  void run(Strategy strategy) {
    const std::optional<std::uint64_t> heuristic =
        search_.space.index_of(search_.space.heuristic());
    std::uint64_t start = heuristic.value_or(random_point());
    for (int idle = 0; idle < kMostIdleRestarts && !stopped_;) {
      const std::size_t before = seen_.size();
      strategy == Strategy::coordinate ? descend(start) : anneal(start);
      idle = seen_.size() == before ? idle + 1 : 0;
      start = random_point();
    }
  }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  std::uint64_t random_point() { return random_.below(search_.space.size()); }

  double time(std::uint64_t index) {
    const auto known = seen_.find(index);
    if (known != seen_.end()) return known->second;
    if (stopped_) return kNone;
    const std::optional<double> ms = evaluate_(index);
    stopped_ = !ms;
    return ms ? seen_.emplace(index, *ms).first->second : kNone;
  }

  // Takes the best value of one parameter after the other, in random order, until a whole round
  // changes nothing.
  void descend(std::uint64_t at) {
    double best = time(at);
    for (bool moved = true; moved && !stopped_;) {
      moved = false;
      std::vector<Parameter> order;
      for (std::size_t i = 0; i < kNumParameters; ++i) order.push_back(static_cast<Parameter>(i));
      for (std::size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[random_.below(i)]);
      for (const Parameter parameter : order) {
        for (const std::uint64_t other : search_.space.line(at, parameter)) {
          const double ms = time(other);
          if (ms >= best) continue;
          best = ms;
          at = other;
          moved = true;
        }
      }
    }
  }

  void anneal(std::uint64_t at) {
    double current = time(at);
    for (double heat = kFirstHeat; heat > kLastHeat && !stopped_; heat *= kCooling) {
      const std::vector<std::uint64_t> neighbours = search_.space.neighbours(at);
      if (neighbours.empty()) return;
      const std::uint64_t other = neighbours[random_.below(neighbours.size())];
      const double ms = time(other);
      const bool better = ms < current;
      const double worse_by = std::isfinite(current) ? ms / current - 1 : 0;
      if (better || (std::isfinite(ms) && random_.uniform() < std::exp(-worse_by / heat))) {
        at = other;
        current = ms;
      }
    }
  }

  const Search& search_;
  const Evaluate& evaluate_;
  SearchRandom random_;
  std::unordered_map<std::uint64_t, double> seen_;
  bool stopped_ = false;
};

}  // namespace

void search_locally(Strategy strategy, const Search& search, const Evaluate& evaluate) {
  Walk(search, evaluate).run(strategy);
}

}  // namespace megaconv
