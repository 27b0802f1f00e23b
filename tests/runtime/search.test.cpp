// SPDX-License-Identifier: Apache-2.0
// Search strategies on a landscape that is known: what they find, and that they stop when told.
#include "runtime/tuning/search.hpp"

#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "tasks/cost_model.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/targets.hpp"

namespace megaconv {
namespace {

const ConvProblem kProblem = parse_problem("n4c64h28k64");
const Target kTarget{.backend = Backend::cpu, .workers = 2};

double estimate(const Configuration& configuration) {
  return estimate_ms(kProblem, apply(configuration, {}), kTarget);
}

// The cost model bent by effects that it does not know: what a device is to the search.
double landscape(const Configuration& configuration) {
  double ms = estimate(configuration);
  for (std::size_t i = 0; i < kNumParameters; ++i) {
    const auto value = configuration.get(static_cast<Parameter>(i));
    if (value)
      ms *= 1 + 0.08 * std::sin(static_cast<double>(31 * i) + 1.7 * static_cast<double>(*value));
  }
  return ms;
}

struct Found {
  double best = std::numeric_limits<double>::infinity();
  std::uint64_t evaluations = 0;
  std::set<std::uint64_t> seen;
};

Found search(Strategy strategy, const Space& space, std::uint64_t budget, std::uint64_t seed = 1) {
  Found found;
  run_search(strategy, {space, estimate, seed}, [&](std::uint64_t index) -> std::optional<double> {
    const Configuration configuration = space.at(index);
    if (space.rejection(configuration)) return std::numeric_limits<double>::infinity();
    if (found.evaluations == budget) return std::nullopt;
    CHECK(found.seen.insert(index).second);  // asked once
    ++found.evaluations;
    const double ms = landscape(configuration);
    found.best = std::min(found.best, ms);
    return ms;
  });
  return found;
}

Space small_space() {
  SpaceOptions options;
  options.plan.tiling.algorithm = Algorithm::winograd;
  options.axes = {{Parameter::input_channels, {1, 4}},
                  {Parameter::output_filters, {1, 4}},
                  {Parameter::gemm_filters, {2, 4}},
                  {Parameter::transform_tiles, {14}},
                  {Parameter::dgo, {1, 4}},
                  {Parameter::workers, {2}}};
  return make_space(kProblem, kTarget, options);
}

constexpr std::uint64_t kAll = 1'000'000;

TEST_CASE("exhaustive and random see every candidate once", "[tuning]") {
  const Space space = small_space();
  std::uint64_t candidates = 0;
  for (std::uint64_t i = 0; i < space.size(); ++i) candidates += !space.rejection(space.at(i));
  REQUIRE(candidates > 500);
  CHECK(search(Strategy::exhaustive, space, kAll).evaluations == candidates);
  CHECK(search(Strategy::random, space, kAll).evaluations == candidates);
}

TEST_CASE("A tenth of the measurements brings the model within 2 % of the optimum", "[tuning]") {
  const Space space = small_space();
  const Found all = search(Strategy::exhaustive, space, kAll);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Found model = search(Strategy::model, space, all.evaluations / 10, seed);
    CAPTURE(seed, all.best, model.best);
    CHECK(model.best <= all.best / 0.98);
  }
}

TEST_CASE("In a space of millions, the model ranks every point of the small grids", "[tuning]") {
  const ConvProblem problem = parse_problem("n64c64h56k64");
  PlanOptions plan;
  plan.backend = Backend::cuda;
  const Space space = make_space(problem, test::kHopper, {.plan = plan, .axes = {}});
  REQUIRE(space.size() > 1'000'000);
  const auto estimated = [&](const Configuration& configuration) {
    return estimate_ms(problem, apply(configuration, plan), test::kHopper);
  };
  // After the heuristic's choice, one kernel a stage, the same cut in one kernel: no other estimate
  // is as small, and it is three words away.
  std::vector<std::string> launches;
  run_search(Strategy::model, {space, estimated, 1}, [&](std::uint64_t index) {
    const Configuration configuration = space.at(index);
    launches.push_back(value_text(Parameter::launch, *configuration.get(Parameter::launch)));
    return launches.size() == 2 ? std::nullopt : std::optional(estimated(configuration));
  });
  CHECK(launches == std::vector<std::string>{"staged", "persistent"});
}

TEST_CASE("Every strategy stops at its budget and is the same for the same seed", "[tuning]") {
  const Space space = small_space();
  for (const Strategy strategy : {Strategy::exhaustive, Strategy::random, Strategy::coordinate,
                                  Strategy::annealing, Strategy::model}) {
    CAPTURE(to_string(strategy));
    CHECK(parse_strategy(to_string(strategy)) == strategy);
    const Found first = search(strategy, space, 40, 3);
    CHECK(first.evaluations == 40);
    CHECK(first.seen == search(strategy, space, 40, 3).seen);
  }
  CHECK_THROWS_WITH(parse_strategy("best"), ContainsSubstring("must be one of exhaustive, random"));
}

TEST_CASE("Local searches beat the heuristic's choice", "[tuning]") {
  const Space space = small_space();
  const double heuristic = landscape(space.heuristic());
  CHECK(search(Strategy::coordinate, space, 80).best < heuristic);
  CHECK(search(Strategy::annealing, space, 80).best < heuristic);
}

}  // namespace
}  // namespace megaconv
