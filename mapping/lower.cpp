// SPDX-License-Identifier: Apache-2.0
// The whole way from a problem to a validated graph and mapping.
#include <algorithm>
#include <exception>
#include <new>

#include "mapping/policies.hpp"
#include "mapping/text.hpp"
#include "mapping/tiling.hpp"
#include "megaconv/error.hpp"
#include "megaconv/mapping.hpp"

namespace megaconv {
namespace {

TaskMapping order_tasks(const TaskGraph& graph, const MappingOptions& options, const Target& target,
                        const PolicyFunction& custom) {
  if (!custom) return make_mapping(graph, options, target);
  try {
    return {.policy = "custom", .options = {}, .order = custom(graph)};
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(Status::invalid_argument,
                "policy \"custom\" threw \"" + excerpt(error.what()) + "\"");
  }
}

// Called when a mapping made for whole tensors is wrong: the policy's fault, not the window's.
void check(const TaskGraph& graph, const TaskMapping& mapping) {
  if (const auto violation = validate(graph, mapping)) {
    throw Error(Status::invalid_argument,
                "policy \"" + mapping.policy + "\": " + violation->message);
  }
}

// A window as small as the order allows would make a worker that is about to fill a slot wait for
// the one that is just reading it. A few groups more let the workers drift apart: those that
// 2 x workers neighbouring positions of the mapping touch, and one.
Window with_slack(const Window& least, const TaskGraph& graph, const Target& target) {
  const Tiling& tiling = graph.tiling;
  const std::uint64_t group_tasks =
      std::uint64_t{tiling.input_tasks} + tiling.gemm_tasks + tiling.output_tasks;
  const std::uint64_t slack = ceil_div(2 * std::uint64_t{target.workers}, group_tasks) + 1;
  const auto slots = [&](std::uint64_t num) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(num + slack, tiling.num_groups));
  };
  return {slots(least.v_slots), slots(least.m_slots)};
}

// V and M whole take no more than half of all workers' caches, so a window would gain nothing.
bool whole_is_small(const Tiling& tiling, const Target& target) {
  const std::uint64_t whole_bytes =
      tiling.num_groups * (tiling.v_slot_bytes() + tiling.m_slot_bytes());
  return whole_bytes <= std::uint64_t{target.workers} * target.cache_bytes_per_worker / 2;
}

// Whoever says something about the order means an order of the stages' tasks, not of fused ones.
Tiling choose_tiling(const ConvProblem& problem, TilingOptions options, const Target& target,
                     bool order_asked) {
  const Tiling tiling = make_tiling(problem, options, target);
  const bool fused_unasked =
      tiling.algorithm == Algorithm::fused_winograd && options.algorithm == Algorithm::automatic;
  if (!order_asked || !fused_unasked) return tiling;
  options.algorithm = Algorithm::winograd;
  return make_tiling(problem, options, target);
}

}  // namespace

Lowering lower(const ConvProblem& problem, const TilingOptions& tiling_options,
               const MappingOptions& mapping_options, const Target& target,
               const PolicyFunction& custom) {
  Lowering lowering;
  lowering.graph = build_graph(
      choose_tiling(problem, tiling_options, target, custom || asks_for_order(mapping_options)));
  lowering.mapping = order_tasks(lowering.graph, mapping_options, target, custom);
  check(lowering.graph, lowering.mapping);

  Tiling tiling = lowering.graph.tiling;
  if (tiling.algorithm != Algorithm::winograd || tiling_options.whole_tensors ||
      whole_is_small(tiling, target)) {
    return lowering;
  }
  const Window window =
      with_slack(smallest_window(lowering.graph, lowering.mapping), lowering.graph, target);
  if (tiling_options.v_slots == 0) tiling.v_slots = window.v_slots;
  if (tiling_options.m_slots == 0) tiling.m_slots = window.m_slots;
  if (tiling == lowering.graph.tiling) return lowering;
  lowering.graph = build_graph(tiling);
  check(lowering.graph, lowering.mapping);
  return lowering;
}

}  // namespace megaconv
