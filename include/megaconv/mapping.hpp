// SPDX-License-Identifier: Apache-2.0
// The order in which workers take tasks: policies, the window that fits an order, and the proof
// that an order is right.
//
//   TaskGraph --make_mapping--> TaskMapping --fit_window--> slots --validate--> proof
//
// Algorithm and words: MegaKernel convolution (IEEE TC 2020), sections 5 and 6; docs/glossary.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megaconv/graph.hpp"

namespace megaconv {

/// What the caller says about the order. Policies are registered by name; docs/design.md says what
/// each is for:
///   interleaved         Algorithm 1: DIG, DGO, M groups
///   blended             the same, filter transforms among its first input transforms
///   staged              one stage after the other
///   depth_first         smallest live footprint
///   critical_path       longest remaining work first
///   random_topological  seeded; for tests and research
struct MappingOptions {
  std::string policy = "interleaved";
  // Algorithm 1. Left unset, they are chosen for the workers; any value is right, also one larger
  // than the problem. For depth_first DIG is the least distance from a stage to those that need it,
  // and M the groups of a stage that it takes at a time.
  std::optional<std::uint32_t> dig{};       ///< DIG: least positions from input transform to GEMM
  std::optional<std::uint32_t> dgo{};       ///< DGO: least positions from GEMM to output transform
  std::optional<std::uint32_t> m_groups{};  ///< M: task groups interleaved; at least 1
  std::uint64_t seed = 0;                   ///< random_topological
  bool operator==(const MappingOptions&) const = default;
};

/// Names of all policies, the default first.
std::vector<std::string> policy_names();
/// Throws Error(invalid_argument) listing the names allowed.
void check_policy(std::string_view name);

/// Position -> task id: a permutation of the graph's tasks, and what made it.
struct TaskMapping {
  std::string policy;      ///< policy name, "custom" for a user's own
  MappingOptions options;  ///< with the values chosen for what was left unset
  std::vector<std::uint32_t> order;
  bool operator==(const TaskMapping&) const = default;
};

/// A policy of the user's own: returns the task ids in the order in which workers shall take them.
/// The result is validated before it is used.
using PolicyFunction = std::function<std::vector<std::uint32_t>(const TaskGraph&)>;

/// The workers that will run the tasks.
struct WorkerGroup {
  std::uint32_t workers = 1;  ///< tasks that run at the same time
  bool shared_cache = false;  ///< what one worker has read, all others find in the same cache
};

/// Orders the graph's tasks. `workers` only serves the values left to choice.
/// Throws Error(invalid_argument) for an unknown policy or M groups = 0.
TaskMapping make_mapping(const TaskGraph& graph, const MappingOptions& options,
                         const WorkerGroup& workers = {});

/// First thing wrong with a mapping.
struct Violation {
  enum class Property : std::uint8_t {
    permutation,      ///< every task exactly once
    regions,          ///< writes are disjoint and within their buffers, and cover what is read
    complete_waits,   ///< every wait covers all producers, window reuse included
    producers_first,  ///< every producer stands before its consumers
  };
  Property property;
  std::uint64_t position;  ///< in the mapping, of the task that is wrong
  std::string message;     ///< "position 7: G[0,1] waits for I[0,3], which stands later, at 12"
};

/// Proves that every task is there exactly once, that writers of a buffer are disjoint and cover
/// what is read, that every wait covers all its producers, and that every producer stands before
/// its consumers; hence no deadlock with any number of workers that take positions in order.
/// What a task needs is derived from its accesses, by another way than link() does it.
/// nullopt when the mapping is right. O(tasks + edges).
std::optional<Violation> validate(const TaskGraph& graph, const TaskMapping& mapping);

/// By buffer: the least slots with which `mapping` (made for whole buffers) never has a writer in
/// front of the readers of the slot that it overwrites. 0 for buffers that are not windowed.
std::vector<std::uint32_t> smallest_window(const TaskGraph& graph, const TaskMapping& mapping);

/// What a mapping looks like from the outside; `map show` prints it.
struct MappingStats {
  std::uint64_t least_dig = 0, least_dgo = 0;  ///< least distances found, in positions
  std::vector<std::uint32_t> live_groups;      ///< by buffer: most groups live at the same time
  std::uint64_t live_bytes = 0;  ///< most bytes of windowed buffers live at the same time
};
MappingStats stats(const TaskGraph& graph, const TaskMapping& mapping);

}  // namespace megaconv
