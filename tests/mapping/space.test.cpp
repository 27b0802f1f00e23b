// SPDX-License-Identifier: Apache-2.0
// Configurations, search spaces and their constraints, without measuring anything.
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "megaconv/error.hpp"
#include "megaconv/tuning.hpp"
#include "tasks/cost_model.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"
#include "tasks/launch.hpp"
#include "tasks/tiling.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/targets.hpp"

namespace megaconv {
namespace {

const ConvProblem kProblem = parse_problem("n2c32h14k48");
const Target kCpu{.backend = Backend::cpu, .workers = 4};
const Target kCuda{.backend = Backend::cuda, .workers = 528, .cache_bytes_per_worker = 48 << 10};
using test::kHopper;

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

TEST_CASE("A network's space has launches, clusters and orders, and what is fixed stays",
          "[tuning]") {
  const Network network = make_network("resnet18", {.image = 64, .dtype = DataType::f16});
  Target hopper = kHopper;
  hopper.cluster_blocks = 4;
  const auto texts = [&](const Target& target, const PlanOptions& plan) {
    const Space space = make_space(network, target, with(plan));
    std::set<std::string> all;
    for (std::uint64_t i = 0; i < space.size(); ++i) {
      if (!space.rejection(space.at(i))) all.insert(to_string(space.at(i)));
    }
    return all;
  };
  const PlanOptions cuda{.backend = Backend::cuda};
  const std::set<std::string> on_gpu = texts(hopper, cuda);
  CHECK(on_gpu.size() == 8);
  CHECK(on_gpu.contains("policy=critical_path,launch=persistent,cluster=2"));
  CHECK(on_gpu.contains("policy=staged,launch=staged"));
  CHECK(on_gpu.contains("algo=small-gemm,policy=staged,launch=staged"));
  CHECK(texts(kHopper, cuda).size() == 4);  // without clusters
  PlanOptions one = cuda;
  one.cuda_launch = CudaLaunch::persistent;
  one.mapping.policy = "critical_path";
  CHECK(texts(hopper, one) ==
        std::set<std::string>{"policy=critical_path,launch=persistent,cluster=1",
                              "policy=critical_path,launch=persistent,cluster=2",
                              "policy=critical_path,launch=persistent,cluster=4"});
  one.cuda_launch = CudaLaunch::staged;
  CHECK(texts(hopper, one).empty());
  const std::set<std::string> on_cpu = texts(kCpu, {});
  CHECK(on_cpu.size() == 16);
  CHECK(on_cpu.contains("algo=direct,policy=depth_first,dig=16,workers=4"));
  CHECK(to_string(make_space(network, kCpu, {}).heuristic()) == "policy=interleaved,workers=4");
  CHECK_THROWS_AS(make_space(network, kCpu, with({.mapping = {.dgo = 3}})), Error);
}

TEST_CASE("A configuration is a text and comes back", "[tuning]") {
  const std::string text =
      "algo=winograd,tile=4,points=low-error,window=whole,policy=staged,workers=2";
  CHECK(to_string(parse_configuration(text)) == text);
  CHECK(parse_configuration("") == Configuration());
  for (const auto& [wrong, message] :
       {std::pair{"tile=5", "must be one of 2, 4, 4x6, 6"}, std::pair{"tile", "must be NAME=VALUE"},
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
    for (const char* policy : {"interleaved", "staged", "depth_first"}) {
      const ConvProblem p = parse_problem(problem);
      const Lowering first = lower(p, {}, {.policy = policy}, kCpu);
      const Configuration configuration = configuration_of(first, kCpu);
      const PlanOptions options = apply(configuration, {});
      const Lowering second = lower(p, options.tiling, options.mapping, kCpu);
      CAPTURE(problem, to_string(configuration));
      CHECK(second.tiling() == first.tiling());
      CHECK(second.mapping.order == first.mapping.order);
    }
  }
}

TEST_CASE("Every point has an index, and every index a point", "[tuning]") {
  for (const Target& target : {kCpu, kCuda, kHopper}) {
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
  for (const Target& target : {kCpu, kCuda, kHopper}) {
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
    // F(6x6), which a CPU has, was not asked for.
    CHECK(rules.count("tile") == (target.backend == Backend::cpu ? 1u : 0u));
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
  CHECK(rejection("algo=direct,policy=staged,workers=528,launch=staged") == "");
  CHECK(rejection("algo=direct,policy=staged,workers=132,launch=staged") ==
        "launch: staged, must be persistent unless workers is 528: its kernels take the whole "
        "device");
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

TEST_CASE("Transform tasks take a group's tiles or fewer, on CUDA in runs of V", "[tuning]") {
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
  const std::string split = "algo=winograd,tile=2,arithmetic=split-f16,group-tiles=64,";
  CHECK(reason(kHopper, (split + "transform-tiles=48").c_str()) == "");
  CHECK(reason(kHopper, (split + "transform-tiles=28").c_str()) ==
        "transform-tiles 28, must be a multiple of 16 or the whole group");
  const PlanOptions parts =
      apply(parse_configuration("algo=winograd,tile=2,group-tiles=56,transform-tiles=14"), {});
  const Lowering lowering = lower(kProblem, parts.tiling, parts.mapping, kCpu);
  CHECK(std::get<WinogradCut>(lowering.tiling().cut).tiles_per_transform_task == 14);
  CHECK(lowering.tiling().tiles()->group_tiles == 56);
  TilingOptions whole = parts.tiling;
  whole.tiles_per_transform_task = 112;
  CHECK(std::get<WinogradCut>(make_tiling(kProblem, whole, kCpu).cut).tiles_per_transform_task ==
        56);
}

TEST_CASE(
    "Implicit GEMM's space at the precision of TF32 has the way to operands that the heuristic "
    "takes",
    "[tuning]") {
  PlanOptions options{.backend = Backend::cuda};
  options.tiling.algorithm = Algorithm::implicit_gemm;
  options.tiling.precision = Precision::tf32;
  struct Case {
    const char* text;
    Operands operands;
  };
  for (const auto& [text, operands] : {Case{"n64c512h28k512+nhwc", Operands::in_copy},
                                       Case{"n64c32h208k64+nhwc", Operands::converted},
                                       Case{"n64c192h14k48+nhwc", Operands::in_float_tensor},
                                       Case{"n64c64h56k64", Operands::loaded}}) {
    const ConvProblem problem = parse_problem(text);
    const Space space = make_space(problem, kHopper, with(options));
    const Configuration heuristic = space.heuristic();
    CAPTURE(text, to_string(heuristic));
    CHECK(space.index_of(heuristic));
    CHECK_FALSE(space.rejection(heuristic));
    const LaunchChoice chosen = choose_launch(problem, apply(heuristic, options), kHopper);
    CHECK(std::get<ImplicitGemmCut>(make_tiling(problem, chosen.options.tiling, kHopper).cut)
              .operands == operands);
  }
}

// Its points are few enough to look at every one.
TEST_CASE(
    "Implicit GEMM's space has stripes, padded pixels and filters, and makes the plans it says",
    "[tuning]") {
  PlanOptions implicit_gemm{.backend = Backend::cuda};
  implicit_gemm.tiling.algorithm = Algorithm::implicit_gemm;
  for (const char* text : {"n64c64h56k64", "n1c512h14k512", "n2c24h9k31r1p0", "n1c16h300k96r5",
                           "c1h1k1", "n1c9h40k20d2", "n8c64h14k200r1p0+nhwc"}) {
    const ConvProblem problem = parse_problem(text);
    const Space space = make_space(problem, kHopper, with(implicit_gemm));
    CHECK(space.index_of(space.heuristic()));
    std::map<Parameter, std::set<std::int64_t>> tried;
    for (std::uint64_t index = 0; index < space.size(); ++index) {
      const Configuration configuration = space.at(index);
      CAPTURE(text, to_string(configuration));
      if (space.rejection(configuration)) continue;
      for (const Parameter parameter :
           {Parameter::gemm_filters, Parameter::cols, Parameter::places, Parameter::workers}) {
        tried[parameter].insert(configuration.get(parameter).value());
      }
      const PlanOptions options = apply(configuration, {.backend = Backend::cuda});
      const Lowering lowering = lower(problem, options.tiling, options.mapping, kHopper);
      REQUIRE(configuration_of(lowering, kHopper, options.cuda_launch) == configuration);
      REQUIRE(std::isfinite(estimate_ms(problem, options, kHopper)));
    }
    CAPTURE(text);
    CHECK(tried[Parameter::workers] == std::set<std::int64_t>{132});  // one task an SM
    CHECK((tried[Parameter::gemm_filters].size() > 1) == (problem.k > 64));
    CHECK((tried[Parameter::cols].size() > 1) == (problem.q() > 1));
    const bool more_than_a_step = problem.n * problem.h * problem.w > 64;
    CHECK((tried[Parameter::places].size() > 1) == more_than_a_step);
  }
  CHECK_THROWS_WITH(make_space(kProblem, kCuda, with(implicit_gemm)),
                    ContainsSubstring("no candidate has algo = implicit-gemm"));
}

TEST_CASE(
    "A cut that implicit GEMM cannot make, or that wastes pixels, is rejected with the reason",
    "[tuning]") {
  const auto reason = [](const char* problem, const char* text) {
    const Space space = make_space(parse_problem(problem), kHopper, {});
    const std::string all = std::string("algo=implicit-gemm,") + text;
    const auto found = space.rejection(parse_configuration(all));
    return found ? found->rule + ' ' + found->reason : std::string();
  };
  CHECK(reason("n64c64h56k64", "gemm-filters=4,cols=56,places=1792") == "");
  CHECK(reason("n64c64h224k64", "gemm-filters=4,cols=100,places=1792") ==
        "cols 100: a filter reaches 206 padded pixels, must be at most 128");
  CHECK(reason("n64c64h56k64", "gemm-filters=4,cols=57,places=1792") ==
        "cols 57: must be at most the 56 columns of y");
  CHECK(reason("n64c64h56k64", "gemm-filters=4,cols=56,places=1900") ==
        "places 1900, must be a multiple of the 8 padded pixels of a step");
  CHECK(reason("n64c64h56k128", "gemm-filters=8,cols=56,places=1984") == "");
  CHECK(reason("n1c64h7k128", "gemm-filters=8,cols=7,places=64") == "");  // 8 rows of 8
  CHECK(reason("n1c64h7k128", "gemm-filters=8,cols=7,places=128") ==
        "places 128, must be at most 64, the padded pixels of a stripe in whole steps");
  CHECK(reason("n64c64h56k128", "gemm-filters=2,cols=56,places=1792") ==
        "gemm-filters 2, must be 4 or 8, which tiles are made for, or all 8 lane blocks");
  CHECK(reason("n64c64h56k32", "gemm-filters=2,cols=56,places=1792") == "");
  CHECK(reason("n64c64h56k64", "gemm-filters=8,cols=56,places=1792") ==
        "gemm-filters 8, must be at most 4, the lane blocks of filters");
  CHECK(reason("n64c64h56k64", "cols=56,policy=staged,workers=132,launch=staged") == "");
  CHECK(reason("n16c64h7k64+nhwc+f16", "gemm-filters=4,cols=56,places=448") == "");
  CHECK(reason("n16c64h7k64+nhwc+f16", "gemm-filters=4,cols=50,places=448") ==
        "cols 50: must be all 7 columns of y, since x is read in place, or those of several images "
        "that have at most 256 with their padding");
  CHECK(reason("n16c64h7k64+nhwc+f16", "gemm-filters=4,cols=56,places=432") ==
        "places 432, must be a multiple of the 64 padded pixels of a row");
  CHECK(reason("n16c64h28k64r7+nhwc+f16", "gemm-filters=4,cols=224,places=248") ==
        "places 248, of which no tile has room for rows of 8 images abreast");
}

// H200, docs/performance.md: implicit GEMM takes 79 and 87 us, Winograd F(4x4) 97 and 76.
TEST_CASE("The cost model puts both algorithms of tensor cores on one scale", "[tuning]") {
  const auto us = [](const char* problem, const char* configuration) {
    return 1e3 * estimate_ms(parse_problem(problem),
                             apply(parse_configuration(configuration), {.backend = Backend::cuda}),
                             kHopper);
  };
  for (const auto& [problem, direct_us, winograd_us] :
       {std::tuple{"n64c128h28k128", 79.0, 97.0}, std::tuple{"n64c512h7k512", 87.0, 76.0}}) {
    CAPTURE(problem);
    CHECK(us(problem, "algo=implicit-gemm,policy=staged,launch=staged") ==
          Approx(direct_us).epsilon(0.25));
    CHECK(us(problem, "algo=winograd,window=whole,policy=staged,launch=staged") ==
          Approx(winograd_us).epsilon(0.25));
  }
  const char* const layer = "n64c64h56k64";
  CHECK(us(layer, "algo=implicit-gemm,places=256") > us(layer, "algo=implicit-gemm,places=1792"));
  CHECK(us(layer, "algo=implicit-gemm,policy=staged,launch=staged") <
        us(layer, "algo=implicit-gemm,launch=persistent"));
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
  staged.mapping.policy = "staged";
  CHECK_THAT(refusal(with(staged, {{Parameter::dig, {2}}})),
             ContainsSubstring("no candidate has dig = 2"));
}

}  // namespace
}  // namespace megaconv
