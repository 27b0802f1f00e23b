// SPDX-License-Identifier: Apache-2.0
// What lowering one convolution and lowering a network have in common.
#pragma once

#include <string>

#include "megaconv/lowering.hpp"
#include "tasks/fuse.hpp"

namespace megaconv {

/// Whether convolutions of a network become small-tile implicit GEMM, and all values are in nhwc.
bool has_small_tasks(const TilingOptions& tiling, const Target& target);

/// The layout of values between operators: nhwc where tasks are small, nchw16c on a CPU where all
/// operators have tasks for it, else the network's own.
Layout layout_of_values(const FusedNetwork& network, const TilingOptions& tiling,
                        const Target& target);

/// The operators that lower() makes nodes of, one each. Throws Error(unsupported) for a network in
/// nchw16c that is not for a CPU.
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
