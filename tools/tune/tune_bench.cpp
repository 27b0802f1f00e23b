// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/tune_bench.hpp"

#include <iostream>

#include "megaconv/error.hpp"
#include "megaconv/simulation.hpp"
#include "runtime/executor.hpp"
#include "tools/report/terminal.hpp"
#include "tools/tune/tune_json.hpp"

namespace megaconv::cli {
namespace {

// Samples before a candidate may be given up.
constexpr int kTrialSamples = 2;
// Samples past which a longer measurement says nothing more.
constexpr int kMostSamples = 1000;
// Stands for an output that is not finite; JSON has no infinity.
constexpr double kLargestError = 1e30;

}  // namespace

void take_samples(const std::function<double()>& sample_ms, const SampleOptions& samples,
                  double best_ms, Measurement& result) {
  sample_ms();  // has the caches and clocks as this candidate leaves them
  double total = 0, least = 0;
  for (int i = 0; i < kMostSamples && (i < samples.samples || total < samples.min_ms); ++i) {
    const double ms = sample_ms();
    result.samples_ms.push_back(ms);
    total += ms;
    least = i == 0 ? ms : std::min(least, ms);
    if (best_ms > 0 && i + 1 >= kTrialSamples && least > samples.give_up_at * best_ms) break;
  }
  summarize(result);
}

void note_error(const Error& error, Measurement& result) {
  const Status status = error.status();
  result.verdict = status == Status::timeout ? Verdict::hung
                   : status == Status::device_error || status == Status::internal
                       ? Verdict::crashed
                       : Verdict::refused;
  result.reason = one_line(error.what());
}

CandidateBench::CandidateBench(const ConvProblem& problem, const PlanOptions& options,
                               std::uint64_t seed)
    : problem_(problem), options_(options), seed_(seed) {
  if (options.backend == Backend::sim) return;
  tensors_ = allocate_tensors(device_of(options.backend), problem, true);
  fill_random(tensors_, seed);
  reference_.emplace(tensors_);
}

Measurement CandidateBench::measure(const Configuration& configuration,
                                    const SampleOptions& samples, double best_ms) {
  Measurement result;
  result.configuration = configuration;
  result.seed = seed_;
  try {
    const PlanOptions options = apply(configuration, options_);
    Plan plan = Plan::create(problem_, options);
    result.workspace_bytes = plan.workspace_bytes();
    if (options_.workspace_limit != 0 && result.workspace_bytes > options_.workspace_limit) {
      throw Error(Status::unsupported, "workspace of " + format_bytes(result.workspace_bytes) +
                                           ", must be at most " +
                                           format_bytes(options_.workspace_limit));
    }
    if (options_.backend == Backend::sim) {
      const SimulationOptions run{
          .seed = seed_, .launch = options.cuda_launch, .num_workers = plan.num_workers()};
      const Simulation simulation = simulate(plan.lowering(), simulated_machine(options), run);
      result.samples_ms = {simulation.time_us * 1e-3};
      summarize(result);
      return result;
    }
    Runner runner(std::move(plan), tensors_);
    tensors_.device->fill_bytes(tensors_.y.data(), std::byte{0xff}, tensors_.y.bytes());
    runner.run();
    const ErrorReport error = reference_->compare(runner.tiling(), tensors_.y.data());
    const ErrorBound bound = error_bound(runner.tiling());
    result.relative_l2 = std::min(error.relative_l2, kLargestError);
    result.worst_element = std::min(error.worst_element, kLargestError);
    result.bound_l2 = bound.relative_l2;
    result.bound_element = bound.worst_element;
    if (!bound.covers(error)) {
      result.verdict = Verdict::wrong;
      result.reason = to_string(error);
      return result;
    }
    take_samples([&] { return runner.sample_ms(); }, samples, best_ms, result);
    result.clock_mhz = tensors_.device->clock_mhz();
  } catch (const Error& error) {
    note_error(error, result);
  }
  return result;
}

void serve_measurements(const ConvProblem& problem, const PlanOptions& options, std::uint64_t seed,
                        const SampleOptions& samples) {
  CandidateBench bench(problem, options, seed);
  std::cout << to_json(plan_key(problem, options)).dump() << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json request = parse_line(line);
    const Json wanted = {{"configuration", request.value("configuration", Json())},
                         {"verdict", "refused"}};
    const double best_ms = number_from_json(request, "best_ms");
    const Measurement answer =
        bench.measure(measurement_from_json(wanted).configuration, samples, best_ms);
    std::cout << to_json(answer).dump() << std::endl;
    // A device that failed stays failed: the next candidate needs a new process.
    if (answer.verdict == Verdict::crashed) return;
  }
}

}  // namespace megaconv::cli
