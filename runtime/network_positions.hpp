// SPDX-License-Identifier: Apache-2.0
// Who runs which task where a network is one launch: block b has positions b, b + blocks, ... The
// blocks of a cluster take neighbouring positions.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "megaconv/lowering.hpp"

namespace megaconv {

/// Tasks that share a sum of this node; 1: they share none.
std::uint32_t shares_of(const Node& node);
/// Blocks of a cluster of that launch.
std::uint32_t cluster_blocks_of(const Lowering& lowering);

/// A position whose block has nothing to do.
inline constexpr std::uint32_t kNoTask = std::numeric_limits<std::uint32_t>::max();
/// Places in the mapping's order by position. Where tasks that share sums would not begin a
/// cluster, positions without a task stand in front of them.
std::vector<std::uint32_t> network_positions(const Lowering& lowering);

}  // namespace megaconv
