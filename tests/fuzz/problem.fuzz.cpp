// SPDX-License-Identifier: Apache-2.0
// A problem that is read reads back; and what the planner makes of a small one is proven.
#include "megaconv/problem.hpp"

#include "megaconv/lowering.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace megaconv;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::expect_answer([&] {
    const ConvProblem problem = parse_problem(fuzz::text_of(data, size));
    fuzz::require(parse_problem(to_string(problem)) == problem, "a problem reads back");
    constexpr std::int64_t kSmall = 1 << 14;
    if (problem.x_size() + problem.w_size() + problem.y_size() > kSmall) return;
    for (const Backend backend : {Backend::cpu, Backend::cuda}) {
      const Lowering lowering = lower(problem, {}, {}, {.backend = backend, .workers = 8});
      fuzz::require(!validate(lowering.graph, lowering.mapping), "the planner's order is right");
    }
  });
  return 0;
}
