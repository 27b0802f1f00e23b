// SPDX-License-Identifier: Apache-2.0
// What a measurement on this machine is a measurement of.
#include <cstdio>
#include <functional>
#include <string_view>

#include "mapping/text.hpp"
#include "megaconv/plan_database.hpp"
#include "runtime/executor.hpp"
#include "runtime/machine.hpp"
#include "tasks/cpu/kernels.hpp"
#include "tasks/fuse.hpp"
#include "tasks/operators.hpp"

namespace megaconv {
namespace {

// Products of f32 tensors that are within an error budget may be less exact than "f32" promises.
std::string precision_text(DataType dtype, const TilingOptions& options) {
  if (options.max_error) {
    char text[48];
    std::snprintf(text, sizeof text, "max_error %.6g", *options.max_error);
    return text;
  }
  return dtype == DataType::f32 ? to_string(options.precision) : to_string(dtype);
}

std::string digest_of(const std::string& text) {
  char digest[17];
  std::snprintf(digest, sizeof digest, "%016zx", std::hash<std::string>()(text));
  return digest;
}

constexpr std::string_view kNetwork = "network ";

// What plans depend on.
std::string text_of(const FusedNetwork& network) {
  std::string text;
  for (const NetworkInput& input : network.inputs) text += to_string(input.shape) + '\n';
  for (const FusedOperator& op : network.operators) {
    text += std::visit([](const auto& problem) { return to_string(problem); }, op.problem);
    for (const ValueId value : op.reads) text += ' ' + std::to_string(value);
    text += '\n';
  }
  for (const ValueId output : network.outputs) text += ' ' + std::to_string(output);
  return text;
}

// All but the problem.
PlanKey key_of(DataType dtype, const PlanOptions& options) {
  PlanKey key;
  if (options.backend == Backend::cuda) {
    DeviceIdentity identity = cuda_identity();
    key.backend = "cuda";
    key.device = std::move(identity.device);
    key.driver = std::move(identity.driver);
  } else if (options.backend == Backend::sim) {
    const MachineModel machine = simulated_machine(options);
    key.backend = "sim";
    key.device = machine.name + ", model " + digest_of(to_json(machine));
    key.driver = "none";
  } else {
    key.backend = "cpu";
    key.device = excerpt(cpu_name()) + ", " + cpu::kernels_for().isa + ", " +
                 std::to_string(resolve_workers(options.num_threads)) + " threads";
    key.driver = "none";
  }
  key.build = library_build();
  key.precision = precision_text(dtype, options.tiling);
  return key;
}

}  // namespace

PlanKey plan_key(const ConvProblem& problem, const PlanOptions& options) {
  PlanKey key = key_of(problem.dtype, options);
  key.problem = to_string(problem);
  key.filters = options.tiling.filters == FilterMode::prepared ? "prepared" : "every_run";
  return key;
}

PlanKey plan_key(const Network& network, const PlanOptions& options) {
  const FusedNetwork fused = fuse(network);
  PlanKey key = key_of(network.dtype, options);
  key.problem = std::string(kNetwork) + digest_of(text_of(fused)) + ", " +
                std::to_string(fused.operators.size()) + " nodes";
  key.filters = "prepared";
  return key;
}

bool is_of_network(const PlanKey& key) { return key.problem.starts_with(kNetwork); }

}  // namespace megaconv
