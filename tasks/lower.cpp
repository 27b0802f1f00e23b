// SPDX-License-Identifier: Apache-2.0
// The whole way from one convolution to a validated graph and mapping.
#include "tasks/lower.hpp"

#include <algorithm>
#include <exception>
#include <new>

#include "mapping/policies/policies.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "megaconv/lowering.hpp"
#include "tasks/conv_graph.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {

TaskMapping order_tasks(const TaskGraph& graph, const MappingOptions& options, const Target& target,
                        const PolicyFunction& custom) {
  if (!custom) {
    return make_mapping(
        graph, options,
        {.workers = target.workers, .shared_cache = target.backend == Backend::cuda});
  }
  // A policy of the caller's own has the name that he gave it in place of the default.
  const std::string name =
      options.policy == MappingOptions{}.policy ? "custom" : excerpt(options.policy);
  try {
    return {.policy = name, .options = {}, .order = custom(graph)};
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(Status::invalid_argument,
                "policy \"" + name + "\" threw \"" + excerpt(error.what()) + "\"");
  }
}

void check_order(const TaskGraph& graph, const TaskMapping& mapping) {
  if (const auto violation = validate(graph, mapping)) {
    throw Error(Status::invalid_argument,
                "policy \"" + mapping.policy + "\": " + violation->message);
  }
}

namespace {

// A window as small as the order allows would make a worker that is about to fill a slot wait for
// the one that is just reading it. A few groups more let the workers drift apart: those that
// 2 x workers neighbouring positions of the mapping touch, and one.
std::uint32_t with_slack(std::uint32_t least, const Tiling& tiling, const Target& target) {
  const std::uint64_t group_tasks =
      std::uint64_t{tiling.input_tasks} + tiling.gemm_tasks + tiling.output_tasks;
  const std::uint64_t slack = ceil_div(2 * std::uint64_t{target.workers}, group_tasks) + 1;
  return u32(std::min<std::uint64_t>(least + slack, tiling.num_groups));
}

// V and M whole take no more than half of all workers' caches, so a window would gain nothing.
bool whole_is_small(const Tiling& tiling, const Target& target) {
  const std::uint64_t whole_bytes =
      tiling.num_groups * (tiling.v_slot_bytes() + tiling.m_slot_bytes());
  return whole_bytes <= std::uint64_t{target.workers} * target.cache_bytes_per_worker / 2;
}

// Slots of V and M that nobody asked for are made to fit the order, which was made without them.
void fit_window(Lowering& lowering, const TilingOptions& options, const Target& target) {
  Tiling& tiling = lowering.tiling();
  Window& window = *tiling.window();
  const Window whole = window;
  const NodeBuffers& buffers = lowering.nodes.front().buffers;
  const std::vector<std::uint32_t> least = smallest_window(lowering.graph, lowering.mapping);
  const auto fit = [&](std::uint32_t asked, BufferId id, std::uint32_t& slots) {
    if (asked != 0) return;
    slots = with_slack(least[id], tiling, target);
    lowering.graph.buffers[id].slots = slots < tiling.num_groups ? slots : 0;
  };
  fit(options.v_slots, buffers.v, window.v_slots);
  fit(options.m_slots, buffers.m, window.m_slots);
  if (window == whole) return;
  add_reuse(lowering.graph);
  count_signals(lowering.graph);
}

}  // namespace

// The cut is derived again from its chosen fields, and so is the graph: regions, which are what the
// proof rests on, are the room's.
void check_cut(Lowering& lowering) {
  const auto reject = [](const std::string& what) {
    throw Error(Status::invalid_argument, "lowering: " + what);
  };
  const TaskGraph& given = lowering.graph;
  if (lowering.nodes.size() != 1 || given.nodes.size() != 1 ||
      !std::holds_alternative<Tiling>(lowering.nodes.front().cut)) {
    reject(std::to_string(lowering.nodes.size()) + " cuts of " +
           std::to_string(given.nodes.size()) + " operators, must be of one convolution");
  }
  Tiling derived = lowering.tiling();
  derive_counts(derived);
  if (derived != lowering.tiling()) {
    reject(given.nodes.front() + ": the counts of its cut are not those that its fields make");
  }
  TaskGraph again;
  lowering.nodes.front().buffers = add_convolution(again, given.nodes.front(), derived);
  const auto same_stage = [](const Stage& a, const Stage& b) {
    return a.node == b.node && a.role == b.role && a.kind == b.kind && a.first == b.first &&
           a.groups == b.groups && a.per_group == b.per_group;
  };
  const auto same_buffer = [](const Buffer& a, const Buffer& b) {
    return a.name == b.name && a.extent == b.extent && a.bytes == b.bytes && a.given == b.given &&
           a.windowed == b.windowed && a.slots == b.slots;
  };
  if (!std::equal(given.stages.begin(), given.stages.end(), again.stages.begin(),
                  again.stages.end(), same_stage)) {
    reject("its stages are not those that its cuts make");
  }
  if (!std::equal(given.buffers.begin(), given.buffers.end(), again.buffers.begin(),
                  again.buffers.end(), same_buffer)) {
    reject("its buffers are not those that its cuts make");
  }
  lowering.graph.kinds = std::move(again.kinds);
  lowering.graph.accesses = std::move(again.accesses);
}

Lowering cut(const Tiling& tiling) {
  Lowering lowering;
  const NodeBuffers buffers = add_convolution(lowering.graph, "conv", tiling);
  lowering.nodes = {{tiling, buffers}};
  link(lowering.graph);
  add_reuse(lowering.graph);
  count_signals(lowering.graph);
  return lowering;
}

// Whoever says something about the order means an order of the stages' tasks, not of fused ones.
Tiling cut_of(const ConvProblem& problem, const TilingOptions& options, const Target& target,
              bool order_asked) {
  const Tiling tiling = make_tiling(problem, options, target);
  const bool fused_unasked =
      tiling.algorithm() == Algorithm::fused_winograd && options.algorithm == Algorithm::automatic;
  if (!order_asked || !fused_unasked) return tiling;
  TilingOptions staged = options;
  staged.algorithm = Algorithm::winograd;
  return make_tiling(problem, staged, target);
}

Lowering lower(const ConvProblem& problem, const TilingOptions& tiling,
               const MappingOptions& mapping, const Target& target, const PolicyFunction& custom) {
  return lower(cut_of(problem, tiling, target, custom || asks_for_order(mapping)), tiling, mapping,
               target, custom);
}

Lowering lower(const Tiling& of, const TilingOptions& tiling_options,
               const MappingOptions& mapping_options, const Target& target,
               const PolicyFunction& custom) {
  Lowering lowering = cut(of);
  lowering.mapping = order_tasks(lowering.graph, mapping_options, target, custom);
  const Tiling& tiling = lowering.tiling();
  const bool has_window = tiling.window() != nullptr;
  if (has_window && !tiling_options.whole_tensors && !whole_is_small(tiling, target)) {
    if (custom)
      check_order(lowering.graph, lowering.mapping);  // a window is only made for right orders
    fit_window(lowering, tiling_options, target);
  }
  check_order(lowering.graph, lowering.mapping);
  return lowering;
}

}  // namespace megaconv
