// SPDX-License-Identifier: Apache-2.0
// Graphs without a convolution: operators whose tasks have tiles of rows.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "megaconv/graph.hpp"

namespace megaconv::test {

/// Appends a stage of role product and kind 0.
inline void add_products(TaskGraph& graph, NodeId node, std::uint64_t groups,
                         std::uint32_t per_group) {
  Stage stage;
  stage.node = node;
  stage.groups = static_cast<std::uint32_t>(groups);
  stage.per_group = per_group;
  add_stage(graph, stage);
}

/// An operator that writes `rows` rows, so many a group, and reads rows of other operators, or of
/// the given "x", with a halo on both sides. The tasks of a group share its two channels, or those
/// that there are blocks.
struct RowNode {
  struct Read {
    std::string from;
    std::uint64_t halo = 0;
  };
  std::string name;
  std::uint64_t rows = 1, rows_per_group = 1;
  std::vector<Read> reads{};
  std::uint32_t blocks = 2;

  std::uint64_t groups() const { return (rows + rows_per_group - 1) / rows_per_group; }
  Interval rows_of(std::uint64_t group) const {
    return {group * rows_per_group, std::min(rows, (group + 1) * rows_per_group)};
  }
  Interval rows_read(std::uint64_t group, const Read& read) const {
    const Interval own = rows_of(group);
    return {own.begin - std::min(own.begin, read.halo), std::min(rows, own.end + read.halo)};
  }
};

/// The operators' graph, linked and with its counters: buffer 0 is x, buffer i + 1 what operator i
/// writes. With another axis all that is said of rows is of columns.
inline TaskGraph make_rows(const std::vector<RowNode>& nodes,
                           Interval Region::*axis = &Region::rows) {
  TaskGraph graph;
  graph.kinds = {{"direct", 'D'}};
  const auto box = [axis](const Interval& rows, const Interval& channels) {
    Region region{.channels = channels};
    region.*axis = rows;
    return region;
  };
  const auto add_buffer = [&](const std::string& name, std::uint64_t rows, std::uint32_t blocks) {
    graph.buffers.push_back({.name = name,
                             .extent = box({0, rows}, {0, blocks}),
                             .bytes = rows * blocks,
                             .given = name == "x"});
  };
  add_buffer("x", nodes.front().rows, 2);
  for (const RowNode& node : nodes) add_buffer(node.name, node.rows, node.blocks);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const RowNode& node = nodes[i];
    std::vector<std::pair<BufferId, RowNode::Read>> reads;
    for (const RowNode::Read& read : node.reads) {
      const auto found =
          std::find_if(graph.buffers.begin(), graph.buffers.end(),
                       [&](const Buffer& buffer) { return buffer.name == read.from; });
      reads.push_back({static_cast<BufferId>(found - graph.buffers.begin()), read});
    }
    std::vector<std::uint32_t> channels;
    for (const Buffer& buffer : graph.buffers) {
      channels.push_back(static_cast<std::uint32_t>(buffer.extent.channels.end));
    }
    graph.nodes.push_back(node.name);
    graph.accesses.push_back(
        [=](Role, std::uint32_t group, std::uint32_t block, std::vector<Access>& accesses) {
          for (const auto& [buffer, read] : reads) {
            accesses.push_back(
                {buffer, Mode::read, box(node.rows_read(group, read), {0, channels[buffer]})});
          }
          accesses.push_back({static_cast<BufferId>(i + 1), Mode::write,
                              box(node.rows_of(group), {block, block + 1u})});
        });
    add_products(graph, static_cast<NodeId>(i), node.groups(), node.blocks);
  }
  link(graph);
  count_signals(graph);
  return graph;
}

}  // namespace megaconv::test
