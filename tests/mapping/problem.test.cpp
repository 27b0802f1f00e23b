// SPDX-License-Identifier: Apache-2.0
// The problem's limits and its text form.
#include "megaconv/problem.hpp"

#include <random>

#include "tasks/same_padding.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using megaconv::test::error_of;

TEST_CASE("parse_problem fills in the defaults") {
  const ConvProblem problem = parse_problem("n64c128h28k256");
  CHECK(to_string(problem) == "n64c128h28w28k256r3s3p1u1d1g1");
  CHECK(to_string(parse_problem("c1h9k1")) == "n1c1h9w9k1r3s3p1u1d1g1");
  CHECK(to_string(parse_problem("c1h9k1r5")) == "n1c1h9w9k1r5s5p2u1d1g1");
  CHECK(to_string(parse_problem("c1h9k1r5s1")) == "n1c1h9w9k1r5s1p2x0u1d1g1");
  CHECK(to_string(parse_problem("c1h9k1d2x3")) == "n1c1h9w9k1r3s3p2x3u1d2x3g1");
  CHECK(to_string(parse_problem("k1h9c1")) == "n1c1h9w9k1r3s3p1u1d1g1");
}

TEST_CASE("parse_problem reads suffixes in any order") {
  const ConvProblem problem = parse_problem("c8h9k8u2x1+relu+f16+residual+nhwc+bias");
  CHECK(problem.layout == Layout::nhwc);
  CHECK(problem.dtype == DataType::f16);
  CHECK(problem.epilogue == Epilogue{.bias = true, .residual = true, .activation = kRelu});
  CHECK(to_string(problem) == "n1c8h9w9k8r3s3p1u2x1d1g1+nhwc+f16+bias+residual+relu");
  CHECK(to_string(parse_problem("c8h9k8+bias+scale+i8")) == "n1c8h9w9k8r3s3p1u1d1g1+i8+scale+bias");
}

TEST_CASE("a problem's text reads back as the same problem") {
  std::mt19937 random(20260101);
  const auto below = [&](unsigned bound) { return std::int64_t(random() % bound); };
  for (int i = 0; i < 2000; ++i) {
    ConvProblem problem;
    problem.groups = 1 + below(4);
    problem.n = 1 + below(100);
    problem.c = problem.groups * (1 + below(50));
    problem.k = problem.groups * (1 + below(50));
    problem.r = 1 + below(7);
    problem.s = 1 + below(7);
    problem.dilation_h = 1 + below(3);
    problem.dilation_w = 1 + below(3);
    problem.h = problem.filter_extent_h() + below(40);
    problem.w = problem.filter_extent_w() + below(40);
    problem.pad_h = below(unsigned(problem.filter_extent_h()) + 1);
    problem.pad_w = below(unsigned(problem.filter_extent_w()) + 1);
    problem.stride_h = 1 + below(4);
    problem.stride_w = 1 + below(4);
    problem.dtype = DataType(below(4));
    problem.layout = Layout(below(2));
    const Activation activations[] = {{}, kRelu, clamp(-0.1f, 6e20f), leaky_relu(1e-7f)};
    problem.epilogue = {below(2) == 0, below(2) == 0, below(2) == 0, activations[below(4)]};
    INFO(to_string(problem));
    CHECK(parse_problem(to_string(problem)) == problem);
  }
}

TEST_CASE("\"same\" padding is that of parse_problem, and no product overflows on its way") {
  ConvProblem problem = parse_problem("c1h90k1r5s3d2x7p0");
  pad_same(problem);
  CHECK(problem == parse_problem("c1h90k1r5s3d2x7"));
  problem.dilation_w = 9223372036854775807;
  CHECK_THAT(error_of([&] { pad_same(problem); }),
             ContainsSubstring("horizontal dilation = 9223372036854775807: must be 1 to"));
}

TEST_CASE("every value out of range is named with what is allowed") {
  const auto error = [](void (*change)(ConvProblem&)) {
    ConvProblem problem;
    problem.h = problem.w = 9;
    change(problem);
    return error_of([&] { validate(problem); });
  };
  using P = ConvProblem&;
  CHECK(error([](P) {}) == "");
  CHECK(error([](P p) { p.n = 0; }) == "n = 0: must be 1 to 2147483647");
  CHECK(error([](P p) { p.c = -1; }) == "c = -1: must be 1 to 2147483647");
  CHECK(error([](P p) { p.h = 1ll << 31; }) == "h = 2147483648: must be 1 to 2147483647");
  CHECK(error([](P p) { p.w = INT64_MIN; }) == "w = -9223372036854775808: must be 1 to 2147483647");
  CHECK(error([](P p) { p.k = INT64_MAX; }) == "k = 9223372036854775807: must be 1 to 2147483647");
  CHECK(error([](P p) { p.r = 0; }) == "r = 0: must be 1 to 2147483647");
  CHECK(error([](P p) { p.s = 0; }) == "s = 0: must be 1 to 2147483647");
  CHECK(error([](P p) { p.stride_h = 0; }) == "vertical stride = 0: must be 1 to 2147483647");
  CHECK(error([](P p) { p.stride_w = 0; }) == "horizontal stride = 0: must be 1 to 2147483647");
  CHECK(error([](P p) { p.dilation_h = 0; }) == "vertical dilation = 0: must be 1 to 2147483647");
  CHECK(error([](P p) { p.dilation_w = 0; }) == "horizontal dilation = 0: must be 1 to 2147483647");
  CHECK(error([](P p) { p.groups = 0; }) == "groups = 0: must be 1 to 2147483647");
  CHECK(error([](P p) { p.groups = 2; }) == "groups = 2: must divide c = 1 and k = 1");
  CHECK(error([](P p) { p.pad_h = 4; }) == "vertical padding = 4: must be 0 to 3");
  CHECK(error([](P p) { p.pad_w = -1; }) == "horizontal padding = -1: must be 0 to 3");
  CHECK(error([](P p) { p.dilation_w = 6; }) ==
        "filter of 3x13 with dilation: must be at most the padded input, 11x11");
}

