// SPDX-License-Identifier: Apache-2.0
// The names of the strategies, and those that need no idea: all points, and random ones.
#include "runtime/tuning/search.hpp"

#include <unordered_set>

#include "mapping/enum_names.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"

namespace megaconv {
namespace {

constexpr std::pair<Strategy, const char*> kStrategyNames[] = {
    {Strategy::exhaustive, "exhaustive"}, {Strategy::random, "random"},
    {Strategy::coordinate, "coordinate"}, {Strategy::annealing, "annealing"},
    {Strategy::model, "model"},
};

}  // namespace

const char* to_string(Strategy strategy) noexcept { return name_of(kStrategyNames, strategy); }

Strategy parse_strategy(std::string_view name) {
  if (const auto strategy = value_of(kStrategyNames, name)) return *strategy;
  throw Error(Status::invalid_argument,
              "strategy \"" + excerpt(name) + "\", must be one of " + list_names(kStrategyNames));
}

void run_search(Strategy strategy, const Search& search, const Evaluate& evaluate) {
  switch (strategy) {
    case Strategy::exhaustive:
    case Strategy::random:
      return search_simple(strategy, search, evaluate);
    case Strategy::coordinate:
    case Strategy::annealing:
      return search_locally(strategy, search, evaluate);
    case Strategy::model:
      return search_by_model(search, evaluate);
  }
}

void search_simple(Strategy strategy, const Search& search, const Evaluate& evaluate) {
  const std::uint64_t size = search.space.size();
  if (strategy == Strategy::exhaustive) {
    for (std::uint64_t index = 0; index < size; ++index) {
      if (!evaluate(index)) return;
    }
    return;
  }
  // Without replacement: the last few of a small space take many draws, which cost nothing.
  SearchRandom random(search.seed);
  std::unordered_set<std::uint64_t> seen;
  while (seen.size() < size) {
    const std::uint64_t index = random.below(size);
    if (seen.insert(index).second && !evaluate(index)) return;
  }
}

}  // namespace megaconv
