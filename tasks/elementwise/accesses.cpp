// SPDX-License-Identifier: Apache-2.0
// An elementwise task reads and writes the same rows of all its tensors. Tasks of the same rows
// whose channels are of older tensors say that they read all of these, since then they wait for one
// counter: whoever made the newest of them has waited for the others in most networks. What a task
// costs, too.
#include <utility>

#include "megaconv/error.hpp"
#include "megaconv/lowering.hpp"
#include "tasks/checks.hpp"
#include "tasks/elementwise/elementwise.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

AccessFunction elementwise_accesses(const ElementwiseCut& cut, const NodeBuffers& buffers) {
  return [cut, buffers](Role, std::uint32_t group, std::uint32_t, std::vector<Access>& accesses) {
    const ElementwiseTask task = task_of(cut, group);
    const std::uint64_t row = u64(task.image * task.h + task.row);
    const auto rows_of = [&](Region region) {
      region.rows = {row, row + u64(task.rows)};
      return region;
    };
    const std::uint64_t older = u64(older_channels(cut));
    const bool reads_older = u64(task.first_channel) < older;
    const std::size_t last = older_tensors(cut);
    const std::size_t begin = older == 0 || reads_older ? 0 : last;
    const std::size_t end = reads_older ? last : buffers.inputs.size();
    for (std::size_t i = begin; i < end; ++i) {
      accesses.push_back({buffers.inputs[i], Mode::read, rows_of(x_extent(cut.problem, i))});
    }
    Region y = rows_of(y_extent(cut.problem));
    if (cut.problem.residual) {
      Region residual = y;
      (reads_older ? residual.channels.end : residual.channels.begin) = older;
      accesses.push_back({buffers.residual, Mode::read, residual});
    }
    y.channels = {u64(task.first_channel), u64(task.end_channel)};
    accesses.push_back({buffers.y, Mode::write, y});
  };
}

// Operations, bytes and traffic of an average task.
void describe_cost(const ElementwiseCut& cut, const NodeBuffers& buffers, Stage& stage) {
  const ElementwiseProblem& a = cut.problem;
  using Piece = Traffic::Piece;
  const auto tasks = static_cast<double>(stage.num_tasks());
  const double bytes = static_cast<double>(size_of(a.dtype)) / tasks;
  const auto pixels = static_cast<double>(a.n * a.h * a.w);
  const bool all = cut.written_by_makers == 0;
  const double numbers = pixels * static_cast<double>(all ? a.c() : older_channels(cut));
  const double y_part = numbers * bytes;
  stage.operations = numbers * (1 + 2 * a.affine + a.residual) / tasks;
  for (std::size_t i = 0; i < (all ? buffers.inputs.size() : older_tensors(cut)); ++i) {
    const double part = pixels * static_cast<double>(a.channels[i]) * bytes;
    stage.traffic.push_back({buffers.inputs[i], Mode::read, Piece::evenly, part});
    stage.bytes += part;
  }
  if (a.residual) {
    stage.traffic.push_back({buffers.residual, Mode::read, Piece::evenly, y_part});
    stage.bytes += y_part;
  }
  stage.traffic.push_back({buffers.y, Mode::write, Piece::of_task, y_part});
  stage.bytes += y_part;
}

}  // namespace

Buffer y_buffer(const ElementwiseProblem& problem, const std::string& name) {
  return {.name = name + ".y",
          .extent = y_extent(problem),
          .bytes = u64(problem.y_size()) * size_of(problem.dtype)};
}

NodeBuffers add_elementwise(TaskGraph& graph, const std::string& name, const ElementwiseCut& cut,
                            const NodeBuffers& read) {
  ElementwiseCut counted = cut;
  derive_counts(counted);
  const ElementwiseProblem& problem = counted.problem;
  if (read.inputs.size() != problem.channels.size()) {
    throw Error(Status::invalid_argument, name + ": reads " + std::to_string(read.inputs.size()) +
                                              " tensors, must read " +
                                              std::to_string(problem.channels.size()));
  }
  for (std::size_t i = 0; i < read.inputs.size(); ++i) {
    check_buffer(graph, name, read.inputs[i], x_extent(problem, i));
  }
  if (problem.residual) check_buffer(graph, name, read.residual, y_extent(problem));
  NodeBuffers buffers = read;
  const bool makes_y = read.y == kNoBuffer;
  if (makes_y) buffers.y = static_cast<BufferId>(graph.buffers.size());
  Stage stage;
  stage.node = static_cast<NodeId>(graph.nodes.size());
  stage.role = Role::product;
  stage.kind = id_of(TaskKind::elementwise);
  stage.groups = counted.num_groups;
  stage.per_group = 1;
  if (stage.num_tasks() > 0) describe_cost(counted, buffers, stage);
  add_stage(graph, std::move(stage));  // the one that may throw comes first
  graph.nodes.push_back(name);
  if (makes_y) graph.buffers.push_back(y_buffer(problem, name));
  graph.accesses.push_back(elementwise_accesses(counted, buffers));
  return buffers;
}

}  // namespace megaconv
