// SPDX-License-Identifier: Apache-2.0
// What lowering one convolution and lowering a network have in common.
#pragma once

#include <string>

#include "megaconv/lowering.hpp"
#include "tasks/fuse.hpp"

namespace megaconv {

/// What lower() cuts a problem into. `order_asked`: for an order of the caller's own.
Tiling cut_of(const ConvProblem& problem, const TilingOptions& options, const Target& target,
              bool order_asked);

/// The rest of lower(): what the options cut a problem into, as tasks in a proven order.
Lowering lower(const Tiling& cut, const TilingOptions& tiling, const MappingOptions& mapping,
               const Target& target, const PolicyFunction& custom = nullptr);

/// Whether convolutions of a network may become small-tile implicit GEMM.
bool has_small_tasks(const TilingOptions& tiling, const Target& target);

/// How an operator of a network is cut, and why.
struct OperatorCut {
  Cut cut;
  std::string reason{};              ///< as in Node
  double us = 0, one_launch_us = 0;  ///< of convolutions on CUDA, as in FamilyChoice; else 0
};
/// Of all operators. Throws with the name of the one that cannot be cut.
std::vector<OperatorCut> cut_operators(const FusedNetwork& network, const TilingOptions& tiling,
                                       const Target& target);

/// The operators that lower() makes nodes of, one each.
FusedNetwork fuse(const Network& network, const TilingOptions& tiling, const Target& target);

/// lower() of what fuse() gives for the same options and target.
Lowering lower(const FusedNetwork& network, const TilingOptions& tiling,
               const MappingOptions& mapping, const Target& target,
               const PolicyFunction& custom = nullptr);

/// The order that the policy, or the caller's own, gives the tasks; not validated.
TaskMapping order_tasks(const TaskGraph& graph, const MappingOptions& options, const Target& target,
                        const PolicyFunction& custom);

/// One line: what a node computes, and in how many tasks.
std::string summary(const Cut& cut);

/// Throws Error(invalid_argument) with the violation's message unless the order is right.
void check_order(const TaskGraph& graph, const TaskMapping& mapping);

}  // namespace megaconv
