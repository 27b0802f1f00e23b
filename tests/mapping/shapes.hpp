// SPDX-License-Identifier: Apache-2.0
// Graphs of any counts, and what the tests of mappings share.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/lowering.hpp"
#include "tasks/tiling.hpp"

namespace megaconv::test {

struct Counts {
  std::uint32_t ng = 1, nf = 1, si = 1, sg = 1, so = 1;
  std::uint32_t v_slots = 0, m_slots = 0;  // 0: whole
};

/// A Winograd tiling with exactly these counts: one tile a group, one channel block an input task,
/// and NF * SG * SO filter blocks, which each kind of task divides as it needs. NF = 0: prepared.
inline Tiling winograd_tiling(const Counts& counts) {
  const std::uint32_t nf = std::max(1u, counts.nf);
  const std::uint32_t filter_blocks = nf * counts.sg * counts.so;
  Tiling tiling;
  tiling.problem.c = 16 * counts.si;
  tiling.problem.k = 16 * filter_blocks;
  tiling.problem.h = 4;
  tiling.problem.w = 4 * counts.ng;
  tiling.filters = counts.nf == 0 ? FilterMode::prepared : FilterMode::every_run;
  auto& cut = tiling.cut.emplace<WinogradCut>();
  cut.m = 4;
  cut.group_tiles = cut.tiles_per_transform_task = 1;
  cut.channel_blocks_per_input_task = 1;
  cut.filter_blocks_per_gemm_task = filter_blocks / counts.sg;
  cut.positions_per_gemm_task = 36;
  cut.filter_blocks_per_output_task = filter_blocks / counts.so;
  cut.window = {counts.v_slots, counts.m_slots};
  tiling.filter_blocks_per_filter_task = filter_blocks / nf;
  tiling.channel_blocks_per_filter_task = counts.si;
  derive_counts(tiling);
  return tiling;
}

/// A direct tiling with NG, NF and SG of `counts`: one output pixel a group.
inline Tiling direct_tiling(const Counts& counts) {
  const std::uint32_t nf = std::max(1u, counts.nf);
  Tiling tiling;
  tiling.problem.k = 16 * nf * counts.sg;
  tiling.problem.w = counts.ng;
  tiling.problem.r = tiling.problem.s = 1;
  tiling.problem.pad_h = tiling.problem.pad_w = 0;
  tiling.filters = counts.nf == 0 ? FilterMode::prepared : FilterMode::every_run;
  tiling.cut =
      DirectCut{.rows_per_group = 1, .cols_per_group = 1, .filter_blocks_per_gemm_task = nf};
  tiling.filter_blocks_per_filter_task = counts.sg;
  derive_counts(tiling);
  return tiling;
}

/// "F[0] I[0,0] ..."
inline std::string names(const TaskGraph& graph, const std::vector<std::uint32_t>& order) {
  std::string text;
  for (std::uint32_t id : order) {
    if (!text.empty()) text += ' ';
    text += name(graph, graph.tasks[id]);
  }
  return text;
}

/// Id of a task of a convolution.
inline std::uint32_t task_id(const TaskGraph& graph, Role role, std::uint32_t group,
                             std::uint32_t block, NodeId node = 0) {
  return graph.find(node, role)->id(group, block);
}

/// Index of the buffer with this name; the number of buffers if there is none.
inline BufferId buffer_id(const TaskGraph& graph, std::string_view name) {
  const auto found = std::find_if(graph.buffers.begin(), graph.buffers.end(),
                                  [&](const Buffer& buffer) { return buffer.name == name; });
  return static_cast<BufferId>(found - graph.buffers.begin());
}

/// Names of the tasks that signal the counter on which a task waits, as often as they do.
inline std::string waits_for(const TaskGraph& graph, const Task& task) {
  std::vector<std::uint32_t> producers;
  if (task.wait_counter == kNoCounter) return "";
  for (std::uint32_t id = 0; id < graph.tasks.size(); ++id) {
    graph.for_each_signal(graph.tasks[id], [&](std::uint32_t counter) {
      if (counter == task.wait_counter) producers.push_back(id);
    });
  }
  return names(graph, producers);
}

/// The same tasks in a window of so many slots; 0: whole.
inline TaskGraph with_slots(TaskGraph graph, std::uint32_t v_slots, std::uint32_t m_slots) {
  graph.buffers.at(buffer_id(graph, "V")).slots = v_slots;
  graph.buffers.at(buffer_id(graph, "M")).slots = m_slots;
  add_reuse(graph);
  count_signals(graph);
  return graph;
}

/// Counts with ratios that are whole and not, single groups, no filter tasks.
inline const std::vector<Counts> kOddCounts = {
    {.ng = 1, .nf = 1, .si = 1, .sg = 1, .so = 1},  {.ng = 4, .nf = 1, .si = 2, .sg = 2, .so = 2},
    {.ng = 5, .nf = 0, .si = 3, .sg = 2, .so = 1},  {.ng = 7, .nf = 3, .si = 1, .sg = 5, .so = 2},
    {.ng = 9, .nf = 2, .si = 4, .sg = 3, .so = 5},  {.ng = 2, .nf = 4, .si = 7, .sg = 1, .so = 3},
    {.ng = 13, .nf = 1, .si = 1, .sg = 4, .so = 1}, {.ng = 31, .nf = 0, .si = 2, .sg = 7, .so = 3},
};

inline const std::vector<std::string> kPolicies = {
    "interleaved", "blended", "staged", "depth_first", "critical_path", "random_topological"};

/// The message of the megaconv::Error that `call` throws; "" when it throws none. Messages are one
/// line: a line break makes the result say so.
template <typename Call>
std::string error_of(Call call, Status expected = Status::invalid_argument) {
  try {
    call();
  } catch (const Error& error) {
    if (error.status() != expected) return std::string("status ") + to_string(error.status());
    const std::string message = error.what();
    return message.find('\n') == std::string::npos ? message : "more than one line: " + message;
  }
  return {};
}

}  // namespace megaconv::test
