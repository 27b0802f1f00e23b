// SPDX-License-Identifier: Apache-2.0
// Small tiles as an algorithm of one convolution, without a GPU.
#include "tasks/small_gemm/small_gemm.hpp"

#include <set>
#include <string>

#include "megaconv/error.hpp"
#include "megaconv/lowering.hpp"
#include "megaconv/tuning.hpp"
#include "tasks/launch.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/targets.hpp"

namespace megaconv {
namespace {

using test::kAmpere;
using test::kHopper;

PlanOptions asked(Precision precision = Precision::f32,
                  Algorithm algorithm = Algorithm::small_gemm) {
  return {
      .tiling = {.algorithm = algorithm, .precision = precision, .filters = FilterMode::prepared},
      .backend = Backend::cuda};
}

Tiling chosen(const char* problem, const PlanOptions& options, const Target& target = kHopper) {
  return choose_launch(parse_problem(problem), options, target).tiling;
}

TEST_CASE("One convolution is cut into the small tiles that a network's is") {
  for (const char* text : {"n1c512h7k512+nhwc", "n2c3h37w40k24r7u2+nhwc+bias+residual",
                           "n1c48h14k48g48+nhwc+f16", "n1c24h23w31k16r5p3u3x2d2+nhwc+bf16"}) {
    const ConvProblem problem = parse_problem(text);
    CAPTURE(text);
    const LaunchChoice choice = choose_launch(problem, asked(Precision::tf32), kHopper);
    CHECK(choice.options.cuda_launch == CudaLaunch::staged);
    const Precision precision = problem.dtype == DataType::f32   ? Precision::tf32
                                : problem.dtype == DataType::f16 ? Precision::f16
                                                                 : Precision::bf16;
    const SmallGemmCut cut = cut_small_gemm(problem, precision, small_gemm_machine(kHopper));
    CHECK(std::get<SmallGemmCut>(choice.tiling.cut) == cut);
    const Lowering lowering =
        lower(problem, choice.options.tiling, choice.options.mapping, kHopper);
    CHECK(!validate(lowering.graph, lowering.mapping));
    CHECK(lowering.graph.tasks.size() == std::size_t{cut.num_groups} * cut.tasks_per_group);
  }
}

TEST_CASE("A mapping file and a configuration say what small tiles are cut into") {
  for (const char* text : {"n1c512h7k512+nhwc", "n2c3h37w40k24r7u2+nhwc+f16"}) {
    const ConvProblem problem = parse_problem(text);
    for (const char* sizes : {"", ",gemm-filters=1", ",rows=1,cols=4", ",gemm-filters=2,rows=2"}) {
      CAPTURE(text, sizes);
      const auto lowering_of = [&](const std::string& configuration) {
        const PlanOptions options = apply(parse_configuration(configuration), asked());
        return lower(problem, options.tiling, options.mapping, kHopper);
      };
      const Lowering lowering = lowering_of(std::string("algo=small-gemm") + sizes);
      const Configuration whole = configuration_of(lowering, kHopper, CudaLaunch::staged);
      CHECK(to_string(whole).find("algo=small-gemm,gemm-filters=") == 0);
      CHECK(lowering_of(to_string(whole)).tiling() == lowering.tiling());
      const std::string file = export_mapping(lowering);
      CHECK(import_mapping(file).tiling() == lowering.tiling());
      CHECK(export_mapping(import_mapping(file)) == file);
    }
  }
}

TEST_CASE("What small tiles cannot do is refused by name") {
  const auto refusal = [](const char* problem, auto change) -> std::string {
    PlanOptions options = asked();
    change(options);
    try {
      chosen(problem, options);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  const auto nothing = [](PlanOptions&) {};
  const char* const plain = "n1c16h8k16+nhwc";
  CHECK(refusal(plain, nothing).empty());
  CHECK(refusal("n1c16h8k16", nothing) == "small_gemm: layout nchw, must be nhwc");
  CHECK(refusal("n1c16h8k16+nhwc+i8", nothing) ==
        "small_gemm: storage type i8, must be f32, f16 or bf16");
  CHECK(refusal("n1c16h8k16+nhwc+scale", nothing) ==
        "small_gemm: epilogue scale, must be left out");
  CHECK(refusal(plain, [](auto& o) { o.tiling.filters = FilterMode::every_run; }) ==
        "small_gemm: filters every_run, must be prepared");
  CHECK(refusal(plain, [](auto& o) { o.tiling.arithmetic = Arithmetic::fma; }) ==
        "small_gemm: arithmetic fma, must be one of tensor cores");
  CHECK(refusal(plain, [](auto& o) { o.tiling.arithmetic = Arithmetic::tf32; }) ==
        "arithmetic tf32 in small_gemm, on f32 tensors: must be split_f16 or f16");
  CHECK(refusal(plain, [](auto& o) { o.tiling.rows_per_group = 9; }) ==
        "rows_per_group = 9: must be 1 to 8");
  CHECK(refusal(plain, [](auto& o) { o.tiling.filter_blocks_per_gemm_task = 3; }) ==
        "warps 3 x 1 x 2: must be 8 in all");
  for (const CudaLaunch launch : {CudaLaunch::persistent, CudaLaunch::one_block_per_task}) {
    CHECK(refusal(plain, [&](auto& o) { o.cuda_launch = launch; }) ==
          std::string("small_gemm: launch ") + to_string(launch) + ", must be staged");
  }
  CHECK(refusal(plain, [](auto& o) { o.mapping.policy = "depth_first"; }) ==
        "small_gemm: launch persistent, must be staged");
}

TEST_CASE("Tasks compute their x only of a depthwise convolution, and of a 1x1 one in front") {
  const ConvProblem last = parse_problem("n1c96h14w14k24r1s1p0+nhwc+f16");
  const ConvProblem middle = parse_problem("n1c96h28w28k96r3s3p1u2g96+nhwc+f16+bias");
  const ConvProblem first = parse_problem("n1c16h28w28k96r1s1p0+nhwc+f16");
  const auto cut = [](const ConvProblem& problem, const InputMakers& makers) {
    return cut_small_gemm(problem, Precision::f16, small_gemm_machine(kHopper), {}, {}, {}, makers);
  };
  CHECK(to_string(cut(last, {middle, first})).find("and of that x: n1c16h28") != std::string::npos);
  const auto is_refused = [&](const ConvProblem& of, const InputMakers& makers) {
    try {
      cut(of, makers);
    } catch (const Error& error) {
      CHECK(error.status() == Status::unsupported);
      return std::string(error.what()).find("must be apart") != std::string::npos;
    }
    return false;
  };
  const auto changed = [](ConvProblem problem, auto change) {
    change(problem);
    return problem;
  };
  CHECK(is_refused(last, {.expand = first}));
  CHECK(is_refused(last, {middle, changed(first, [](auto& a) { a.r = a.s = 3, a.pad_h = 1; })}));
  CHECK(is_refused(last, {middle, changed(first, [](auto& a) { a.epilogue.residual = true; })}));
  CHECK(is_refused(last, {changed(middle, [](auto& a) { a.groups = 1; })}));
  CHECK(is_refused(last, {changed(middle, [](auto& a) { a.dilation_h = 2; })}));
  CHECK(is_refused(last, {changed(middle, [](auto& a) { a.h = 30; })}));
  CHECK(is_refused(changed(last, [](auto& a) { a.stride_h = 2; }), {middle}));
  SmallGemmCut pairs = cut(last, {middle});
  pairs.pairs.inputs = true;
  CHECK_THROWS_AS(derive_counts(pairs), Error);
}

TEST_CASE("Small layers have small tiles unasked, where filters are prepared and stages run") {
  const auto takes = [](const char* problem, auto change, const Target& target = kHopper) {
    PlanOptions options = asked(Precision::f32, Algorithm::automatic);
    change(options);
    return chosen(problem, options, target).algorithm() == Algorithm::small_gemm;
  };
  const auto nothing = [](PlanOptions&) {};
  const char* const layer = "n1c256h14k256r1p0+nhwc";
  CHECK(takes(layer, nothing));
  CHECK(takes("n4c24h18k8r1s3+nhwc", nothing));
  CHECK_FALSE(takes("n32c256h56k64r1+nhwc", nothing));
  CHECK_FALSE(takes("n64c256h56k256+nhwc+f16", nothing));
  CHECK_FALSE(takes("n1c256h14k256r1p0", nothing));
  CHECK_FALSE(takes(layer, nothing, kAmpere));
  CHECK_FALSE(takes(layer, [](auto& o) { o.tiling.filters = FilterMode::every_run; }));
  CHECK_FALSE(takes(layer, [](auto& o) { o.tiling.arithmetic = Arithmetic::fma; }));
  CHECK_FALSE(takes(layer, [](auto& o) { o.tiling.m = 2; }));
  CHECK_FALSE(takes(layer, [](auto& o) { o.cuda_launch = CudaLaunch::persistent; }));
  CHECK_FALSE(takes(layer, [](auto& o) { o.mapping.policy = "depth_first"; }));
  CHECK_FALSE(takes(layer, [](auto& o) { o.num_blocks = 100; }));
}

TEST_CASE("The space of small tiles makes the plans it says", "[tuning]") {
  for (const char* text : {"n1c512h7k512+nhwc", "n1c64h56k64+nhwc+f16", "n1c1h1k1+nhwc"}) {
    const ConvProblem problem = parse_problem(text);
    const Space space = make_space(problem, kHopper, {.plan = asked()});
    CHECK(space.index_of(space.heuristic()));
    std::set<std::int64_t> filters;
    for (std::uint64_t index = 0; index < space.size(); ++index) {
      const Configuration configuration = space.at(index);
      CAPTURE(text, to_string(configuration));
      if (space.rejection(configuration)) continue;
      filters.insert(configuration.get(Parameter::gemm_filters).value());
      const LaunchChoice choice = choose_launch(problem, apply(configuration, asked()), kHopper);
      const Lowering lowering =
          lower(problem, choice.options.tiling, choice.options.mapping, kHopper);
      REQUIRE(configuration_of(lowering, kHopper, choice.options.cuda_launch) == configuration);
    }
    CHECK((filters.size() > 1) == (problem.k > 16));
  }
}

}  // namespace
}  // namespace megaconv
