// SPDX-License-Identifier: Apache-2.0
// A group of pooling tasks has a rectangle of output pixels of one image, a task some of its
// channels. What a task costs, too.
#include <algorithm>
#include <utility>

#include "megaconv/error.hpp"
#include "tasks/pooling/pooling.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

using Piece = Traffic::Piece;

constexpr std::size_t kMostNodes = std::size_t{1} << 16;  // NodeId

AccessFunction pooling_accesses(const PoolCut& cut, BufferId x, BufferId y) {
  return
      [cut, x, y](Role, std::uint32_t group, std::uint32_t block, std::vector<Access>& accesses) {
        const PoolTask task = task_of(cut, group, block);
        const auto interval = [](std::int64_t first, std::int64_t count) {
          return Interval{u64(first), u64(first + count)};
        };
        const Region written{.rows = interval(task.image * task.p + task.row, task.rows),
                             .cols = interval(task.col, task.cols),
                             .channels = interval(task.first_channel, task.num_channels)};
        // Every task of a group reads the same, so all channels.
        const Region read{.rows = rows_of(cut.problem).inputs_of_images(written.rows),
                          .cols = cols_of(cut.problem).inputs_of(written.cols),
                          .channels = {0, u64(cut.problem.c)}};
        accesses.push_back({x, Mode::read, read});
        accesses.push_back({y, Mode::write, written});
      };
}

// Throws unless x can be read as the problem's input.
void check_input(const TaskGraph& graph, const std::string& name, const PoolProblem& problem,
                 BufferId x) {
  if (x >= graph.buffers.size()) {
    throw Error(Status::invalid_argument, name + ": x is buffer " + std::to_string(x) +
                                              ", must be one of the graph's " +
                                              std::to_string(graph.buffers.size()));
  }
  const Buffer& buffer = graph.buffers[x];
  const Region& given = buffer.extent;
  const Region wanted = x_extent(problem);
  const auto check = [&](const char* axis, const Interval& is, const Interval& must) {
    if (is == must) return;
    throw Error(Status::invalid_argument,
                name + ": x is " + buffer.name + " with " + std::to_string(is.size()) + " " + axis +
                    ", must have " + std::to_string(must.size()) + " for " + to_string(problem));
  };
  check("rows", given.rows, wanted.rows);
  check("columns", given.cols, wanted.cols);
  check("channels", given.channels, wanted.channels);
  check("positions", given.positions, wanted.positions);
  const std::uint64_t bytes = u64(problem.x_size()) * size_of(problem.dtype);
  if (buffer.bytes < bytes) {
    throw Error(Status::invalid_argument, name + ": x is " + buffer.name + " of " +
                                              std::to_string(buffer.bytes) +
                                              " bytes, must have at least " +
                                              std::to_string(bytes) + " for " + to_string(problem));
  }
}

// Operations, bytes and traffic of an average task. An operation is a comparison or an addition.
void describe_cost(const PoolCut& cut, bool x_is_given, BufferId x, BufferId y, Stage& stage) {
  const PoolProblem& a = cut.problem;
  const auto element = static_cast<double>(size_of(a.dtype));
  const auto tasks = static_cast<double>(stage.num_tasks());
  const double x_part = static_cast<double>(a.x_size()) * element / tasks;
  const double y_part = static_cast<double>(a.y_size()) * element / tasks;
  stage.operations =
      static_cast<double>(a.y_size()) * static_cast<double>(a.r) * static_cast<double>(a.s) / tasks;

  // Rows, and columns, that a group reads for each that is its own; less than 1 where windows leave
  // gaps.
  const auto reach = [](const WindowAxis& axis, std::uint32_t outputs) {
    const std::int64_t inputs = (std::int64_t{outputs} - 1) * axis.stride + axis.extent;
    const double chunks = static_cast<double>(ceil_div(axis.outputs, std::int64_t{outputs}));
    return static_cast<double>(std::min(inputs, axis.inputs)) * chunks /
           static_cast<double>(axis.inputs);
  };
  const double read =
      x_part * reach(rows_of(a), cut.rows_per_group) * reach(cols_of(a), cut.cols_per_group);
  stage.bytes = read + y_part;
  const double own = std::min(read, x_part), halo = read - own;
  if (x_is_given) {
    stage.traffic = {{x, Mode::read, Piece::of_task, own}};
    const std::int64_t col_chunks = ceil_div(a.q(), std::int64_t{cut.cols_per_group});
    const std::int64_t neighbour = a.p() > cut.rows_per_group ? col_chunks : 1;
    for (const std::int64_t side : {-neighbour, neighbour}) {
      if (halo > 0) stage.traffic.push_back({x, Mode::read, Piece::of_task, halo / 2, side});
    }
  } else {
    stage.traffic = {{x, Mode::read, Piece::evenly, read}};
  }
  stage.traffic.push_back({y, Mode::write, Piece::of_task, y_part});
}

}  // namespace

Buffer y_buffer(const PoolProblem& problem, const std::string& name) {
  return {.name = name + ".y",
          .extent = y_extent(problem),
          .bytes = u64(problem.y_size()) * size_of(problem.dtype)};
}

BufferId add_pooling(TaskGraph& graph, const std::string& name, const PoolCut& cut, BufferId x,
                     BufferId y) {
  PoolCut counted = cut;
  derive_counts(counted);
  const PoolProblem& problem = counted.problem;
  check_input(graph, name, problem, x);
  if (graph.nodes.size() >= kMostNodes) {
    throw Error(Status::unsupported, name + ": the graph has " +
                                         std::to_string(graph.nodes.size()) +
                                         " nodes, must be less than 2^16");
  }
  const bool makes_y = y == kNoBuffer;
  if (makes_y) y = static_cast<BufferId>(graph.buffers.size());
  Stage stage;
  stage.node = static_cast<NodeId>(graph.nodes.size());
  stage.role = Role::product;
  stage.kind = kPoolingKind;
  stage.groups = counted.num_groups;
  stage.per_group = counted.tasks_per_group;
  if (stage.num_tasks() > 0) describe_cost(counted, graph.buffers[x].given, x, y, stage);
  add_stage(graph, std::move(stage));  // the one that may throw comes first
  graph.nodes.push_back(name);
  if (makes_y) graph.buffers.push_back(y_buffer(problem, name));
  graph.accesses.push_back(pooling_accesses(counted, x, y));
  return y;
}

}  // namespace megaconv
