// SPDX-License-Identifier: Apache-2.0
#include "mapping/consumers.hpp"

#include <algorithm>
#include <utility>

namespace megaconv {

std::vector<Consumer> find_consumers(const Edge* begin, const Edge* end) {
  std::vector<std::uint64_t> cuts;
  for (const Edge* edge = begin; edge != end; ++edge) {
    cuts.push_back(edge->consumer.groups.begin);
    cuts.push_back(edge->consumer.groups.end);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Consumer> consumers;
  std::vector<const Edge*> open;
  const Edge* next = begin;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const Interval groups{cuts[i], cuts[i + 1]};
    std::erase_if(open, [&](const Edge* edge) { return edge->consumer.groups.end <= cuts[i]; });
    for (; next != end && next->consumer.groups.begin == cuts[i]; ++next) open.push_back(next);
    if (!open.empty()) consumers.push_back({groups, open});
  }
  return consumers;
}

std::vector<std::vector<Consumer>> find_consumers(const TaskGraph& graph) {
  std::vector<std::vector<Consumer>> of_stages;
  const Edge* next = graph.edges.data();
  const Edge* const end = next + graph.edges.size();
  for (StageId stage = 0; stage < graph.stages.size(); ++stage) {
    const Edge* const begin = next;
    while (next != end && next->consumer.stage == stage) ++next;
    of_stages.push_back(find_consumers(begin, next));
  }
  return of_stages;
}

void sort_by_consumer(const TaskGraph& graph, std::vector<Edge>& edges) {
  std::vector<std::uint64_t> first_group;  // by stage: groups of all stages before
  std::uint64_t groups = 0;
  for (const Stage& stage : graph.stages) {
    first_group.push_back(groups);
    groups += stage.groups;
  }
  const auto place_of = [&](const Edge& edge) {
    return first_group[edge.consumer.stage] + edge.consumer.groups.begin;
  };
  std::vector<std::uint64_t> begin(groups + 1);  // of the edges of each place
  for (const Edge& edge : edges) ++begin[place_of(edge) + 1];
  for (std::size_t place = 1; place < begin.size(); ++place) begin[place] += begin[place - 1];
  std::vector<Edge> sorted(edges.size());
  for (const Edge& edge : edges) sorted[begin[place_of(edge)]++] = edge;
  edges = std::move(sorted);
}

}  // namespace megaconv
