// SPDX-License-Identifier: Apache-2.0
// The policies by name.
#include <algorithm>
#include <string_view>

#include "mapping/policies/policies.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"

namespace megaconv {
namespace {

struct NamedPolicy {
  const char* name;
  TaskOrder (*order)(const TaskGraph& graph, const PolicyArguments& arguments);
  bool has_distances = false;
};

constexpr NamedPolicy kPolicies[] = {
    {"interleaved", order_interleaved, true},
    {"blended", order_blended, true},
    {"staged", order_staged},
    {"depth_first", order_depth_first},
    {"critical_path", order_critical_path},
    {"random_topological", order_random_topological},
};

const NamedPolicy* find(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kPolicies), std::end(kPolicies),
                   [&](const NamedPolicy& policy) { return name == policy.name; });
  return found == std::end(kPolicies) ? nullptr : found;
}

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const NamedPolicy& policy : kPolicies) names.push_back(policy.name);
  return names;
}

void check_policy(std::string_view name) {
  if (find(name) != nullptr) return;
  std::string allowed;
  for (const NamedPolicy& policy : kPolicies) {
    allowed += (allowed.empty() ? "" : ", ") + std::string(policy.name);
  }
  throw Error(Status::invalid_argument,
              "policy \"" + excerpt(name) + "\": must be one of " + allowed);
}

bool has_distances(const std::string& policy) {
  const NamedPolicy* const found = find(policy);
  return found != nullptr && found->has_distances;
}

bool asks_for_order(const MappingOptions& options) {
  return options.policy != MappingOptions{}.policy || options.dig || options.dgo ||
         options.m_groups;
}

TaskMapping make_mapping(const TaskGraph& graph, const MappingOptions& options,
                         const WorkerGroup& workers) {
  check_policy(options.policy);
  TaskMapping mapping{.policy = options.policy, .options = options, .order = {}};
  mapping.order = find(options.policy)->order(graph, {mapping.options, workers});
  return mapping;
}

}  // namespace megaconv
