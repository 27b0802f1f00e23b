// SPDX-License-Identifier: Apache-2.0
// The tasks that write and that read each group of a windowed buffer.
#pragma once

#include <vector>

#include "megaconv/graph.hpp"

namespace megaconv {

struct SlotUsers {
  BufferId buffer = 0;
  StageId writer = 0;
  std::vector<std::vector<GroupRange>> readers;  ///< by group of the writer
};

/// Of every windowed buffer that has a writer, from the graph's edges.
std::vector<SlotUsers> find_slot_users(const TaskGraph& graph);

}  // namespace megaconv
