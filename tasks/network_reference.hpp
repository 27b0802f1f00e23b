// SPDX-License-Identifier: Apache-2.0
// The truth that tests and `megaconv net verify` compare networks with.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "megaconv/lowering.hpp"
#include "tasks/fuse.hpp"

namespace megaconv {

/// Values by name, in double, [N][C][H][W] whatever the layout of the network.
using DoubleValues = std::map<std::string, std::vector<double>>;

/// All values of a network, every operation in double; nothing is rounded to the storage type.
/// `inputs` has those of the network.
DoubleValues reference_network(const Network& network, const DoubleValues& inputs);
/// The same with operators fused: the values that are left.
DoubleValues reference_network(const FusedNetwork& network, const DoubleValues& inputs);

/// What one operator of a run made, beside what it would have made in double of the same numbers.
struct OperatorCheck {
  std::string name;  ///< "conv1 + bn1 + relu1"
  double share_of_bound =
      0;             ///< the greatest error relative to what rounding allows; right up to 1
  std::string text;  ///< "relative L2 3.1e-07 (bound 2.4e-06), ..."
  bool right() const { return share_of_bound <= 1; }
};

/// Checks one operator of a lowering. `reads`: the tensors that it has read, in the order of
/// FusedOperator::reads; y: the one that it has written.
OperatorCheck check_operator(const FusedOperator& op, const Cut& cut,
                             std::span<const void* const> reads, const void* y);

/// Checks all operators, in their order. `values`: tensors of the network's inputs, then of its
/// operators; what no task has stored is empty, and computed here, in double. Tasks that compute it
/// may err as much as it, relative to magnitudes through all of it. Calls visit(operator, check)
/// for each that was stored, until that returns false.
void check_operators(const FusedNetwork& network, std::span<const Node> nodes,
                     std::vector<std::vector<std::byte>>& values,
                     const std::function<bool(std::size_t op, const OperatorCheck& check)>& visit);

/// Names of operators whose values no task stores, since those that read them compute them.
std::set<std::string> not_stored(const Lowering& lowering);

}  // namespace megaconv
