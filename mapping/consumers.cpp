// SPDX-License-Identifier: Apache-2.0
#include "mapping/consumers.hpp"

#include <algorithm>

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

}  // namespace megaconv
