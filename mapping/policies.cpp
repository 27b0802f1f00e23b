// SPDX-License-Identifier: Apache-2.0
// The names of the policies, the simple ones, and what is chosen when a parameter is left unset.
#include "mapping/policies.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "mapping/enum_names.hpp"
#include "mapping/text.hpp"
#include "mapping/tiling.hpp"
#include "megaconv/error.hpp"

namespace megaconv {
namespace {

constexpr std::pair<Policy, const char*> kPolicyNames[] = {
    {Policy::interleaved, "interleaved"},
    {Policy::blended, "blended"},
    {Policy::staged, "staged"},
    {Policy::depth_first, "depth_first"},
    {Policy::critical_path, "critical_path"},
    {Policy::random_topological, "random_topological"},
};

// On a CPU every worker reads the same part of U at about the same time: of as many groups as there
// are workers, or of one group that has tasks for all of them. On a GPU the L2 shares filters among
// far more workers than there should be groups in flight (docs/performance.md).
std::uint32_t default_m_groups(const Tiling& tiling, const Target& target) {
  if (target.backend == Backend::cuda) return 2;
  return tiling.gemm_tasks >= 2 * std::uint64_t{target.workers} ? 1 : target.workers;
}

// Workers take tasks in order, so about `workers` neighbours of the mapping run at the same time;
// two of those apart, a consumer finds its producers done unless they run longer than its whole
// neighbourhood.
Interleaving choose_interleaving(const MappingOptions& options, const TaskGraph& graph,
                                 const Target& target) {
  const std::uint32_t apart = target.workers > 1 ? 2 * std::min(target.workers, 1u << 30) : 1;
  const std::uint32_t most_groups = std::max(1u, graph.tiling.num_groups);
  const std::uint32_t m_groups = default_m_groups(graph.tiling, target);
  return {.dig = options.dig.value_or(apart),
          .dgo = options.dgo.value_or(apart),
          .m_groups = options.m_groups.value_or(std::clamp(m_groups, 1u, most_groups)),
          .blend = options.policy == Policy::blended,
          .workers = target.workers};
}

}  // namespace

const char* to_string(Policy policy) noexcept { return name_of(kPolicyNames, policy); }

Policy parse_policy(std::string_view name) {
  if (const auto policy = value_of(kPolicyNames, name)) return *policy;
  throw Error(Status::invalid_argument,
              "policy \"" + excerpt(name) + "\": must be one of " + list_names(kPolicyNames));
}

TaskOrder order_staged(const TaskGraph& graph) {
  TaskOrder order(graph.tasks.size());
  std::iota(order.begin(), order.end(), 0u);  // ids are in staged order
  return order;
}

TaskOrder order_depth_first(const TaskGraph& graph) {
  const Tiling& tiling = graph.tiling;
  TaskOrder order;
  order.reserve(graph.tasks.size());
  for (std::uint32_t f = 0; f < tiling.num_filter_tasks; ++f) order.push_back(graph.filter_id(f));
  std::uint32_t num_inputs = 0;
  for (std::uint32_t g = 0; g < tiling.num_groups; ++g) {
    for (; num_inputs < inputs_before_group(tiling, g); ++num_inputs) {
      order.push_back(graph.input_id(0, num_inputs));
    }
    for (std::uint32_t j = 0; j < tiling.gemm_tasks; ++j) order.push_back(graph.gemm_id(g, j));
    for (std::uint32_t o = 0; o < tiling.output_tasks; ++o) order.push_back(graph.output_id(g, o));
  }
  return order;
}

TaskMapping make_mapping(const TaskGraph& graph, const MappingOptions& options,
                         const Target& target) {
  TaskMapping mapping{.policy = to_string(options.policy), .options = options, .order = {}};
  switch (options.policy) {
    case Policy::interleaved:
    case Policy::blended: {
      if (options.m_groups == 0u) {
        throw Error(Status::invalid_argument, "m_groups = 0: must be at least 1");
      }
      const Interleaving chosen = choose_interleaving(options, graph, target);
      mapping.options.dig = chosen.dig;
      mapping.options.dgo = chosen.dgo;
      mapping.options.m_groups = chosen.m_groups;
      mapping.order = order_interleaved(graph, chosen);
      return mapping;
    }
    case Policy::staged:
      mapping.order = order_staged(graph);
      return mapping;
    case Policy::depth_first:
      mapping.order = order_depth_first(graph);
      return mapping;
    case Policy::critical_path:
      mapping.order = order_critical_path(graph);
      return mapping;
    case Policy::random_topological:
      mapping.order = order_random_topological(graph, options.seed);
      return mapping;
  }
  throw Error(Status::invalid_argument,
              "policy number " + std::to_string(static_cast<int>(options.policy)) + " is unknown");
}

}  // namespace megaconv
