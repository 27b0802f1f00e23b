// SPDX-License-Identifier: Apache-2.0
// What the rooms of convolution algorithms add to a task graph: which regions their tasks read and
// write.
#pragma once

#include <array>
#include <string>

#include "megaconv/graph.hpp"
#include "megaconv/lowering.hpp"
#include "megaconv/tiling.hpp"

namespace megaconv {

/// The kinds of task of all rooms, by TaskKind.
std::vector<Kind> task_kinds();

/// Appends a convolution to a graph: its node, buffers and stages, not linked yet. `read` has the
/// buffers x and residual that it reads, kNoBuffer for those of its own, which the caller gives.
NodeBuffers add_convolution(TaskGraph& graph, const std::string& name, const Tiling& tiling,
                            const NodeBuffers& read = {});

/// Its stages, in the order of roles, without costs; some have no tasks.
std::array<Stage, kNumRoles> conv_stages(const Tiling& tiling);

AccessFunction winograd_accesses(const Tiling& tiling, const NodeBuffers& buffers);
AccessFunction fused_winograd_accesses(const Tiling& tiling, const NodeBuffers& buffers);
AccessFunction direct_accesses(const Tiling& tiling, const NodeBuffers& buffers);
AccessFunction implicit_gemm_accesses(const Tiling& tiling, const NodeBuffers& buffers);
AccessFunction opencnn_accesses(const Tiling& tiling, const NodeBuffers& buffers);

// What several rooms have in common:

/// All of U.
Region u_extent(const Tiling& tiling);
/// The `block`-th filter task's share of U: filters first, then channels.
Region filter_task_region(const Tiling& tiling, std::uint32_t block);
/// Appends what that task reads of w and writes of U.
void append_filter_task(const Tiling& tiling, const NodeBuffers& buffers, std::uint32_t block,
                        std::vector<Access>& accesses);
/// Output channels of the lane blocks [begin, end) of filters.
Interval channels_of_filter_blocks(const Tiling& tiling, std::uint64_t begin, std::uint64_t end);
/// Appends what a task that computes these boxes of y reads of x and the residual, and writes of y.
void append_pixels(const Tiling& tiling, const NodeBuffers& buffers,
                   const std::vector<Region>& boxes, const Interval& channels,
                   std::vector<Access>& accesses);
}  // namespace megaconv
