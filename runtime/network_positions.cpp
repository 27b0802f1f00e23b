// SPDX-License-Identifier: Apache-2.0
#include "runtime/network_positions.hpp"

#include <algorithm>
#include <variant>

namespace megaconv {

std::uint32_t shares_of(const Node& node) {
  const auto* const cut = std::get_if<SmallGemmCut>(&node.cut);
  return cut == nullptr ? 1 : cut->shares;
}

std::uint32_t cluster_blocks_of(const Lowering& lowering) {
  std::uint32_t most = 1;
  for (const Node& node : lowering.nodes) most = std::max(most, shares_of(node));
  return most;
}

std::vector<std::uint32_t> network_positions(const Lowering& lowering) {
  const std::uint32_t cluster = cluster_blocks_of(lowering);
  std::vector<std::uint32_t> positions;
  positions.reserve(lowering.mapping.order.size());
  for (std::uint32_t place = 0; place < lowering.mapping.order.size(); ++place) {
    const Task& task = lowering.graph.tasks[lowering.mapping.order[place]];
    const std::uint32_t shares = shares_of(lowering.nodes[task.node]);
    while (shares > 1 && task.block % shares == 0 && positions.size() % cluster != 0) {
      positions.push_back(kNoTask);
    }
    positions.push_back(place);
  }
  return positions;
}

}  // namespace megaconv
