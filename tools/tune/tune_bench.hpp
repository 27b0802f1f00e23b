// SPDX-License-Identifier: Apache-2.0
// Measures configurations of one problem: tensors and truth are made once.
#pragma once

#include <functional>

#include "megaconv/error.hpp"
#include "megaconv/plan_database.hpp"
#include "tools/run/tensors.hpp"

namespace megaconv::cli {

/// When a candidate has been measured enough.
struct SampleOptions {
  int samples = 7;           ///< at least, unless it is given up early
  double min_ms = 10;        ///< of all samples together, at least
  double give_up_at = 1.25;  ///< after kTrialSamples: times slower than the best so far
};

/// Samples of a candidate that is right, until there are enough or it is given up: `best_ms` is the
/// fastest time known, 0 for none.
void take_samples(const std::function<double()>& sample_ms, const SampleOptions& samples,
                  double best_ms, Measurement& result);
/// What an error makes of a candidate.
void note_error(const Error& error, Measurement& result);

class CandidateBench {
 public:
  /// Allocates and fills the tensors and computes the truth; a simulated machine needs neither.
  /// `options`: what all candidates share.
  CandidateBench(const ConvProblem& problem, const PlanOptions& options, std::uint64_t seed);

  /// Runs the candidate once and compares; only a right one is timed. `best_ms`: the fastest time
  /// known, 0 for none. Never throws an Error: it becomes the verdict.
  Measurement measure(const Configuration& configuration, const SampleOptions& samples,
                      double best_ms);

 private:
  ConvProblem problem_;
  PlanOptions options_;
  std::uint64_t seed_;
  TensorSet tensors_;
  std::optional<Reference> reference_;
};

/// The loop of `tune measure`: says its key on stdout, then answers every line of stdin.
void serve_measurements(const ConvProblem& problem, const PlanOptions& options, std::uint64_t seed,
                        const SampleOptions& samples);

}  // namespace megaconv::cli
