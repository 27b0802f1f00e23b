// SPDX-License-Identifier: Apache-2.0
// What the tasks of a convolution cost: operations and bytes.
#pragma once

#include "megaconv/graph.hpp"
#include "tasks/conv_graph.hpp"

namespace megaconv {

/// Fills operations, bytes and traffic of a stage of a convolution. Everything follows from the
/// tiling's counts, not from what a kernel does.
void describe_cost(const Tiling& tiling, const NodeBuffers& buffers, Stage& stage);

}  // namespace megaconv
