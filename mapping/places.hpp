// SPDX-License-Identifier: Apache-2.0
// Memory that buffers share.
#pragma once

#include <cstdint>
#include <vector>

#include "megaconv/graph.hpp"
#include "megaconv/mapping.hpp"

namespace megaconv {

/// Bytes of memory that rows of a buffer with a place take; whole blocks of rows.
Interval bytes_of_rows(const Buffer& buffer, const Interval& rows);
/// All bytes of a buffer with a place.
Interval bytes_of(const Buffer& buffer);

/// Gives the buffers of `shared` places in one piece of memory, and returns its bytes. Two of them
/// have bytes in common where in this order one is through, and `slack` positions more, before the
/// other is begun, and its stages stand in front of those that write the other. What a node reads
/// is through when all stages of the node are. Places are multiples of `alignment`.
std::uint64_t choose_places(TaskGraph& graph, const TaskMapping& mapping,
                            const std::vector<BufferId>& shared, std::uint64_t slack,
                            std::uint64_t alignment);

}  // namespace megaconv
