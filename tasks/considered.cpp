// SPDX-License-Identifier: Apache-2.0
#include "tasks/considered.hpp"

#include <cstdio>

#include "megaconv/error.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/cost_model.hpp"
#include "tasks/error_budget.hpp"
#include "tasks/launch.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// What of the back end keeps an algorithm from running there; "" for nothing.
std::string missing_tasks(const ConvAlgorithm& algorithm, Backend backend) {
  if (algorithm.runs_on(backend)) return "";
  return backend == Backend::cpu ? "backend cpu, must be cuda" : "backend cuda, must be cpu";
}

// "estimated 0.41 ms", or throws with what keeps the algorithm from computing the problem.
std::string estimate_text(const ConvProblem& problem, const PlanOptions& options,
                          const Target& target) {
  char text[48];
  std::snprintf(text, sizeof text, "estimated %.3g ms",
                estimate_ms(choose_launch(problem, options, target), target));
  return text;
}

}  // namespace

std::string considered_text(const ConvProblem& problem, const PlanOptions& options,
                            const Target& target, Algorithm taken) {
  std::string text = budget_text(problem, options.tiling, target);
  for (const ConvAlgorithm* const one_of_all : conv_algorithms()) {
    const Algorithm algorithm = one_of_all->id();
    const std::string name = to_string(algorithm);
    std::string why = missing_tasks(*one_of_all, target.backend);
    if (options.tiling.algorithm != Algorithm::automatic && options.tiling.algorithm != algorithm) {
      why = std::string(to_string(options.tiling.algorithm)) + " was asked for";
    }
    try {
      PlanOptions one = options;
      one.tiling.algorithm = algorithm;
      if (why.empty()) {
        text += "considered: " + name + ", " + estimate_text(problem, one, target) +
                (algorithm == taken ? ", taken\n" : "\n");
        continue;
      }
    } catch (const Error& error) {
      why = error.what();
      if (why.starts_with(name + ": ")) why.erase(0, name.size() + 2);
    }
    text += "rejected: " + name + ": " + why + '\n';
  }
  return text;
}

}  // namespace megaconv
