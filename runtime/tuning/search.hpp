// SPDX-License-Identifier: Apache-2.0
// Search strategies: each is a function that asks for the time of one point after the other.
// Whether that is measured now, or known from before, or not allowed, is the business of who
// answers.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "mapping/split_mix.hpp"
#include "megaconv/tuning.hpp"

namespace megaconv {

/// Milliseconds of a point; infinity when it has no right result; nullopt: stop, the budget is
/// spent.
using Evaluate = std::function<std::optional<double>(std::uint64_t index)>;

struct Search {
  const Space& space;
  /// Estimated milliseconds of a candidate, for Strategy::model.
  std::function<double(const Configuration&)> estimate;
  std::uint64_t seed = 1;
};

enum class Strategy : std::uint8_t { exhaustive, random, coordinate, annealing, model };
const char* to_string(Strategy strategy) noexcept;
/// Throws Error(invalid_argument) listing the names allowed.
Strategy parse_strategy(std::string_view name);

/// Runs until the strategy has nothing left to ask or is told to stop.
void run_search(Strategy strategy, const Search& search, const Evaluate& evaluate);

// One file a strategy.
void search_simple(Strategy strategy, const Search& search, const Evaluate& evaluate);
void search_locally(Strategy strategy, const Search& search, const Evaluate& evaluate);
void search_by_model(const Search& search, const Evaluate& evaluate);

/// The same numbers everywhere.
class SearchRandom : public SplitMix64 {
 public:
  using SplitMix64::SplitMix64;
  std::uint64_t below(std::uint64_t end) { return next() % end; }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
};

}  // namespace megaconv
