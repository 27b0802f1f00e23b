// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/network_bench.hpp"

#include <cmath>
#include <string>

#include "tools/run/tensors.hpp"

namespace megaconv::cli {
namespace {

// Two right plans of a network differ by their roundings. Outputs of the ten built-in networks err
// by 3.7e-6 in FP32 at most, by 6.8e-3 with 11 bits and by 4.2e-2 in BF16 (docs/networks.md): twice
// that, and twice again for networks that are not among them.
double allowed_difference(const Network& network, const PlanOptions& options) {
  if (network.dtype == DataType::bf16) return 0.17;
  const bool exact = options.tiling.precision == Precision::f32 && !options.tiling.max_error;
  return network.dtype == DataType::f32 && exact ? 1.5e-5 : 0.028;
}

PlanOptions by_heuristic(PlanOptions options) {
  options.source = PlanSource::heuristic;
  return options;
}

}  // namespace

NetworkBench::NetworkBench(const Network& network, const PlanOptions& options, std::uint64_t seed)
    : network_(network), options_(options), seed_(seed) {
  NetworkRunner runner(network, by_heuristic(options), seed);
  wanted_ = outputs_of(runner);
}

std::vector<double> NetworkBench::outputs_of(NetworkRunner& runner) const {
  runner.spoil_outputs();
  runner.run();
  std::vector<double> numbers;
  for (std::size_t i = 0; i < network_.outputs.size(); ++i) {
    const std::vector<double> output = numbers_of(network_.dtype, runner.output(i));
    numbers.insert(numbers.end(), output.begin(), output.end());
  }
  return numbers;
}

Measurement NetworkBench::measure(const Configuration& configuration, const SampleOptions& samples,
                                  double best_ms) {
  Measurement result;
  result.configuration = configuration;
  result.seed = seed_;
  try {
    NetworkRunner runner(network_, apply(configuration, options_), seed_);
    result.workspace_bytes = runner.plan().workspace_bytes();
    result.bound_l2 = allowed_difference(network_, options_);
    result.relative_l2 = relative_l2(outputs_of(runner), wanted_);
    if (!(result.relative_l2 <= result.bound_l2)) {
      result.verdict = Verdict::wrong;
      result.reason = "outputs differ by " + std::to_string(result.relative_l2);
      result.relative_l2 = std::isfinite(result.relative_l2) ? result.relative_l2 : 1e30;
      return result;
    }
    take_samples([&] { return runner.sample_ms(); }, samples, best_ms, result);
    result.clock_mhz = device_of(options_.backend).clock_mhz();
  } catch (const Error& error) {
    note_error(error, result);
  }
  return result;
}

}  // namespace megaconv::cli
