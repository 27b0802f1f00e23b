// SPDX-License-Identifier: Apache-2.0
// Winograd with one product of FP16 numbers: when it is chosen, what it is made of, what is
// refused; without a GPU.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>

#include "megaconv/error.hpp"
#include "megaconv/tuning.hpp"
#include "tasks/cost_model.hpp"
#include "tasks/winograd/winograd.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"
#include "tests/mapping/targets.hpp"

namespace megaconv {
namespace {

using test::kAmpere;
using test::kAmpereMma;
using test::kHopper;

Tiling tile(const char* problem, const TilingOptions& options, const Target& target = kHopper) {
  return make_tiling(parse_problem(problem), options, target);
}

Tiling winograd(const char* problem, TilingOptions options = {}, const Target& target = kHopper) {
  options.algorithm = Algorithm::winograd;
  return tile(problem, options, target);
}

WinogradCut cut_of(const Tiling& tiling) { return std::get<WinogradCut>(tiling.cut); }

std::string refusal(const char* problem, const TilingOptions& options) {
  return test::error_of([&] { tile(problem, options); }, Status::unsupported);
}

TEST_CASE(
    "on a warp's tensor cores there is Winograd, and no implicit GEMM unless it is asked for") {
  for (const char* layer : {"n64c128h28k128", "n64c128h28k128+f16+nhwc", "n1c512h7k512",
                            "n1c64h28k64+bf16", "n8c256h56k64r1p0", "n8c64h28k64r5p2"}) {
    CAPTURE(layer);
    const Tiling tiling = tile(layer, {}, kAmpereMma);
    CHECK(tiling.algorithm() != Algorithm::implicit_gemm);
    if (tiling.algorithm() != Algorithm::winograd) continue;
    CHECK(tiling.arithmetic ==
          (tiling.problem.dtype == DataType::f32 ? Arithmetic::split_f16 : Arithmetic::f16));
  }
  CHECK(tile("n64c128h28k128", {}, kAmpereMma).algorithm() == Algorithm::winograd);
  CHECK(tile("n64c128h28k128", {.algorithm = Algorithm::implicit_gemm}, kAmpereMma).algorithm() ==
        Algorithm::implicit_gemm);
}

TEST_CASE("Winograd takes one product where tensors or precision permit it, and tensor cores run") {
  const char* const layer = "n64c128h28k128";
  CHECK(winograd(layer).arithmetic == Arithmetic::split_f16);
  for (const Precision precision : {Precision::tf32, Precision::f16, Precision::bf16}) {
    CHECK(winograd(layer, {.precision = precision}).arithmetic == Arithmetic::f16);
    // F(2x2) has no such tasks: more accurate ones are permitted, too.
    CHECK(winograd(layer, {.m = 2, .precision = precision}).arithmetic == Arithmetic::split_f16);
    CHECK(winograd(layer, {.m = 6, .precision = precision}, {}).arithmetic == Arithmetic::fma);
    CHECK(winograd(layer, {.precision = precision}, kAmpere).arithmetic == Arithmetic::fma);
    CHECK(winograd(layer, {.precision = precision}, {}).arithmetic == Arithmetic::fma);
    const TilingOptions split{.precision = precision, .arithmetic = Arithmetic::split_f16};
    CHECK(winograd(layer, split).arithmetic == Arithmetic::split_f16);
  }
  CHECK(winograd(layer, {.arithmetic = Arithmetic::f16}).arithmetic == Arithmetic::f16);
  CHECK(winograd("n64c128h28k128+f16").arithmetic == Arithmetic::f16);
  CHECK(winograd("n64c128h28k128+bf16").arithmetic == Arithmetic::f16);
  CHECK(winograd("n64c128h28k128+bf16", {}, {}).arithmetic == Arithmetic::fma);
}

TEST_CASE("One product is of F(4x4) unless another tile is asked for") {
  CHECK(winograd("n64c512h2k1024").tiles()->m ==
        2);  // the outputs fill a quarter of a tile of 4 x 4
  CHECK(winograd("n64c512h2k1024", {.precision = Precision::tf32}).tiles()->m == 4);
  // Too few tasks of F(4x4): three products of F(2x2) take no longer.
  const Tiling few = winograd("c512h7k512", {.precision = Precision::tf32});
  CHECK(few.tiles()->m == 2);
  CHECK(few.arithmetic == Arithmetic::split_f16);
  CHECK(winograd("c512h7k512", {.m = 4, .precision = Precision::tf32}).arithmetic ==
        Arithmetic::f16);
  CHECK(winograd("c512h7k512+f16").tiles()->m == 4);
  CHECK(winograd("n64c128h28k128", {.points = Points::integer, .precision = Precision::tf32})
            .arithmetic == Arithmetic::split_f16);
  CHECK(winograd("n64c512h2k512", {.arithmetic = Arithmetic::f16}).tiles()->m == 4);
  CHECK(winograd("n64c512h2k512+f16").tiles()->m == 4);
  CHECK(winograd("n64c512h2k512+f16", {}, {}).tiles()->m == 2);
}

TEST_CASE("F(6x6) is the CPU's") {
  CHECK(winograd("c64h28k64", {.m = 6}, {}).tiles()->m == 6);
  CHECK(refusal("c64h28k64", {.algorithm = Algorithm::winograd, .m = 6}) ==
        "winograd, m = 6 on backend cuda: must be 2 or 4");
}

TEST_CASE("Arithmetic without tasks is refused, with what must be otherwise") {
  using A = Algorithm;
  const auto ends = [](const std::string& text, const char* end) {
    CAPTURE(text);
    return text.ends_with(end);
  };
  CHECK(refusal("c64h28k64", {.algorithm = A::winograd, .m = 2, .arithmetic = Arithmetic::f16}) ==
        "arithmetic f16 in winograd, m = 2, on f32 tensors: must be m = 4");
  CHECK(ends(refusal("c64h28k64+f16", {.algorithm = A::winograd, .m = 2}), "must be m = 4"));
  CHECK(ends(refusal("c64h28k64+f16", {.algorithm = A::winograd, .points = Points::integer}),
             "must be low_error points"));
  CHECK(ends(
      refusal("c64h28k64+bf16", {.algorithm = A::winograd, .arithmetic = Arithmetic::split_f16}),
      "must be f32 tensors"));
  CHECK(ends(refusal("c64h28k64+bf16", {.algorithm = A::winograd, .arithmetic = Arithmetic::bf16}),
             "must be implicit_gemm"));
  CHECK(ends(refusal("c64h28k64", {.algorithm = A::direct, .arithmetic = Arithmetic::f16}),
             "must be fma or tf32"));
  CHECK(ends(refusal("c8h28k64+f16", {.algorithm = A::direct, .arithmetic = Arithmetic::f16}),
             "must be fma, or layout nhwc"));
  CHECK(ends(refusal("c64h28k64+nhwc", {.algorithm = A::direct, .arithmetic = Arithmetic::tf32}),
             "must be fma, or sums of fewer terms, or fewer filters"));
  CHECK(ends(refusal("c64h28k64", {.arithmetic = Arithmetic::bf16}), "must be fma or tf32"));
}

TEST_CASE("V, U and M of one product have 2 bytes a number") {
  const Tiling split = winograd("n64c128h28k192");
  const Tiling one = winograd("n64c128h28k192", {.precision = Precision::tf32});
  REQUIRE(one.tiles()->group_tiles == split.tiles()->group_tiles);
  CHECK(2 * one.v_slot_bytes() == split.v_slot_bytes());
  CHECK(2 * one.u_bytes() == split.u_bytes());
  CHECK(2 * one.m_slot_bytes() == split.m_slot_bytes());
  CHECK(one.m_slot_bytes() == 36u * 192 * one.tiles()->group_tiles * 2);
}

TEST_CASE("Tasks of one product are those of three, with more channels each") {
  for (const char* text : {"n64c64h56k64+f16", "n64c128h28k128+bf16", "n64c256h14k256",
                           "n64c512h7k512", "n2c24h9k31", "c1h1k1+f16"}) {
    const TilingOptions permitted{.arithmetic = Arithmetic::f16};
    const Tiling tiling = winograd(text, permitted);
    CAPTURE(text, to_string(tiling));
    CHECK(tiling.arithmetic == Arithmetic::f16);
    CHECK(tiling.tiles()->group_tiles == std::min<std::uint64_t>(128, tiling.tiles()->num_tiles));
    CHECK(cut_of(tiling).filter_blocks_per_gemm_task == std::min(tiling.filter_blocks(), 8u));
    Lowering lowering = cut(tiling);
    lowering.mapping = make_mapping(lowering.graph, {}, {kHopper.workers, true});
    CHECK_FALSE(validate(lowering.graph, lowering.mapping));
    CHECK(import_mapping(export_mapping(lowering)).tiling() == tiling);
  }
  CHECK(cut_of(winograd("n64c256h56k256+f16")).positions_per_gemm_task == 8);  // 2048 / 256
  CHECK(cut_of(winograd("n64c256h56k256")).positions_per_gemm_task == 4);
}

// H200, microseconds with 1, 2, 3, 4, 6 and 9 positions: n128c512h7k512 133, 140, 117, 134, 127,
// 152; n64c512h14k512 217, 214, 207, 235, 203, 192, and 192 with 5, two tasks a multiprocessor.
TEST_CASE("In stages tasks of three products have as many positions as fill the multiprocessors") {
  TilingOptions options;
  options.whole_tensors = true;
  for (const char* text : {"n128c512h7k512", "n64c512h14k512"}) {
    // Positions of the multiprocessor slot that has the most.
    const auto most_of = [&](std::uint32_t positions) {
      options.positions_per_gemm_task = positions;
      const Tiling tiling = winograd(text, options);
      return ceil_div(tiling.num_groups * tiling.gemm_tasks, 2 * kHopper.multiprocessors) *
             cut_of(tiling).positions_per_gemm_task;
    };
    const std::uint32_t chosen = most_of(0);
    for (std::uint32_t positions = 1; positions <= 36; ++positions) {
      CAPTURE(text, chosen, positions);
      CHECK(chosen <= most_of(positions));
    }
  }
  options.positions_per_gemm_task = 4;
  CHECK(cut_of(winograd("n64c512h14k512", options)).positions_per_gemm_task == 4);
}

TEST_CASE("Transform tasks on tensor cores are short in stages, and write V in whole runs") {
  // kHopper: 264 workers. Tasks of 64 and of 32 tiles: so many waves, of which the latter take
  // 0.53.
  const TilingOptions staged{.m = 4, .whole_tensors = true};
  CHECK(cut_of(winograd("n64c256h56k256", staged)).tiles_per_transform_task == 64);  // 12 and 24
  CHECK(cut_of(winograd("n64c256h26k512", staged)).tiles_per_transform_task == 32);  // 4 and 7
  CHECK(cut_of(winograd("n128c512h7k512", staged)).tiles_per_transform_task == 64);  // 1 and 2
  CHECK(cut_of(winograd("n64c512h7k512", staged)).tiles_per_transform_task == 32);   // 1 and 1
  CHECK(cut_of(winograd("n1c512h7k512", staged)).tiles_per_transform_task ==
        4);  // all that there are
  CHECK(cut_of(winograd("n64c256h56k256", {.m = 4})).tiles_per_transform_task == 128);
  // Few tasks that cost tickets: half of 96 tiles are whole runs, half of 72 are not.
  CHECK(cut_of(winograd("n6c64h16k64", {.m = 4})).tiles_per_transform_task == 48);
  CHECK(cut_of(winograd("n8c64h12k64", {.m = 4})).tiles_per_transform_task == 72);
  for (const char* problem : {"n64c256h56k256", "n5c48h23k80", "n64c512h7k512", "n3c40h29w27k70"}) {
    for (const TilingOptions& options : {staged, TilingOptions{.m = 4}}) {
      const Tiling t = winograd(problem, options);
      const WinogradCut cut = cut_of(t);
      CAPTURE(problem, cut.tiles_per_transform_task, cut.group_tiles);
      CHECK((cut.tiles_per_transform_task % tiles_of_v_run(t.arithmetic) == 0 ||
             cut.tiles_per_transform_task == cut.group_tiles));
    }
  }
}

// H200: where both are possible the estimates decide; the layers here are far from where they meet.
TEST_CASE("Tensors of 16 bits and lower precision take Winograd on CUDA where it is faster") {
  const auto chosen = [](const char* text, const TilingOptions& options = {},
                         const Target& target = kHopper) {
    return tile(text, options, target).algorithm();
  };
  for (const char* text : {"n16c2048h28k2048+f16", "n16c2048h28k2048+bf16"}) {
    CHECK(chosen(text) == Algorithm::winograd);
    CHECK(chosen(text, {.arithmetic = Arithmetic::f16}) == Algorithm::winograd);
  }
  CHECK(chosen("n16c2048h28k2048", {.precision = Precision::tf32}) == Algorithm::winograd);
  CHECK(chosen("n64c64h56k64+f16") == Algorithm::implicit_gemm);
  CHECK(chosen("n64c64h56k64", {.precision = Precision::tf32}) == Algorithm::implicit_gemm);
  // Who names what only one of them has, gets that.
  CHECK(chosen("n16c2048h28k2048+bf16", {.arithmetic = Arithmetic::bf16}) ==
        Algorithm::implicit_gemm);
  CHECK(chosen("n64c64h56k64+bf16", {.arithmetic = Arithmetic::f16}) == Algorithm::winograd);
  CHECK(chosen("n64c64h56k64+f16", {.m = 4}) == Algorithm::winograd);
  // Too small for either to pay: no other tasks there take such tensors.
  CHECK(chosen("c3h5k2+f16") == Algorithm::implicit_gemm);
  CHECK(chosen("c3h5k2p3+f16") == Algorithm::winograd);  // implicit GEMM: padding less than 3
  CHECK(chosen("c3h5k2p3") == Algorithm::direct);
  CHECK(chosen("c3h5k2p3", {.precision = Precision::tf32}) == Algorithm::direct);
}

std::set<std::string> arithmetics_of(const Space& space) {
  std::set<std::string> found;
  for (std::uint64_t index = 0; index < space.size(); index += 13) {
    const Configuration configuration = space.at(index);
    const auto arithmetic = configuration.get(Parameter::arithmetic);
    if (arithmetic && !space.rejection(configuration)) {
      found.insert(value_text(Parameter::arithmetic, *arithmetic));
    }
  }
  return found;
}

TEST_CASE("A space offers the arithmetic that precision and tensors allow", "[tuning]") {
  using Words = std::set<std::string>;
  const auto space = [](const char* text, const TilingOptions& options,
                        const Target& target = kHopper) {
    PlanOptions plan{.tiling = options, .backend = target.backend};
    return make_space(parse_problem(text), target, {.plan = plan, .axes = {}});
  };
  const auto words = [&](const char* text, const TilingOptions& options,
                         const Target& target = kHopper) {
    return arithmetics_of(space(text, options, target));
  };
  const char* const layer = "n2c32h14k48";
  CHECK(words(layer, {}) == Words{"fma", "split-f16"});
  CHECK(words(layer, {.precision = Precision::tf32}) == Words{"fma", "split-f16", "f16"});
  CHECK(words("n2c32h14k48+f16", {}) == Words{"f16"});
  CHECK(words("n2c32h14k48+bf16", {}) == Words{"f16"});
  CHECK(words(layer, {.precision = Precision::tf32}, kAmpere) == Words{"fma"});
  CHECK(words("n2c32h14k48+bf16", {}, {}) == Words{"fma"});
  CHECK(words(layer, {.arithmetic = Arithmetic::f16}) == Words{"f16"});

  const Space half = space("n2c32h14k48+f16", {});
  const auto found = half.rejection(parse_configuration("algo=winograd,tile=2,arithmetic=f16"));
  REQUIRE(found);
  CHECK(found->rule == "arithmetic");
  CHECK(found->reason == "f16 with tile 2, must be m = 4");
}

TEST_CASE("Every candidate of one product can be planned, and implicit GEMM beside it",
          "[tuning]") {
  for (const char* text : {"n2c32h14k48+f16", "n2c32h14k48+bf16", "n2c32h14k48"}) {
    for (const Algorithm algorithm : {Algorithm::winograd, Algorithm::implicit_gemm}) {
      const ConvProblem problem = parse_problem(text);
      PlanOptions plan{.backend = Backend::cuda};
      plan.tiling.precision = Precision::tf32;
      plan.tiling.algorithm = algorithm;
      const Space space = make_space(problem, kHopper, {.plan = plan, .axes = {}});
      int candidates = 0;
      for (std::uint64_t index = 0; index < space.size(); index += space.size() / 500 + 1) {
        const Configuration configuration = space.at(index);
        if (space.rejection(configuration)) continue;
        const PlanOptions options = apply(configuration, plan);
        CAPTURE(text, to_string(configuration));
        CHECK_NOTHROW(lower(problem, options.tiling, options.mapping, kHopper));
        CHECK(std::isfinite(estimate_ms(problem, options, kHopper)));
        ++candidates;
      }
      CAPTURE(text, to_string(algorithm));
      CHECK(candidates >= 10);
    }
  }
}

// What the heuristic takes is in a space anyway; of this layer that is Winograd.
TEST_CASE("Implicit GEMM's space has the groups that suit the arithmetic asked for", "[tuning]") {
  const char* const layer = "n16c2048h28k2048";
  const auto places = [&](const TilingOptions& options) {
    const PlanOptions plan{.tiling = options, .backend = Backend::cuda};
    std::set<std::int64_t> values;
    const Space space = make_space(parse_problem(layer), kHopper, {.plan = plan, .axes = {}});
    for (const Space::Grid& grid : space.grids()) {
      for (const Axis& axis : grid) {
        if (axis.parameter == Parameter::places) {
          values.insert(axis.values.begin(), axis.values.end());
        }
      }
    }
    return values;
  };
  const TilingOptions rounded{.precision = Precision::tf32};
  REQUIRE(tile(layer, rounded).algorithm() == Algorithm::winograd);
  const auto chosen = [&](TilingOptions options) {
    options.algorithm = Algorithm::implicit_gemm;
    return std::int64_t{std::get<ImplicitGemmCut>(tile(layer, options).cut).places_per_group};
  };
  REQUIRE(places({}).count(chosen(rounded)) == 0);
  CHECK(places(rounded).count(chosen(rounded)) == 1);
  CHECK(places({.arithmetic = Arithmetic::f16}).count(chosen(rounded)) == 1);
  CHECK(places({}).count(chosen({})) == 1);
  CHECK(places({.arithmetic = Arithmetic::fma}).empty());
}

TEST_CASE("The cost model expects one product to be faster than three", "[tuning]") {
  const auto ms = [](const char* problem, const char* configuration) {
    return estimate_ms(parse_problem(problem),
                       apply(parse_configuration(configuration), {.backend = Backend::cuda}),
                       kHopper);
  };
  const char* const split = "algo=winograd,tile=4,arithmetic=split-f16,policy=staged,window=whole";
  const char* const one = "algo=winograd,tile=4,arithmetic=f16,policy=staged,window=whole";
  for (const char* problem : {"n64c64h56k64", "n64c512h28k512"}) {
    CHECK(ms(problem, one) < ms(problem, split));
  }
  CHECK(ms("n64c512h28k512+f16", one) < ms("n64c512h28k512", one));  // x and y are half as large
}

}  // namespace
}  // namespace megaconv
