// SPDX-License-Identifier: Apache-2.0
// Which groups of V and M are live along a mapping: the smallest window, and what `map show`
// prints.
#include <algorithm>
#include <limits>
#include <vector>

#include "megaconv/mapping.hpp"

namespace megaconv {
namespace {

// First and last position of one group's tasks of one kind.
struct Span {
  std::uint32_t first = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t last = 0;
  void add(std::uint32_t position) {
    first = std::min(first, position);
    last = std::max(last, position);
  }
};

struct Spans {
  std::vector<Span> inputs, gemms, outputs;  // by group
};

Spans find_spans(const TaskGraph& graph, const TaskMapping& mapping) {
  const std::size_t num_groups = graph.tiling.num_groups;
  Spans spans{std::vector<Span>(num_groups), std::vector<Span>(num_groups),
              std::vector<Span>(num_groups)};
  for (std::uint32_t position = 0; position < mapping.order.size(); ++position) {
    const Task& task = graph.tasks[mapping.order[position]];
    if (task.kind == TaskKind::input_transform) spans.inputs[task.group].add(position);
    if (task.kind == TaskKind::gemm) spans.gemms[task.group].add(position);
    if (task.kind == TaskKind::output_transform) spans.outputs[task.group].add(position);
  }
  return spans;
}

// Least number of slots such that, with it or more, no group's first writer stands before the last
// reader of the group that had the slot before. A group g that is first written while group r is
// still to be read needs more than g - r slots.
std::uint32_t least_slots(const std::vector<Span>& writers, const std::vector<Span>& readers) {
  const std::size_t num_groups = writers.size();
  std::vector<std::uint32_t> first_write_from(num_groups);  // of group g or any later one
  std::uint32_t earliest = std::numeric_limits<std::uint32_t>::max();
  for (std::size_t g = num_groups; g-- > 0;) {
    first_write_from[g] = earliest = std::min(earliest, writers[g].first);
  }
  std::size_t slots = 1;
  for (std::size_t r = 0; r < num_groups; ++r) {
    const auto end =
        std::lower_bound(first_write_from.begin(), first_write_from.end(), readers[r].last);
    const auto next = static_cast<std::size_t>(end - first_write_from.begin());
    if (next > r) slots = std::max(slots, next - r);  // next - 1 is the last group written before
  }
  return static_cast<std::uint32_t>(slots);
}

std::uint64_t least_distance(const std::vector<Span>& producers,
                             const std::vector<Span>& consumers) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t g = 0; g < producers.size(); ++g) {
    const std::uint64_t distance = consumers[g].first - std::uint64_t{producers[g].last};
    least = std::min(least, distance);
  }
  return least;
}

}  // namespace

Window smallest_window(const TaskGraph& graph, const TaskMapping& mapping) {
  if (graph.tiling.output_tasks == 0) return {graph.tiling.num_groups, graph.tiling.num_groups};
  const Spans spans = find_spans(graph, mapping);
  return {least_slots(spans.inputs, spans.gemms), least_slots(spans.gemms, spans.outputs)};
}

MappingStats stats(const TaskGraph& graph, const TaskMapping& mapping) {
  MappingStats result;
  if (graph.tiling.output_tasks == 0) return result;
  const Spans spans = find_spans(graph, mapping);
  result.least_dig = least_distance(spans.inputs, spans.gemms);
  result.least_dgo = least_distance(spans.gemms, spans.outputs);
  std::uint32_t live_v = 0, live_m = 0;
  for (std::uint32_t position = 0; position < mapping.order.size(); ++position) {
    const std::uint32_t g = graph.tasks[mapping.order[position]].group;
    const TaskKind kind = graph.tasks[mapping.order[position]].kind;
    if (kind == TaskKind::filter_transform) continue;
    if (spans.inputs[g].first == position) ++live_v;
    if (spans.gemms[g].first == position) ++live_m;
    result.live_v_groups = std::max(result.live_v_groups, live_v);
    result.live_m_groups = std::max(result.live_m_groups, live_m);
    result.live_bytes = std::max(result.live_bytes, live_v * graph.tiling.v_slot_bytes() +
                                                        live_m * graph.tiling.m_slot_bytes());
    if (spans.gemms[g].last == position) --live_v;
    if (spans.outputs[g].last == position) --live_m;
  }
  return result;
}

}  // namespace megaconv
