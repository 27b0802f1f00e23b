// SPDX-License-Identifier: Apache-2.0
// Configurations, search spaces and their constraints, without measuring anything.
#include <cmath>
#include <set>

#include "mapping/cost_model.hpp"
#include "megaconv/error.hpp"
#include "megaconv/tuning.hpp"
#include "tests/catch.hpp"

namespace megaconv {
namespace {

const ConvProblem kProblem = parse_problem("n2c32h14k48");
const Target kCpu{.backend = Backend::cpu, .workers = 4};
const Target kCuda{.backend = Backend::cuda, .workers = 528, .cache_bytes_per_worker = 48 << 10};

SpaceOptions with(const PlanOptions& plan, std::vector<Axis> axes = {}) {
  return {.plan = plan, .axes = std::move(axes)};
}

std::string refusal(const SpaceOptions& options, const ConvProblem& problem = kProblem) {
  try {
    make_space(problem, kCpu, options);
    return "made";
  } catch (const Error& error) {
    CHECK(error.status() == Status::invalid_argument);
    return error.what();
  }
}

TEST_CASE("A configuration is a text and comes back", "[tuning]") {
  const std::string text =
      "algo=winograd,tile=4,points=low-error,window=whole,policy=staged,workers=2";
  CHECK(to_string(parse_configuration(text)) == text);
  CHECK(parse_configuration("") == Configuration());
  for (const auto& [wrong, message] :
       {std::pair{"tile=5", "m = 5"}, std::pair{"tile", "must be NAME=VALUE"},
        std::pair{"tile=2,tile=2", "given twice"}, std::pair{"size=2", "must be one of algo, tile"},
        std::pair{"policy=best", "must be one of interleaved"},
        std::pair{"dig=0", "a number of 1 to 2^31"},
        std::pair{"dig=1x", "a number of 1 to 2^31"}}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH(parse_configuration(wrong), ContainsSubstring(message));
  }
}

TEST_CASE("Applying a lowering's own configuration gives the same lowering", "[tuning]") {
  for (const char* problem : {"n2c32h14k48", "n1c3h20k8r5u2", "n1c16h9k64"}) {
    for (const Policy policy : {Policy::interleaved, Policy::staged, Policy::depth_first}) {
      const ConvProblem p = parse_problem(problem);
      const Lowering first = lower(p, {}, {.policy = policy}, kCpu);
      const Configuration configuration = configuration_of(first, kCpu);
      const PlanOptions options = apply(configuration, {});
      const Lowering second = lower(p, options.tiling, options.mapping, kCpu);
      CAPTURE(problem, to_string(configuration));
      CHECK(second.graph.tiling == first.graph.tiling);
      CHECK(second.mapping.order == first.mapping.order);
    }
  }
}

TEST_CASE("Every point has an index, and every index a point", "[tuning]") {
  for (const Target& target : {kCpu, kCuda}) {
    const Space space = make_space(kProblem, target, {});
    CHECK(space.index_of(space.heuristic()));
    for (std::uint64_t index = 0; index < space.size(); index += 97) {
      CHECK(space.index_of(space.at(index)) == index);
    }
    CHECK(space.index_of(space.at(space.size() - 1)) == space.size() - 1);
  }
}

TEST_CASE("Neighbours and lines differ in one parameter", "[tuning]") {
  PlanOptions winograd;
  winograd.tiling.algorithm = Algorithm::winograd;
  const Space space = make_space(kProblem, kCpu, with(winograd));
  const std::uint64_t index = *space.index_of(space.heuristic());
  const auto differences = [&](std::uint64_t other) {
    int count = 0;
    for (std::size_t i = 0; i < kNumParameters; ++i) {
      const auto parameter = static_cast<Parameter>(i);
      count += space.at(index).get(parameter) != space.at(other).get(parameter);
    }
    return count;
  };
  CHECK(!space.neighbours(index).empty());
  for (const std::uint64_t other : space.neighbours(index)) CHECK(differences(other) == 1);
  CHECK(!space.line(index, Parameter::dig).empty());
  for (const std::uint64_t other : space.line(index, Parameter::dig))
    CHECK(differences(other) == 1);
}

TEST_CASE("Every candidate that is not rejected can be planned", "[tuning]") {
  for (const Target& target : {kCpu, kCuda}) {
    const Space space = make_space(kProblem, target, {});
    std::set<std::string> rules;
    int candidates = 0;
    for (std::uint64_t index = 0; index < space.size(); index += 211) {
      const Configuration configuration = space.at(index);
      if (const auto rejection = space.rejection(configuration)) {
        rules.insert(rejection->rule);
        continue;
      }
      ++candidates;
      const PlanOptions options = apply(configuration, {.backend = target.backend});
      CAPTURE(to_string(configuration));
      CHECK_NOTHROW(lower(kProblem, options.tiling, options.mapping, target));
      CHECK(std::isfinite(estimate_ms(kProblem, options, target)));
    }
    CHECK(candidates > 20);
    CHECK(rules.count("tile") == 1);  // F(6x6) has not been asked for
    CHECK(rules.count("group-tiles") == 1);
  }
}

TEST_CASE("What is fixed stays fixed, and values replace a parameter's own", "[tuning]") {
  PlanOptions plan;
  plan.tiling.algorithm = Algorithm::winograd;
  plan.tiling.m = 6;
  const Space space = make_space(
      kProblem, kCpu, with(plan, {{Parameter::dig, {3, 1}}, {Parameter::m_groups, {2}}}));
  std::set<std::int64_t> digs;
  bool any = false;
  for (std::uint64_t index = 0; index < space.size(); ++index) {
    const Configuration configuration = space.at(index);
    CHECK(configuration.get(Parameter::tile) == 6);
    CHECK(configuration.get(Parameter::algo) == static_cast<std::int64_t>(Algorithm::winograd));
    if (const auto dig = configuration.get(Parameter::dig)) digs.insert(*dig);
    any = any || !space.rejection(configuration);
  }
  CHECK(any);  // asked for by name, F(6x6) is a candidate
  CHECK(digs == std::set<std::int64_t>{1, 3});
}

TEST_CASE("A launch that does not go with the order is rejected, with the reason", "[tuning]") {
  const Space space = make_space(kProblem, kCuda, {});
  const auto rejection = [&](const char* text) {
    const auto found = space.rejection(parse_configuration(text));
    return found ? found->rule + ": " + found->reason : std::string();
  };
  const std::string winograd = "algo=winograd,tile=4,group-tiles=32,transform-tiles=32,";
  const auto with_order = [&](const char* order) { return rejection((winograd + order).c_str()); };
  CHECK(with_order("window=whole,policy=staged,launch=staged") == "");
  CHECK(with_order("window=whole,policy=depth_first,launch=persistent") == "");
  CHECK(with_order("window=whole,policy=depth_first,launch=staged") ==
        "launch: staged, must be persistent unless policy is staged");
  CHECK(rejection("algo=direct,policy=staged,launch=staged") == "");
  CHECK(rejection("algo=direct,policy=interleaved,launch=staged") ==
        "launch: staged, must be persistent unless policy is staged");

  std::set<std::string> launches;
  for (std::uint64_t index = 0; index < space.size(); index += 7) {
    launches.insert(value_text(Parameter::launch, *space.at(index).get(Parameter::launch)));
  }
  CHECK(launches == std::set<std::string>{"persistent", "staged"});
  CHECK(!make_space(kProblem, kCpu, {}).at(0).get(Parameter::launch));  // a CPU has one way

  const PlanOptions staged =
      apply(parse_configuration("launch=staged"), {.backend = Backend::cuda});
  CHECK(staged.cuda_launch == CudaLaunch::staged);
  CHECK(fixed_value(Parameter::launch, staged) == static_cast<int>(CudaLaunch::staged));
  CHECK(!fixed_value(Parameter::launch, {}));
}

TEST_CASE("Transform tasks take a group's tiles or fewer, on CUDA in runs of four", "[tuning]") {
  const auto reason = [&](const Target& target, const char* text) {
    const auto found = make_space(kProblem, target, {}).rejection(parse_configuration(text));
    return found ? found->rule + ' ' + found->reason : std::string();
  };
  CHECK(reason(kCpu, "algo=winograd,tile=2,group-tiles=56,transform-tiles=14") == "");
  CHECK(reason(kCpu, "algo=winograd,tile=2,group-tiles=28,transform-tiles=56") ==
        "transform-tiles 56, must be less than twice the 28 tiles of a group");
  CHECK(reason(kCpu, "algo=winograd,tile=2,group-tiles=17,transform-tiles=28") == "");
  CHECK(reason(kCuda, "algo=winograd,tile=2,group-tiles=30,transform-tiles=30") == "");
  CHECK(reason(kCuda, "algo=winograd,tile=2,group-tiles=64,transform-tiles=30") ==
        "transform-tiles 30, must be a multiple of 4 or the whole group");
  const PlanOptions parts =
      apply(parse_configuration("algo=winograd,tile=2,group-tiles=56,transform-tiles=14"), {});
  const Lowering lowering = lower(kProblem, parts.tiling, parts.mapping, kCpu);
  CHECK(lowering.graph.tiling.tiles_per_transform_task == 14);
  CHECK(lowering.graph.tiling.group_tiles == 56);
  TilingOptions whole = parts.tiling;
  whole.tiles_per_transform_task = 112;
  CHECK(make_tiling(kProblem, whole, kCpu).tiles_per_transform_task == 56);
}

TEST_CASE("Contradictions and empty spaces say why", "[tuning]") {
  PlanOptions four;
  four.tiling.m = 4;
  CHECK_THAT(refusal(with(four, {{Parameter::tile, {2}}})),
             ContainsSubstring("tile is fixed to 4"));
  CHECK_THAT(refusal(with({}, {{Parameter::group_tiles, {4000}},
                               {Parameter::algo, {static_cast<int>(Algorithm::winograd)}}})),
             ContainsSubstring("all rejected; most often: group-tiles 4000, must be at most"));
  CHECK_THAT(refusal(with({}, {{Parameter::algo, {static_cast<int>(Algorithm::opencnn)}}})),
             ContainsSubstring("no candidate has algo = opencnn"));
  CHECK_THAT(refusal(with({}, {{Parameter::dig, {}}})), ContainsSubstring("dig: no values"));
  PlanOptions staged;
  staged.mapping.policy = Policy::staged;
  CHECK_THAT(refusal(with(staged, {{Parameter::dig, {2}}})),
             ContainsSubstring("no candidate has dig = 2"));
}

}  // namespace
}  // namespace megaconv
