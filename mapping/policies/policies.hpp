// SPDX-License-Identifier: Apache-2.0
// The policies: each is one function from a graph to an order of task ids, in a file of its own.
// registry.cpp lists them by name; docs/hacking.md says how to add one.
#pragma once

#include <cstdint>
#include <vector>

#include "megaconv/mapping.hpp"

namespace megaconv {

using TaskOrder = std::vector<std::uint32_t>;

/// What a policy is given besides the graph.
struct PolicyArguments {
  MappingOptions& options;  ///< a policy notes here what it chose for what was left unset
  WorkerGroup workers;
};

TaskOrder order_interleaved(const TaskGraph& graph, const PolicyArguments& arguments);
TaskOrder order_blended(const TaskGraph& graph, const PolicyArguments& arguments);
TaskOrder order_staged(const TaskGraph& graph, const PolicyArguments& arguments);
TaskOrder order_depth_first(const TaskGraph& graph, const PolicyArguments& arguments);
TaskOrder order_critical_path(const TaskGraph& graph, const PolicyArguments& arguments);
TaskOrder order_random_topological(const TaskGraph& graph, const PolicyArguments& arguments);

/// Whether DIG, DGO and M groups mean something to a policy.
bool has_distances(const std::string& policy);

/// Whether anything is said about the order: another policy than the default, or a distance.
bool asks_for_order(const MappingOptions& options);

}  // namespace megaconv
