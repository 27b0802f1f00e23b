// SPDX-License-Identifier: Apache-2.0
// Activations: their text, their limits, and what they do to numbers.
#include "tasks/activation.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "megaconv/problem.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using megaconv::test::error_of;

namespace {
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
}  // namespace

TEST_CASE("an activation's text reads back as the same activation") {
  for (const Activation& a : {Activation{}, kRelu, clamp(0, 6), clamp(-kInfinity, 0.1f),
                              clamp(-1e-20f, 3e30f), leaky_relu(0.01f), leaky_relu(-2), kSigmoid,
                              hard_sigmoid(0.2f, 0.5f), kSilu, kHardSwish, kGelu, kGeluTanh}) {
    CAPTURE(to_string(a));
    CHECK(parse_activation(to_string(a)) == a);
  }
  CHECK(to_string(clamp(0, 6)) == "clamp:0:6");
  CHECK(to_string(leaky_relu(0.1f)) == "leaky_relu:0.1");
  CHECK(to_string(kRelu) == "relu");
  CHECK(to_string(parse_problem("c8h8k8+clamp:0:6+bias")) ==
        "n1c8h8w8k8r3s3p1u1d1g1+bias+clamp:0:6");
}

TEST_CASE("i8 tensors have those activations alone that are exact") {
  CHECK_NOTHROW(parse_problem("c8h8k8+i8+leaky_relu:0.1"));
  CHECK(error_of([] { parse_problem("c8h8k8+i8+silu"); }) ==
        "activation silu of i8 tensors: must be none, relu, clamp or leaky_relu, which are exact");
}

TEST_CASE("an activation that cannot be read says what is wrong") {
  const auto error = [](const char* text) { return error_of([&] { parse_activation(text); }); };
  CHECK_THAT(error("gelo"), ContainsSubstring("activation \"gelo\": must be none, relu, clamp:"));
  CHECK(error("clamp:1") == "activation \"clamp:1\": 1 numbers behind colons, must be 2");
  CHECK(error("relu:1") == "activation \"relu:1\": 1 numbers behind colons, must be 0");
  CHECK(error("leaky_relu:x") == "activation \"leaky_relu:x\": \"x\", must be a number");
  CHECK(error("leaky_relu:") == "activation \"leaky_relu:\": \"\", must be a number");
  CHECK(error("clamp:6:0") == "activation clamp: alpha = 6, must be less than beta = 0");
  CHECK(error("clamp:nan:0") == "activation clamp: alpha = nan, must be less than beta = 0");
  CHECK(error("leaky_relu:inf") == "activation leaky_relu: alpha = inf, must be finite");
  CHECK_THAT(error_of([] { parse_problem("c8h8k8+relu+clamp:0:6"); }),
             ContainsSubstring("suffix +clamp:0:6 repeats or contradicts another"));
}

TEST_CASE("a number that an activation does not have must be zero") {
  CHECK(error_of([] {
          validate(Activation{ActivationFunction::relu, 1});
        }) == "activation relu: alpha = 1, must be 0, since it has no such number");
  CHECK(error_of([] { validate(Activation{static_cast<ActivationFunction>(99)}); }) ==
        "activation 99: must be 0 to " + std::to_string(kNumActivationFunctions - 1));
}

TEST_CASE("activations do to numbers what their formulas say, and keep NaN") {
  CHECK(activated({}, -2.5) == -2.5);
  CHECK(activated(kRelu, -2.5) == 0);
  CHECK(activated(kRelu, 2.5) == 2.5);
  CHECK(activated(clamp(-1, 6), -2.5) == -1);
  CHECK(activated(clamp(-1, 6), 7) == 6);
  CHECK(activated(clamp(-1, 6), 3) == 3);
  CHECK(activated(leaky_relu(0.25f), -2) == -0.5);
  CHECK(activated(leaky_relu(0.25f), 2) == 2);
  // Tables of the normal distribution, and values of the field's other libraries.
  CHECK(activated(kSigmoid, 2) == Approx(0.880797077977882));
  CHECK(activated(hard_sigmoid(0.2f, 0.5f), 1) == Approx(0.7));
  CHECK(activated(hard_sigmoid(0.2f, 0.5f), -3) == 0);
  CHECK(activated(kSilu, -2) == Approx(-0.238405844044235));
  CHECK(activated(kHardSwish, 1) == Approx(2.0 / 3));
  CHECK(activated(kGelu, 1) == Approx(0.841344746068543));
  CHECK(activated(kGelu, -2) == Approx(-0.0455002638963584));
  CHECK(activated(kGeluTanh, 1) == Approx(0.841191990608276));
  for (const Activation& a : {Activation{}, kRelu, clamp(0, 6), leaky_relu(0.1f), kSigmoid,
                              hard_sigmoid(0.2f, 0.5f), kSilu, kHardSwish, kGelu, kGeluTanh}) {
    CAPTURE(to_string(a));
    CHECK(std::isnan(activated(a, kNan)));
  }
  for (const Activation& a : {kSigmoid, kSilu, kHardSwish, kGelu, kGeluTanh}) {
    CAPTURE(to_string(a));
    CHECK(activated(a, -kInfinity) == 0);
    CHECK(activated(a, kInfinity) == (a == kSigmoid ? 1 : kInfinity));
  }
}
