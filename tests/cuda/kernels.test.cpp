// SPDX-License-Identifier: Apache-2.0
// Which kernels plans take; no device is needed.
#include "runtime/cuda/kernels.hpp"

#include <fstream>
#include <iterator>
#include <string>

#include "megaconv/lowering.hpp"
#include "tasks/launch.hpp"
#include "tasks/tiling.hpp"
#include "tests/catch.hpp"
#include "tests/mapping/targets.hpp"
#include "tools/run/networks.hpp"

using namespace megaconv;

TEST_CASE("the quick start first compiles the kernels that its table takes") {
  std::ifstream file(MEGACONV_SOURCE_DIR "/tools/quickstart");
  const std::string script{std::istreambuf_iterator<char>(file), {}};
  const auto first = [&](std::string_view behind) {  // the list that follows
    const std::size_t begin = script.find("first='", script.find(behind)) + 7;
    return ';' + script.substr(begin, script.find('\'', begin) - begin) + ';';
  };
  const struct {
    const Target& target;
    cuda::Isa isa;
    std::string sets;
  } gpus[] = {{test::kHopper, cuda::default_isa(90), first("== 9.0")},
              {test::kAmpere, cuda::default_isa(86), first("\nelse\n")}};
  for (const auto& [target, isa, sets] : gpus) {
    for (const cli::Layer& layer : cli::network_layers("resnet50")) {
      PlanOptions options;
      options.backend = Backend::cuda;
      const ConvProblem problem = cli::to_problem(layer);
      const LaunchChoice choice = choose_launch(problem, options, target);
      const Tiling tiling = make_tiling(problem, choice.options.tiling, target);
      const std::string set = cuda::variant_for(tiling, isa);
      CAPTURE(layer.name, sets, set);
      CHECK(sets.find(';' + set + ';') != std::string::npos);
    }
  }
}
