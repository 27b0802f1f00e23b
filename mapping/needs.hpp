// SPDX-License-Identifier: Apache-2.0
// What tasks need, for the proof of a mapping: derived from accesses by a sweep over the rows of
// each buffer, which shares nothing with link() but the accesses themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "megaconv/graph.hpp"

namespace megaconv {

/// A task whose accesses are wrong, and why.
struct WrongAccess {
  StageId stage = 0;
  std::uint32_t group = 0, block = 0;
  std::string what;  ///< "writes rows 0-4 of buffer y, which O[0,1] writes too"
};

struct Needs {
  std::vector<Edge> edges;           ///< by consumer: stage, then group; reuse included
  std::optional<WrongAccess> wrong;  ///< the first one found; edges are then incomplete
};

/// Checks the accesses of all tasks: writes lie within their buffers, are disjoint, and cover what
/// is read of buffers that are not given.
Needs find_needs(const TaskGraph& graph);

}  // namespace megaconv
