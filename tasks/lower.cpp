// SPDX-License-Identifier: Apache-2.0
// The whole way from a problem to a validated graph and mapping.
#include <algorithm>
#include <exception>
#include <new>

#include "mapping/policies/policies.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "megaconv/lowering.hpp"
#include "tasks/conv_graph.hpp"
#include "tasks/pooling/pooling.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

TaskMapping order_tasks(const TaskGraph& graph, const MappingOptions& options, const Target& target,
                        const PolicyFunction& custom) {
  if (!custom) {
    return make_mapping(
        graph, options,
        {.workers = target.workers, .shared_cache = target.backend == Backend::cuda});
  }
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

void check(const TaskGraph& graph, const TaskMapping& mapping) {
  if (const auto violation = validate(graph, mapping)) {
    throw Error(Status::invalid_argument,
                "policy \"" + mapping.policy + "\": " + violation->message);
  }
}

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

// Whoever says something about the order means an order of the stages' tasks, not of fused ones.
Tiling choose_tiling(const ConvProblem& problem, TilingOptions options, const Target& target,
                     bool order_asked) {
  const Tiling tiling = make_tiling(problem, options, target);
  const bool fused_unasked =
      tiling.algorithm() == Algorithm::fused_winograd && options.algorithm == Algorithm::automatic;
  if (!order_asked || !fused_unasked) return tiling;
  options.algorithm = Algorithm::winograd;
  return make_tiling(problem, options, target);
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

BufferId add_input(TaskGraph& graph, const PoolProblem& problem) {
  graph.buffers.push_back({.name = "x",
                           .extent = x_extent(problem),
                           .bytes = u64(problem.x_size()) * size_of(problem.dtype),
                           .given = true});
  return static_cast<BufferId>(graph.buffers.size() - 1);
}

Cut make_cut(const Operator& op, const TilingOptions& options, const Target& target) {
  if (const auto* pool = std::get_if<PoolProblem>(&op.problem)) {
    return cut_pooling(*pool, target.workers);
  }
  return make_tiling(std::get<ConvProblem>(op.problem), options, target);
}

// Appends an operator to a graph; `x` is what it reads, kNoBuffer for what the caller gives. Where
// there are others, its buffers have its name: "conv1.U".
NodeBuffers add_cut(TaskGraph& graph, const std::string& name, const Cut& cut, BufferId x,
                    bool has_others) {
  graph.kinds = task_kinds();
  const std::size_t first = graph.buffers.size();
  NodeBuffers buffers;
  if (const auto* tiling = std::get_if<Tiling>(&cut)) {
    buffers = add_convolution(graph, name, *tiling, x);
  } else {
    const auto& pool = std::get<PoolCut>(cut);
    buffers.x = x != kNoBuffer ? x : add_input(graph, pool.problem);
    buffers.y = add_pooling(graph, name, pool, buffers.x);
  }
  for (std::size_t i = first; has_others && i < graph.buffers.size(); ++i) {
    std::string& of_buffer = graph.buffers[i].name;
    if (of_buffer.find('.') == std::string::npos) of_buffer = name + "." + of_buffer;
  }
  return buffers;
}

}  // namespace

// The cut is derived again from its chosen fields, and so is the graph: regions, which are what the
// proof rests on, are the room's.
void check_cut(Lowering& lowering) {
  const auto reject = [](const std::string& what) {
    throw Error(Status::invalid_argument, "lowering: " + what);
  };
  const TaskGraph& given = lowering.graph;
  if (lowering.nodes.empty() || given.nodes.size() != lowering.nodes.size()) {
    reject(std::to_string(lowering.nodes.size()) + " cuts of " +
           std::to_string(given.nodes.size()) + " operators, must be one of each");
  }
  TaskGraph again;
  BufferId x = kNoBuffer;
  for (std::size_t i = 0; i < lowering.nodes.size(); ++i) {
    const Cut& cut_given = lowering.nodes[i].cut;
    Cut derived = cut_given;
    std::visit([](auto& fields) { derive_counts(fields); }, derived);
    if (derived != cut_given) {
      reject(given.nodes[i] + ": the counts of its cut are not those that its fields make");
    }
    lowering.nodes[i].buffers =
        add_cut(again, given.nodes[i], derived, x, lowering.nodes.size() > 1);
    x = lowering.nodes[i].buffers.y;
  }
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

Lowering lower(const ConvProblem& problem, const TilingOptions& tiling_options,
               const MappingOptions& mapping_options, const Target& target,
               const PolicyFunction& custom) {
  Lowering lowering = cut(
      choose_tiling(problem, tiling_options, target, custom || asks_for_order(mapping_options)));
  lowering.mapping = order_tasks(lowering.graph, mapping_options, target, custom);
  const Tiling& tiling = lowering.tiling();
  const bool has_window = tiling.window() != nullptr;
  if (has_window && !tiling_options.whole_tensors && !whole_is_small(tiling, target)) {
    if (custom) check(lowering.graph, lowering.mapping);  // a window is only made for right orders
    fit_window(lowering, tiling_options, target);
  }
  check(lowering.graph, lowering.mapping);
  return lowering;
}

Lowering lower(const Network& network, const TilingOptions& tiling_options,
               const MappingOptions& mapping_options, const Target& target,
               const PolicyFunction& custom) {
  validate(network);
  Lowering lowering;
  TilingOptions options = tiling_options;
  options.whole_tensors = true;
  BufferId x = kNoBuffer;
  for (const Operator& op : network.operators) {
    const Cut cut = make_cut(op, options, target);
    lowering.nodes.push_back(
        {cut, add_cut(lowering.graph, op.name, cut, x, network.operators.size() > 1)});
    x = lowering.nodes.back().buffers.y;
  }
  link(lowering.graph);
  count_signals(lowering.graph);
  lowering.mapping = order_tasks(lowering.graph, mapping_options, target, custom);
  check(lowering.graph, lowering.mapping);
  return lowering;
}

}  // namespace megaconv
