// SPDX-License-Identifier: Apache-2.0
// What is worth a try of a network as a whole. How single convolutions are cut stays with the
// library.
#include <algorithm>
#include <span>

#include "tasks/launch.hpp"
#include "tasks/space.hpp"

namespace megaconv {
namespace {

Axis orders(const std::vector<std::string>& policies) {
  Axis axis{Parameter::policy, {}};
  for (const std::string& policy : policies) axis.values.push_back(policy_value(policy));
  std::sort(axis.values.begin(), axis.values.end());
  return axis;
}

template <class Enum>
Axis only(Parameter parameter, Enum value) {
  return {parameter, {static_cast<std::int64_t>(value)}};
}

// One launch in several orders, or stages, in which convolutions may have kernels of their own. Not
// depth_first: on the model of an H100 it takes five times as long.
std::vector<Space::Grid> gpu_grids(const Target& target) {
  Axis clusters{Parameter::cluster, at_most({1, 2, 4}, target.cluster_blocks)};
  const Axis staged = only(Parameter::launch, CudaLaunch::staged);
  return {{orders({"interleaved", "critical_path"}),
           only(Parameter::launch, CudaLaunch::persistent), clusters},
          {orders({"staged"}), staged},
          {only(Parameter::algo, Algorithm::small_gemm), orders({"staged"}), staged}};
}

// depth_first has distances of a layer from the one that it reads: from line buffers on.
std::vector<Space::Grid> cpu_grids(const Target& target) {
  const Axis workers{Parameter::workers, {target.workers}};
  const Axis distances{Parameter::dig, {1, 4, 16, 64, 256}};
  const Space::Grid plain = {orders({"interleaved", "staged", "critical_path"}), workers};
  const Space::Grid deep = {orders({"depth_first"}), distances, workers};
  std::vector<Space::Grid> grids = {plain, deep, plain, deep};
  for (Space::Grid& grid : std::span(grids).subspan(2)) {
    grid.push_back(only(Parameter::algo, Algorithm::direct));
  }
  return grids;
}

Space::Constraint stages_in_order() {
  return {to_string(Parameter::launch), [](const Configuration& c) -> std::string {
            const bool staged =
                c.get(Parameter::launch) == static_cast<std::int64_t>(CudaLaunch::staged);
            if (!staged || c.get(Parameter::policy) == policy_value("staged")) return "";
            return "staged, must be persistent unless policy is staged";
          }};
}

}  // namespace

Space make_space(const Network& network, const Target& target, const SpaceOptions& options) {
  const bool on_gpu = target.backend == Backend::cuda;
  std::vector<Space::Grid> grids = on_gpu ? gpu_grids(target) : cpu_grids(target);
  keep_asked(grids, options);
  const PlanOptions chosen = choose_launch(network, options.plan, target).options;
  Configuration heuristic;
  heuristic.set(Parameter::policy, policy_value(chosen.mapping.policy));
  if (on_gpu) {
    heuristic.set(Parameter::launch, static_cast<std::int64_t>(chosen.cuda_launch));
  } else {
    heuristic.set(Parameter::workers, target.workers);
  }
  for (std::size_t i = 0; i < kNumParameters; ++i) {
    const auto parameter = static_cast<Parameter>(i);
    if (const auto fixed = fixed_value(parameter, options.plan)) heuristic.set(parameter, *fixed);
  }
  return Space(std::move(grids), {stages_in_order()}, heuristic);
}

}  // namespace megaconv
