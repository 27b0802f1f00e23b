// SPDX-License-Identifier: Apache-2.0
// The whole way: which window is chosen, and what is refused.
#include <numeric>

#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using namespace megaconv::test;

namespace {

const Target kTwoWorkers{.workers = 2};

Lowering lower_text(const char* problem, const TilingOptions& tiling = {},
                    const MappingOptions& mapping = {}, const PolicyFunction& custom = nullptr) {
  return lower(parse_problem(problem), tiling, mapping, kTwoWorkers, custom);
}

}  // namespace

TEST_CASE("the automatic window makes the slots independent of the batch") {
  const TilingOptions winograd{.algorithm = Algorithm::winograd};
  const Tiling small = lower_text("n32c64h56k64", winograd).tiling();
  const Tiling large = lower_text("n320c64h56k64", winograd).tiling();
  CHECK(large.num_groups >= 9 * small.num_groups);
  CHECK(small.window()->v_slots < small.num_groups);
  CHECK(small.window()->m_slots < small.num_groups);
  CHECK(large.window()->v_slots == small.window()->v_slots);
  CHECK(large.window()->m_slots == small.window()->m_slots);
}

TEST_CASE("tensors stay whole when asked, when staged, and when they are small") {
  const auto is_whole = [](const Lowering& lowering) {
    const Tiling& t = lowering.tiling();
    return t.window() == nullptr || *t.window() == Window{t.num_groups, t.num_groups};
  };
  CHECK(is_whole(lower_text("n32c64h56k64", {.whole_tensors = true})));
  CHECK(is_whole(lower_text("n32c64h56k64", {}, {.policy = "staged"})));
  CHECK(is_whole(lower_text("c16h28k16", {.group_tiles = 1})));  // 49 groups of 4608 bytes
  CHECK(is_whole(lower_text("n4c64h56k64u2")));                  // direct: no V, no M
  CHECK_FALSE(is_whole(lower_text("n32c64h56k64", {.algorithm = Algorithm::winograd})));
}

TEST_CASE("tasks are not fused when something is said about their order") {
  const auto algorithm = [](const TilingOptions& tiling, const MappingOptions& mapping,
                            const PolicyFunction& custom = nullptr) {
    return lower_text("n32c64h56k64", tiling, mapping, custom).tiling().algorithm();
  };
  CHECK(algorithm({}, {}) == Algorithm::fused_winograd);
  CHECK(algorithm({}, {.seed = 7}) == Algorithm::fused_winograd);  // of no order but a random one
  CHECK(algorithm({}, {.policy = "depth_first"}) == Algorithm::winograd);
  CHECK(algorithm({}, {.dig = 4}) == Algorithm::winograd);
  CHECK(algorithm({}, {}, [](const TaskGraph& graph) {
          std::vector<std::uint32_t> order(graph.tasks.size());
          std::iota(order.begin(), order.end(), 0u);
          return order;
        }) == Algorithm::winograd);
  CHECK(algorithm({.algorithm = Algorithm::fused_winograd}, {.policy = "staged"}) ==
        Algorithm::fused_winograd);
}

TEST_CASE("slots that the caller fixes are kept, and an order that does not fit is refused") {
  const TilingOptions options{.v_slots = 3, .m_slots = 2};
  const Lowering lowering = lower_text("n32c64h56k64", options, {.policy = "depth_first"});
  CHECK(lowering.tiling().window()->v_slots == 3);
  CHECK(lowering.tiling().window()->m_slots == 2);
  CHECK_THAT(
      error_of([&] { lower_text("n32c64h56k64", options, {.policy = "staged"}); }),
      ContainsSubstring("policy \"staged\": position ") && ContainsSubstring("which stands later"));
}

TEST_CASE("every policy lowers every kind of problem") {
  for (const char* problem : {"n32c64h56k64", "c17h13w29k33", "c3h9k5r5u2", "n2c32h14k32g32"}) {
    for (const std::string& policy : kPolicies) {
      for (FilterMode filters : {FilterMode::every_run, FilterMode::prepared}) {
        INFO(problem << " " << policy);
        const Lowering lowering = lower_text(problem, {.filters = filters}, {.policy = policy});
        CHECK_FALSE(validate(lowering.graph, lowering.mapping).has_value());
      }
    }
  }
}

TEST_CASE("a policy of the user's own is used, checked and given a window") {
  const PolicyFunction backwards = [](const TaskGraph& graph) {
    // Filter tasks, then depth-first over the groups from the last to the first.
    std::vector<std::uint32_t> order;
    const auto append = [&](Role role, std::uint32_t group) {
      const Stage& stage = *graph.find(0, role);
      for (std::uint32_t b = 0; b < stage.per_group; ++b) order.push_back(stage.id(group, b));
    };
    append(Role::prepare, 0);
    for (std::uint32_t g = graph.find(0, Role::product)->groups; g-- > 0;) {
      for (const Role role : {Role::input, Role::product, Role::output}) append(role, g);
    }
    return order;
  };
  const Lowering lowering = lower_text("n32c64h56k64", {}, {}, backwards);
  CHECK(lowering.mapping.policy == "custom");
  CHECK(lowering.mapping.order == backwards(lowering.graph));
  CHECK(lowering.tiling().window()->v_slots == lowering.tiling().num_groups);  // none fits

  const PolicyFunction forgetful = [](const TaskGraph&) { return std::vector<std::uint32_t>{}; };
  CHECK(error_of([&] { lower_text("n32c64h56k64", {}, {}, forgetful); }) ==
        "policy \"custom\": position 0: F[0] is missing");
}
