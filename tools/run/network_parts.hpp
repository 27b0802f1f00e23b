// SPDX-License-Identifier: Apache-2.0
// A network layer by layer: a run for every operator, one behind the other.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "megaconv/plan.hpp"
#include "tools/run/buffer.hpp"

namespace megaconv::cli {

/// The operators that fusing leaves, each a network of its own, in their order.
std::vector<Network> parts_of(const Network& network);

/// The operators that fusing leaves, each a plan of its own on whole tensors in memory of their
/// own.
class NetworkParts {
 public:
  /// Inputs are normal numbers from `seed`, those of NetworkRunner.
  NetworkParts(const Network& network, const PlanOptions& options, std::uint64_t seed);

  void run() const;
  /// Milliseconds of a run of all.
  double sample_ms();
  std::size_t value_bytes() const;  ///< of all inputs and operators
  /// A copy on the host of the network's first output.
  std::vector<std::byte> output() const;

 private:
  struct Part {
    Plan plan;
    Buffer workspace, filters;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
  };
  void enqueue(void* stream) const;
  void wait(void* stream) const;

  Backend backend_;
  std::vector<Buffer> values_;  // inputs of the network, then values of operators
  std::vector<Part> parts_;
  std::size_t output_ = 0;
  std::function<double()> clock_;
};

}  // namespace megaconv::cli
