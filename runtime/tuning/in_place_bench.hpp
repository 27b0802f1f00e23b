// SPDX-License-Identifier: Apache-2.0
// Measures plans of one problem in the caller's process, on data of our own.
//
// There is no time for a reference in double. The heuristic's plan is checked on some outputs in
// double; every candidate must then agree with it on all outputs, as well as the error bounds of
// the two allow (tasks/error_bound.hpp), in the L2 norm and in the worst element. S = sum |x||w|,
// which these refer to, comes from one more run of the heuristic's plan, on |w|. Numbers here are
// floats of values that the storage type has; they are converted on the way to and from the device.
#pragma once

#include <memory>
#include <vector>

#include "megaconv/plan_database.hpp"
#include "runtime/tuning/scratch_device.hpp"
#include "tasks/error_bound.hpp"

namespace megaconv {

/// Samples of a candidate: at least so many, and together at least so long.
struct InPlaceSamples {
  int count = 3;
  double least_ms = 0;
};

class InPlaceBench {
 public:
  /// Throws Error(internal) when the heuristic's plan is wrong, and what planning throws.
  InPlaceBench(const ConvProblem& problem, const PlanOptions& options,
               const InPlaceSamples& samples);

  const Plan& heuristic() const { return heuristic_; }

  /// `best_ms`: one that is much slower than this is given up early; 0: none is.
  Measurement measure(const Configuration& configuration, double best_ms);
  Measurement measure(const Plan& plan, double best_ms);

 private:
  class Run;
  void set_truth();
  void compare(const std::vector<float>& y, const ErrorBound& bound, Measurement& result) const;
  void upload(DataType dtype, const ScratchMemory& to, const std::vector<float>& values);
  std::vector<float> download_y();
  std::vector<float> output_of(const Plan& plan);
  double exact(std::int64_t at) const;
  std::size_t x_index(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const;
  std::size_t w_index(std::int64_t k, std::int64_t c, std::int64_t r, std::int64_t s) const;

  const ConvProblem problem_;
  const PlanOptions options_;
  const InPlaceSamples samples_;
  const Plan heuristic_;
  std::unique_ptr<ScratchDevice> device_;
  std::vector<float> x_host_, w_host_, scale_host_, bias_host_, residual_host_;
  ScratchMemory x_, w_, scale_, bias_, residual_, y_;
  std::vector<float> truth_;
  ErrorBound truth_bound_;
  double worst_unit_ = 0, l2_unit_ = 0;  // what bounds are multiples of
};

}  // namespace megaconv
