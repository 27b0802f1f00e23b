// SPDX-License-Identifier: Apache-2.0
// Words of the command line and lists of layers; a configuration of any source makes a plan that is
// proven, or is refused.
#include "megaconv/lowering.hpp"
#include "megaconv/plan_database.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tools/verbs/problem_selection.hpp"

using namespace megaconv;

namespace {

void read_configuration(const std::string& text) {
  const Configuration configuration = parse_configuration(text);
  fuzz::require(parse_configuration(to_string(configuration)) == configuration,
                "a configuration reads back");
  for (const Backend backend : {Backend::cpu, Backend::cuda}) {
    fuzz::expect_answer([&] {
      const PlanOptions options = apply(configuration, {.backend = backend});
      const Lowering lowering = lower(parse_problem("n2c16h9w8k32+nhwc"), options.tiling,
                                      options.mapping, {.backend = backend, .workers = 8});
      fuzz::require(!validate(lowering.graph, lowering.mapping), "the planner's order is right");
    });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  fuzz::expect_answer([&] { read_configuration(text); });
  fuzz::expect_answer([&] { cli::parse_epilogue(text); });
  fuzz::expect_answer([&] { parse_verdict(text); });
  fuzz::expect_answer([&] {
    for (const cli::NamedProblem& layer : cli::parse_layers(text, "layers")) {
      fuzz::require(parse_problem(cli::short_name(layer.problem)) == layer.problem,
                    "a short name is a problem");
    }
  });
  return 0;
}