TEST_CASE("extents whose product overflows are refused") {
  const auto error = [](const char* text) { return error_of([&] { parse_problem(text); }); };
  const std::string max = "2147483647";
  CHECK_THAT(error("n2147483647c2147483647h2147483647k1"),
             ContainsSubstring("input of " + max + "x" + max + "x" + max + "x" + max +
                               " elements: must be at most 2^40 in all"));
  CHECK_THAT(error("c1048576h1k1048577r1"), ContainsSubstring("filter of 1048577x1048576x1x1"));
  CHECK_THAT(error("n1024c1h1024k1048577r1"), ContainsSubstring("output of 1024x1048577x"));
  CHECK_THAT(error("c1h1k1r2147483647d2147483647"), ContainsSubstring("padding"));
  CHECK(error("c1048576h1k1048576r1") == "");  // 2^40 elements exactly
}

TEST_CASE("i8 sums that could leave 32 bits are refused") {
  const auto error = [](const char* text) { return error_of([&] { parse_problem(text); }); };
  CHECK(error("c131071h1k1r1+i8") == "");
  CHECK(error("c131072h1k1r1") == "");
  CHECK_THAT(error("c131072h1k1r1+i8"),
             ContainsSubstring("i8: sums of 131072 products (c / groups * r * s): must be at most "
                               "131071, so that they fit 32 bits"));
  CHECK(error("c262142h1k2r1g2+i8") == "");
  CHECK_THAT(error("c14564h3k1+i8"), ContainsSubstring("sums of 131076 products"));
}

TEST_CASE("a problem string that cannot be read says which part") {
  const auto error = [](const std::string& text) { return error_of([&] { parse_problem(text); }); };
  CHECK(error("") == "problem \"\": 'c' is missing; c, h and k must be given");
  CHECK(error("c1k1") == "problem \"c1k1\": 'h' is missing; c, h and k must be given");
  CHECK(error("c1h9k1z3") ==
        "problem \"c1h9k1z3\": unexpected character at 6, allowed are nchwkrspudg each with a "
        "number, and +suffixes");
  CHECK(error("c1h9k1c2") == "problem \"c1h9k1c2\": 'c' is given twice");
  CHECK(error("c1h9k") == "problem \"c1h9k\": 'k' must be followed by a number");
  CHECK(error("c1h-9k1") == "problem \"c1h-9k1\": 'h' must be followed by a number");
  CHECK(error("c1h9k1p1x") == "problem \"c1h9k1p1x\": 'x' must be followed by a number");
  CHECK_THAT(error("c1h9x9k1"), ContainsSubstring("unexpected character at 4"));
  CHECK_THAT(error("c1h99999999999999999999k1"),
             ContainsSubstring("h99999999999999999999 must be at most 2147483647"));
  CHECK_THAT(error("c1h9k1+fast"), ContainsSubstring("unknown suffix after '+', allowed are nchw"));
  CHECK_THAT(error("c1h9k1+"), ContainsSubstring("unknown suffix"));
  CHECK_THAT(error("c1h9k1+relu+relu"), ContainsSubstring("+relu repeats or contradicts"));
  CHECK_THAT(error("c1h9k1+nchw+nhwc"), ContainsSubstring("+nhwc repeats or contradicts"));
  CHECK_THAT(error("c1h9k1 \n\x01"), ContainsSubstring("problem \"c1h9k1 ??\": unexpected"));
  CHECK(error(std::string(100000, 'q')).size() < 300);
  CHECK_THAT(error("c1h9k1r0"), ContainsSubstring("r = 0"));
}

TEST_CASE("nchw16c is refused for what it has not") {
  const auto error = [](const char* text) { return error_of([&] { parse_problem(text); }); };
  CHECK_THAT(error("c1h9k1+nchw16c+f16"), ContainsSubstring("f16 tensors: must be f32"));
  CHECK_THAT(error("c64h9k48g2+nchw16c"), ContainsSubstring("conv groups of 24 filters"));
  CHECK(parse_problem("c64h9k32g2+nchw16c").layout == Layout::nchw16c);
  CHECK(parse_problem("c20h9k20g20+nchw16c").layout == Layout::nchw16c);
}

TEST_CASE("flops count the direct algorithm's multiplications and additions") {
  // 2 N K P Q (C / groups) R S
  CHECK(parse_problem("n2c4h5k6").flops() == 2.0 * 2 * 6 * 5 * 5 * 4 * 9);
  CHECK(parse_problem("n2c4h5k6g2p0").flops() == 2.0 * 2 * 6 * 3 * 3 * 2 * 9);
}

TEST_CASE("names of enumerators are those of the problem string") {
  CHECK(to_string(Layout::nhwc) == std::string("nhwc"));
  CHECK(to_string(parse_problem("c1h9k1+chwn")) == "n1c1h9w9k1r3s3p1u1d1g1+chwn");
  CHECK(to_string(parse_problem("c1h9k1+nchw16c")) == "n1c1h9w9k1r3s3p1u1d1g1+nchw16c");
  CHECK(to_string(DataType::bf16) == std::string("bf16"));
  CHECK(size_of(DataType::f32) == 4);
  CHECK(size_of(DataType::bf16) == 2);
  CHECK(to_string(DataType::i8) == std::string("i8"));
  CHECK(size_of(DataType::i8) == 1);
  CHECK(to_string(Status::out_of_memory) == std::string("out_of_memory"));
}
