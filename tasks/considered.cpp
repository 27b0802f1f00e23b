// SPDX-License-Identifier: Apache-2.0
#include "tasks/considered.hpp"

#include <cstdio>

#include "megaconv/error.hpp"
#include "tasks/cost_model.hpp"
#include "tasks/launch.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// Which back end has tasks of an algorithm; "" for both.
std::string missing_tasks(Algorithm algorithm, Backend backend) {
  const bool cuda_only = algorithm == Algorithm::opencnn || algorithm == Algorithm::implicit_gemm;
  const bool cpu_only = algorithm == Algorithm::fused_winograd;
  if (backend == Backend::cpu && cuda_only) return "backend cpu, must be cuda";
  if (backend == Backend::cuda && cpu_only) return "backend cuda, must be cpu";
  return "";
}

// "estimated 0.41 ms", or throws with what keeps the algorithm from computing the problem.
std::string estimate_text(const ConvProblem& problem, const PlanOptions& options,
                          const Target& target) {
  const PlanOptions launched = choose_launch(problem, options, target).options;
  make_tiling(problem, launched.tiling, target);
  char text[48];
  std::snprintf(text, sizeof text, "estimated %.3g ms", estimate_ms(problem, options, target));
  return text;
}

}  // namespace

std::string considered_text(const ConvProblem& problem, const PlanOptions& options,
                            const Target& target, Algorithm taken) {
  std::string text;
  for (const Algorithm algorithm :
       {Algorithm::direct, Algorithm::winograd, Algorithm::fused_winograd, Algorithm::implicit_gemm,
        Algorithm::opencnn}) {
    const std::string name = to_string(algorithm);
    std::string why = missing_tasks(algorithm, target.backend);
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
