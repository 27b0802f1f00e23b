// SPDX-License-Identifier: Apache-2.0
// A plan of a network with its memory on this machine, and its seeded inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "megaconv/plan.hpp"
#include "tools/buffer.hpp"

namespace megaconv::cli {

/// Inputs are normal numbers from `seed`.
class NetworkRunner {
 public:
  NetworkRunner(const Network& network, const PlanOptions& options, std::uint64_t seed);

  /// Runs once.
  void run(Trace* trace = nullptr);
  /// Milliseconds of a run.
  double sample_ms();

  const Plan& plan() const { return plan_; }
  /// Tensors in the order of the network's inputs and outputs.
  const std::vector<const void*>& inputs() const { return input_pointers_; }
  /// To give other numbers.
  void* input(std::size_t i) { return inputs_[i].data(); }
  const std::vector<void*>& outputs() const { return output_pointers_; }
  std::size_t output_bytes(std::size_t i) const { return outputs_[i].bytes(); }

 private:
  Plan plan_;
  Buffer workspace_, filters_;
  std::vector<Buffer> inputs_, outputs_;
  std::vector<const void*> input_pointers_;
  std::vector<void*> output_pointers_;
  std::function<double()> clock_;  // set by the first sample
};

}  // namespace megaconv::cli
