// SPDX-License-Identifier: Apache-2.0
// Groups of a stage that have the same edges, and so one counter.
#pragma once

#include <vector>

#include "megaconv/graph.hpp"

namespace megaconv {

/// Groups of one stage with the same edges.
struct Consumer {
  Interval groups;
  std::vector<const Edge*> edges;
};

/// The consumers of one stage, in the order of their groups. [begin, end): the stage's edges, by
/// the first group of their consumers.
std::vector<Consumer> find_consumers(const Edge* begin, const Edge* end);
/// Those of every stage.
std::vector<std::vector<Consumer>> find_consumers(const TaskGraph& graph);

/// Sorts edges by their consumers: stage, then first group. Edges of the same ones stay as they
/// stand. O(edges + groups).
void sort_by_consumer(const TaskGraph& graph, std::vector<Edge>& edges);

}  // namespace megaconv
