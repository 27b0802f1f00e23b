// SPDX-License-Identifier: Apache-2.0
// Policies from shared objects: MEGACONV_TEST_POLICIES is a folder with one object for each way to
// fail (bad_policy.c), and tools/examples/policy_pairs.c.
#include "megaconv/plan.hpp"
#include "megaconv/simulation.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

std::string library(const char* name) {
  return std::string(MEGACONV_TEST_POLICIES "/") + name + ".so";
}

Lowering lower_with(const PolicyFunction& policy) {
  TilingOptions tiling;
  tiling.algorithm = Algorithm::winograd;
  return lower(parse_problem("n2c32h14k32"), tiling, {}, {.workers = 4}, policy);
}

std::string error_with(const char* name, Status status = Status::invalid_argument) {
  return error_of([&] { lower_with(load_policy(library(name), 300)); }, status);
}

}  // namespace

TEST_CASE("the example policy makes a right order") {
  const Lowering lowering = lower_with(load_policy(library("policy_pairs")));
  CHECK_FALSE(validate(lowering.graph, lowering.mapping));
  CHECK(lowering.mapping.policy == "custom");
}

TEST_CASE("a policy that drops a task, throws, crashes, exits or loops is an error with its name") {
  CHECK_THAT(error_with("drops"), ContainsSubstring("policy \"custom\": position"));
  CHECK_THAT(error_with("refuses"), ContainsSubstring("refuses.so: returned 7"));
  CHECK_THAT(error_with("throws"), ContainsSubstring("throws.so: threw \"no idea\""));
  CHECK_THAT(error_with("crashes"), ContainsSubstring("crashes.so: ended by signal"));
  CHECK_THAT(error_with("exits"), ContainsSubstring("exits.so: ended the process with status 3"));
  CHECK_THAT(error_with("loops", Status::timeout),
             ContainsSubstring("loops.so: no order after 300 ms"));
  CHECK_THAT(error_with("empty"), ContainsSubstring("does not define megaconv_policy"));
  CHECK_THAT(error_with("absent"), ContainsSubstring("cannot open shared object"));
}

TEST_CASE("a C++ policy that throws is an error that says what") {
  const auto policy = [](const TaskGraph&) -> std::vector<std::uint32_t> {
    throw std::runtime_error("not today");
  };
  CHECK(error_of([&] { lower_with(policy); }) == "policy \"custom\" threw \"not today\"");
}

TEST_CASE("the paced policy is right on odd shapes and no slower than staged order on its model") {
  MachineModel machine = machine_preset("toy");
  for (const Counts& counts : kOddCounts) {
    Lowering lowering;
    lowering.graph = build_graph(winograd_tiling(counts));
    lowering.mapping = {
        .policy = "paced", .options = {}, .order = paced_policy(machine)(lowering.graph)};
    CAPTURE(counts.ng, counts.si, counts.sg);
    REQUIRE_FALSE(validate(lowering.graph, lowering.mapping));
    const double paced_us = simulate(lowering, machine).time_us;
    lowering.mapping = make_mapping(lowering.graph, {.policy = Policy::staged});
    CHECK(paced_us <= simulate(lowering, machine).time_us * 1.001);
  }
}
