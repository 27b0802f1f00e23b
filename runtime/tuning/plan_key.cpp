// SPDX-License-Identifier: Apache-2.0
// What a measurement on this machine is a measurement of.
#include <cstdio>
#include <functional>

#include "mapping/text.hpp"
#include "megaconv/plan_database.hpp"
#include "runtime/executor.hpp"
#include "runtime/machine.hpp"
#include "tasks/cpu/kernels.hpp"

namespace megaconv {
namespace {

// Products of f32 tensors that are within an error budget may be less exact than "f32" promises.
std::string precision_text(const ConvProblem& problem, const TilingOptions& options) {
  if (options.max_error) {
    char text[48];
    std::snprintf(text, sizeof text, "max_error %.6g", *options.max_error);
    return text;
  }
  return problem.dtype == DataType::f32 ? to_string(options.precision) : to_string(problem.dtype);
}

}  // namespace

PlanKey plan_key(const ConvProblem& problem, const PlanOptions& options) {
  PlanKey key;
  if (options.backend == Backend::cuda) {
    DeviceIdentity identity = cuda_identity();
    key.backend = "cuda";
    key.device = std::move(identity.device);
    key.driver = std::move(identity.driver);
  } else if (options.backend == Backend::sim) {
    const MachineModel machine = simulated_machine(options);
    char digest[17];
    std::snprintf(digest, sizeof digest, "%016zx", std::hash<std::string>()(to_json(machine)));
    key.backend = "sim";
    key.device = machine.name + ", model " + digest;
    key.driver = "none";
  } else {
    key.backend = "cpu";
    key.device = excerpt(cpu_name()) + ", " + cpu::kernels_for().isa + ", " +
                 std::to_string(resolve_workers(options.num_threads)) + " threads";
    key.driver = "none";
  }
  key.build = library_build();
  key.problem = to_string(problem);
  key.precision = precision_text(problem, options.tiling);
  key.filters = options.tiling.filters == FilterMode::prepared ? "prepared" : "every_run";
  return key;
}

}  // namespace megaconv
