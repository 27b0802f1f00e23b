// SPDX-License-Identifier: Apache-2.0
// Measures configurations of one network.
#pragma once

#include <vector>

#include "tools/run/network_runner.hpp"
#include "tools/tune/tune_bench.hpp"

namespace megaconv::cli {

class NetworkBench {
 public:
  /// Runs the plan that the library chooses by itself: others must give its outputs. `options`:
  /// what all candidates share.
  NetworkBench(const Network& network, const PlanOptions& options, std::uint64_t seed);

  /// Runs the candidate once and compares; only a right one is timed. Never throws an Error: it
  /// becomes the verdict.
  Measurement measure(const Configuration& configuration, const SampleOptions& samples,
                      double best_ms);

 private:
  /// Numbers of all outputs, one behind the other.
  std::vector<double> outputs_of(NetworkRunner& runner) const;

  const Network& network_;
  const PlanOptions options_;
  const std::uint64_t seed_;
  std::vector<double> wanted_;
};

}  // namespace megaconv::cli
