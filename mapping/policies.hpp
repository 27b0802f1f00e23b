// SPDX-License-Identifier: Apache-2.0
// The policies: each is one function from a graph (and its parameters) to an order of task ids.
// make_mapping() in policies.cpp chooses among them; docs/hacking.md says how to add one.
#pragma once

#include <cstdint>
#include <vector>

#include "megaconv/mapping.hpp"

namespace megaconv {

using TaskOrder = std::vector<std::uint32_t>;

TaskOrder order_staged(const TaskGraph& graph);
TaskOrder order_depth_first(const TaskGraph& graph);
TaskOrder order_critical_path(const TaskGraph& graph);
TaskOrder order_random_topological(const TaskGraph& graph, std::uint64_t seed);

/// Algorithm 1, or a variant of it: DIG, DGO and M groups mean something.
constexpr bool has_distances(Policy policy) {
  return policy == Policy::interleaved || policy == Policy::blended;
}

/// Whether anything is said about the order: another policy than the default, or a distance.
inline bool asks_for_order(const MappingOptions& options) {
  return options.policy != MappingOptions{}.policy || options.dig || options.dgo ||
         options.m_groups;
}

/// Parameters of Algorithm 1, all chosen.
struct Interleaving {
  std::uint32_t dig = 0, dgo = 0, m_groups = 1;
  bool blend = false;         ///< filter transforms among the first input transforms
  std::uint32_t workers = 1;  ///< read with `blend`
};
TaskOrder order_interleaved(const TaskGraph& graph, const Interleaving& parameters);

}  // namespace megaconv
