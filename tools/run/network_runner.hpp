// SPDX-License-Identifier: Apache-2.0
// A plan of a network with its memory on this machine, and its seeded inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "megaconv/plan.hpp"
#include "tools/run/buffer.hpp"

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
  /// Copies on the host of tensors, in the order of the network's inputs and outputs.
  std::vector<std::byte> input(std::size_t i) const { return on_host(inputs_[i]); }
  std::vector<std::byte> output(std::size_t i) const { return on_host(outputs_[i]); }
  /// Bytes that no result has, in all outputs.
  void spoil_outputs();
  /// Gives other numbers; as many bytes as the tensor has.
  void set_input(std::size_t i, const std::vector<std::byte>& bytes);

 private:
  void enqueue(void* stream, Trace* trace) const;
  std::vector<std::byte> on_host(const Buffer& tensor) const;

  Plan plan_;
  Buffer workspace_, filters_;
  std::vector<Buffer> inputs_, outputs_;
  std::vector<const void*> input_pointers_;
  std::vector<void*> output_pointers_;
  std::function<double()> clock_;  // set by the first sample
};

}  // namespace megaconv::cli
