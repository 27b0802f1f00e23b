// SPDX-License-Identifier: Apache-2.0
#include "runtime/sim/demands.hpp"

#include <algorithm>

#include "runtime/units.hpp"
#include "tasks/tiling.hpp"

namespace megaconv::sim {
namespace {

using Piece = Traffic::Piece;

std::uint64_t written_size(const TaskGraph& graph, StageId stage, std::uint32_t group,
                           std::uint32_t block, std::vector<Access>& accesses) {
  accesses.clear();
  graph.list_accesses(stage, group, block, accesses);
  std::uint64_t size = 0;
  for (const Access& access : accesses) {
    if (access.mode == Mode::write) size += access.region.size();
  }
  return size;
}

}  // namespace

MachineModel machine_for(const TaskGraph& graph, const MachineModel& machine) {
  MachineModel made = machine;
  const bool known = std::any_of(graph.stages.begin(), graph.stages.end(),
                                 [](const Stage& stage) { return stage.time.known(); });
  if (!known || !machine.network) return made;
  made.launch_us = machine.network->launch_us;
  made.hop_us = machine.network->hop_us;
  return made;
}

Demands::Demands(const TaskGraph& graph)
    : graph_(graph),
      pieces_(graph.buffers.size()),
      written_(graph.buffers.size()),
      read_(graph.buffers.size()),
      is_filters_(graph.buffers.size()) {
  make_pieces();
  std::vector<Access> accesses;
  for (StageId stage = 0; stage < graph.stages.size(); ++stage) {
    full_size_.push_back(written_size(graph, stage, 0, 0, accesses));
  }
  for (BufferId buffer = 0; buffer < graph.buffers.size(); ++buffer) {
    const Buffer& of = graph.buffers[buffer];
    if ((of.given && !is_filters_[buffer]) || (written_[buffer] && !read_[buffer])) {
      compulsory_bytes_ += static_cast<double>(of.bytes);
    }
  }
}

void Demands::make_pieces() {
  for (const Stage& stage : graph_.stages) {
    for (const Traffic& traffic : stage.traffic) {
      const Buffer& buffer = graph_.buffers[traffic.buffer];
      (traffic.mode == Mode::write ? written_ : read_)[traffic.buffer] = true;
      if (traffic.piece == Piece::of_block) is_filters_[traffic.buffer] = true;
      const std::uint32_t groups = buffer.slots != 0 ? buffer.slots : stage.groups;
      const std::uint32_t count = traffic.piece == Piece::of_task    ? groups * stage.per_group
                                  : traffic.piece == Piece::of_group ? groups
                                  : traffic.piece == Piece::of_block ? stage.per_group
                                                                     : 0;
      pieces_[traffic.buffer].count = std::max(pieces_[traffic.buffer].count, count);
    }
  }
  for (BufferId buffer = 0; buffer < pieces_.size(); ++buffer) {
    Pieces& pieces = pieces_[buffer];
    const Buffer& of = graph_.buffers[buffer];
    if (pieces.count == 0 && (written_[buffer] || read_[buffer])) pieces.count = 1;
    pieces.first = static_cast<std::uint32_t>(piece_bytes_.size());
    // Of a windowed buffer each slot has the bytes of a group.
    std::uint32_t whole = pieces.count;
    if (of.slots != 0) {
      for (const Stage& stage : graph_.stages) {
        for (const Traffic& traffic : stage.traffic) {
          if (traffic.buffer == buffer) whole = std::max(whole, stage.groups);
        }
      }
    }
    const double bytes = pieces.count == 0 ? 0 : static_cast<double>(of.bytes) / whole;
    piece_bytes_.insert(piece_bytes_.end(), pieces.count, bytes);
  }
}

// What the task writes, as a share of what the first one of its stage does.
double Demands::share_of(std::uint32_t id, const Stage& stage) const {
  const Task& task = graph_.tasks[id];
  if (stage.role == Role::prepare || task.group + 1 < stage.groups) return 1;
  const auto index = static_cast<StageId>(&stage - graph_.stages.data());
  std::vector<Access> accesses;
  const std::uint64_t size = written_size(graph_, index, task.group, 0, accesses);
  return full_size_[index] == 0
             ? 1
             : std::min(1.0, static_cast<double>(size) / static_cast<double>(full_size_[index]));
}

// A GPU's GEMM task has one shape, whatever is in it.
double Demands::operations(std::uint32_t id) const {
  const Stage& stage = graph_.stages[graph_.stage_of(id)];
  return stage.role == Role::product ? stage.operations : stage.operations * share_of(id, stage);
}

Work Demands::work(std::uint32_t id, const MachineModel& machine) const {
  const TaskTime& time = graph_.stages[graph_.stage_of(id)].time;
  if (time.known() && machine.network) {
    return {.prepare_ns = time.prepare_us * kNsPerUs,
            .alone_ns = time.alone_us * kNsPerUs,
            .unit_ns = time.together_us / 2 * kNsPerUs};
  }
  const KindModel& kind = machine[kind_of(graph_.tasks[id])];
  const double operations = this->operations(id);  // one a ns is one Gop/s
  return {.prepare_ns = machine.ticket_us * kNsPerUs,
          .alone_ns = std::max(operations / kind.worker_gflops, l2_bytes(id) / machine.worker_gbps),
          .unit_ns = operations / kind.unit_gflops,
          .after_ns = kind.overhead_us * kNsPerUs};
}

double Demands::l2_bytes(std::uint32_t id) const {
  const Stage& stage = graph_.stages[graph_.stage_of(id)];
  return stage.bytes * share_of(id, stage);
}

ReuseType Demands::reuse_of(const Stage& stage, const Traffic& traffic) const {
  if (traffic.mode == Mode::write) return ReuseType::none;
  if (traffic.piece == Piece::of_block) return ReuseType::filters;
  if (!graph_.buffers[traffic.buffer].given) return ReuseType::products;
  const bool shares = stage.role == Role::product || traffic.neighbour != 0;
  return shares ? ReuseType::input_rows : ReuseType::none;
}

void Demands::list_touches(std::uint32_t id, std::vector<Touch>& touches) const {
  touches.clear();
  const Task& task = graph_.tasks[id];
  const Stage& stage = graph_.stages[graph_.stage_of(id)];
  const double share = share_of(id, stage);
  for (const Traffic& traffic : stage.traffic) {
    const Pieces& pieces = pieces_[traffic.buffer];
    const std::int64_t group = std::int64_t{task.group} + traffic.neighbour;
    if (group < 0 || group >= stage.groups) continue;
    if (traffic.piece == Piece::evenly) {
      touch_evenly(stage, traffic, task, touches);
      continue;
    }
    const auto index = static_cast<std::uint32_t>(group);
    const std::uint32_t piece = traffic.piece == Piece::of_task
                                    ? index * stage.per_group + task.block
                                : traffic.piece == Piece::of_group ? index
                                                                   : task.block;
    touches.push_back({pieces.first + piece % pieces.count, traffic.mode == Mode::write,
                       reuse_of(stage, traffic),
                       traffic.bytes * (traffic.piece == Piece::of_block ? 1 : share)});
  }
}

// Tasks have shares of all pieces, in order.
void Demands::touch_evenly(const Stage& stage, const Traffic& traffic, const Task& task,
                           std::vector<Touch>& touches) const {
  const Pieces& pieces = pieces_[traffic.buffer];
  const std::uint64_t tasks = stage.num_tasks(), count = pieces.count;
  const std::uint64_t index = std::uint64_t{task.group} * stage.per_group + task.block;
  const std::uint64_t begin = index * count / tasks;
  const std::uint64_t end = std::max(begin + 1, (index + 1) * count / tasks);
  for (std::uint64_t piece = begin; piece < end; ++piece) {
    touches.push_back({pieces.first + static_cast<std::uint32_t>(piece),
                       traffic.mode == Mode::write, reuse_of(stage, traffic),
                       traffic.bytes / static_cast<double>(end - begin)});
  }
}

}  // namespace megaconv::sim
