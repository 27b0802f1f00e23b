// SPDX-License-Identifier: Apache-2.0
// Plans on a machine model: a run takes no time and computes no result, but its trace says when
// every task would have run.
#include <string>

#include "megaconv/simulation.hpp"
#include "runtime/executor.hpp"

namespace megaconv {
namespace {

class SimExecutor final : public Executor {
 public:
  SimExecutor(const Lowering& lowering, const PlanOptions& options)
      : lowering_(lowering),
        machine_(simulated_machine(options)),
        options_{.launch = options.cuda_launch, .num_workers = options.num_blocks} {
    validate(machine_);
  }

  std::size_t workspace_bytes() const override { return Plan::kAlignment; }
  std::size_t filter_bytes() const override {
    return lowering_.inputs.empty() ? lowering_.tiling().u_bytes() : 0;
  }
  std::uint32_t num_workers() const override {
    return options_.num_workers == 0 ? machine_.workers()
                                     : std::min(options_.num_workers, machine_.workers());
  }
  void prepare_filters(const void*, void*, void*) const override {}
  void prepare_filters(const FusedNetwork&, void*) const override {}
  void execute(const Tensors&, void*, const RunOptions& run) const override { simulate_run(run); }
  void execute(const NetworkTensors&, void*, const RunOptions& run) const override {
    simulate_run(run);
  }
  void wait(void*, void*) const override {}
  std::string describe() const override {
    return "sim, " + machine_.name + ", " + std::to_string(num_workers()) + " workers";
  }

 private:
  void simulate_run(const RunOptions& run) const {
    Simulation simulation = simulate(lowering_, machine_, options_);
    if (run.trace != nullptr) *run.trace = std::move(simulation.trace);
  }

  const Lowering& lowering_;
  const MachineModel machine_;
  const SimulationOptions options_;
};

}  // namespace

MachineModel simulated_machine(const PlanOptions& options) {
  return options.machine ? *options.machine : machine_preset("h200");
}

std::unique_ptr<Executor> make_sim_executor(const Lowering& lowering, const PlanOptions& options) {
  return std::make_unique<SimExecutor>(lowering, options);
}

}  // namespace megaconv
