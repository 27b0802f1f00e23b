// SPDX-License-Identifier: Apache-2.0
#include "tools/run/trial.hpp"

#include "tools/run/timing.hpp"

namespace megaconv::cli {

Experiment::Experiment(Backend backend, const ConvProblem& problem, std::uint64_t seed)
    : backend_(backend) {
  if (backend == Backend::sim) return;
  tensors_ = allocate_tensors(device_of(backend), problem, false);
  fill_random(tensors_, seed);
}

PlanArguments traceable(PlanArguments arguments) {
  CudaLaunch& launch = arguments.options.cuda_launch;
  if (launch == CudaLaunch::automatic) launch = CudaLaunch::persistent;
  return arguments;
}

Trial::Trial(const Plan& plan, const PlanArguments& arguments, const Experiment& experiment)
    : plan_(plan),
      machine_(machine_of(arguments)),
      options_{.launch = arguments.options.cuda_launch,
               .num_workers = arguments.options.num_blocks} {
  if (experiment.backend() == Backend::sim) {
    simulation_ = simulate(plan.lowering(), machine_, options_);
  } else {
    runner_.emplace(plan, experiment.tensors());
  }
}

double Trial::turn_us(std::uint64_t seed, int runs) {
  if (!runner_) {
    SimulationOptions options = options_;
    options.seed = seed;
    return simulate(plan_.lowering(), machine_, options).time_us;
  }
  runner_->run();
  std::vector<double> times_ms;
  for (int run = 0; run < runs; ++run) times_ms.push_back(runner_->sample_ms());
  return 1000 * summarize(std::move(times_ms)).median_ms;
}

RecordedRun Trial::record(double time_us) {
  RecordedRun run{.lowering = plan_.lowering(),
                  .trace = {},
                  .worker_name = plan_.backend() == Backend::cpu ? "worker" : "SM",
                  .time_us = time_us};
  if (runner_) {
    runner_->run(&run.trace);
  } else {
    run.trace = simulation_->trace;
  }
  return run;
}

}  // namespace megaconv::cli
