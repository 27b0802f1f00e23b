// SPDX-License-Identifier: Apache-2.0
#include "runtime/sim/demands.hpp"

#include <algorithm>

#include "mapping/tiling.hpp"

namespace megaconv::sim {
namespace {

double d(std::uint64_t value) { return static_cast<double>(value); }
double d(std::int64_t value) { return static_cast<double>(value); }
std::size_t index(TaskKind kind) { return static_cast<std::size_t>(kind); }

}  // namespace

Demands::Demands(const TaskGraph& graph) : tiling_(graph.tiling) {
  const ConvProblem& problem = tiling_.problem;
  const double element = d(std::uint64_t{size_of(problem.dtype)});
  const double y_bytes = d(problem.y_size()) * element;
  const double w_bytes = d(problem.w_size()) * element;
  compulsory_bytes_ = d(problem.x_size()) * element + y_bytes +
                      (problem.epilogue.residual ? y_bytes : 0) +
                      (tiling_.num_filter_tasks > 0 ? w_bytes : 0);
  u_part_ = d(tiling_.u_bytes()) / tiling_.gemm_tasks;
  u_ = add_regions(tiling_.gemm_tasks, u_part_);
  w_part_ = tiling_.num_filter_tasks > 0 ? w_bytes / tiling_.num_filter_tasks : 0;
  w_ = add_regions(tiling_.num_filter_tasks, w_part_);
  tiling_.algorithm == Algorithm::winograd ? set_up_winograd() : set_up_direct();
  if (tiling_.num_filter_tasks > 0) {
    l2_bytes_[index(TaskKind::filter_transform)] =
        w_part_ + d(tiling_.u_bytes()) / tiling_.num_filter_tasks;
  }
}

Demands::Range Demands::add_regions(std::uint32_t count, double bytes) {
  const Range range{static_cast<std::uint32_t>(region_bytes_.size()), count};
  region_bytes_.insert(region_bytes_.end(), count, bytes);
  return range;
}

void Demands::set_up_winograd() {
  const ConvProblem& p = tiling_.problem;
  const double element = d(std::uint64_t{size_of(p.dtype)});
  const double alpha = tiling_.alpha(), m = tiling_.m, r = d(p.r), tiles = tiling_.group_tiles;
  const double channels = d(p.c) / tiling_.input_tasks;
  const double filters = d(p.k) / tiling_.output_tasks;
  const double chunk = d(std::uint64_t{tiling_.positions_per_gemm_task}) / tiling_.num_positions();
  const double v_bytes = d(tiling_.v_slot_bytes()), m_bytes = d(tiling_.m_slot_bytes());

  v_read_ = v_bytes * std::min(1.0, chunk);
  v_part_ = v_bytes / tiling_.input_tasks;
  m_written_ = m_bytes / tiling_.gemm_tasks;
  m_read_ = m_bytes / tiling_.output_tasks;
  x_part_ = tiles * m * m * channels * element;
  const double rows = std::min(1.0, tiles / tiling_.tiles_w) * d(p.w);
  x_border_ = (alpha - m) * rows * channels * element;
  y_part_ = tiles * m * m * filters * element;
  neighbour_ = std::max(1u, tiling_.tiles_w / tiling_.group_tiles);

  v_ = add_regions(tiling_.v_slots, v_bytes);
  m_ = add_regions(tiling_.m_slots, m_bytes);
  x_ = add_regions(tiling_.num_groups * tiling_.input_tasks, x_part_);
  y_ = add_regions(tiling_.num_groups * tiling_.output_tasks, y_part_);

  operations_[index(TaskKind::input_transform)] = tiles * channels * 4 * alpha * alpha * alpha;
  operations_[index(TaskKind::output_transform)] =
      tiles * filters * 2 * (alpha * alpha * m + alpha * m * m);
  // Machines with tensor cores are calibrated for three products; one is expected to take half as
  // long (mapping/implicit_gemm.cpp).
  const double effort = tiling_.arithmetic == Arithmetic::f16 ? 0.5 : 1;
  operations_[index(TaskKind::gemm)] = effort * 2 * tiles * d(p.c) * tiling_.filter_blocks() *
                                       Tiling::kLaneBlock * tiling_.num_positions() /
                                       tiling_.gemm_tasks;
  if (tiling_.num_filter_tasks > 0) {
    operations_[index(TaskKind::filter_transform)] =
        d(p.k) * d(p.c) / tiling_.num_filter_tasks * 2 * (alpha * r * r + alpha * alpha * r);
  }
  const double residual = p.epilogue.residual ? y_part_ : 0;
  l2_bytes_[index(TaskKind::input_transform)] =
      tiles * alpha * alpha * channels * element + v_part_;
  l2_bytes_[index(TaskKind::gemm)] = v_read_ + u_part_ + m_written_;
  l2_bytes_[index(TaskKind::output_transform)] = m_read_ + y_part_ + residual;
}

void Demands::set_up_direct() {
  const ConvProblem& p = tiling_.problem;
  const double element = d(std::uint64_t{size_of(p.dtype)});
  const bool fused = tiling_.m != 0;  // Winograd in one task
  const double groups = tiling_.num_groups;
  const std::uint32_t copies = tiling_.input_tasks;  // of a group's input
  x_part_ = d(p.x_size()) * element / groups / std::max(1u, copies);
  const double rows = fused ? tiling_.m : tiling_.rows_per_group;
  const double halo =
      std::max(0.0, d(p.filter_extent_h()) - d(p.stride_h)) / (rows * d(p.stride_h));
  x_border_ = copies > 0 ? 0 : x_part_ * std::min(2.0, halo);
  y_part_ = d(p.y_size()) * element / groups / tiling_.gemm_tasks;
  x_ = add_regions(tiling_.num_groups * std::max(1u, copies), x_part_);
  y_ = add_regions(tiling_.num_groups * tiling_.gemm_tasks, y_part_);
  double input_bytes = x_part_ + x_border_;  // that a direct task reads
  if (copies > 0) {
    v_read_ = input_bytes = d(input_copy_bytes(tiling_)) / groups;
    v_part_ = v_read_ / copies;
    v_ = add_regions(tiling_.num_groups, v_read_);
    operations_[index(TaskKind::input_transform)] = x_part_ / element;
    l2_bytes_[index(TaskKind::input_transform)] = x_part_ + v_part_;
  }
  // F(2x2, 3x3) multiplies 16 times where the direct sum multiplies 36 times.
  const double share = fused ? tiling_.num_positions() / (d(p.r * p.s) * tiling_.m * tiling_.m) : 1;
  operations_[index(TaskKind::direct)] = p.flops() * share / groups / tiling_.gemm_tasks;
  if (tiling_.num_filter_tasks > 0) {
    operations_[index(TaskKind::filter_transform)] =
        d(tiling_.u_bytes()) / element / tiling_.num_filter_tasks;
  }
  l2_bytes_[index(TaskKind::direct)] =
      input_bytes + u_part_ + y_part_ + (p.epilogue.residual ? y_part_ : 0);
}

// Tiles of a group as a share of a whole one. A GPU's task has one shape, whatever is in it; but
// its bytes are those of the tiles that exist.
double Demands::group_share(std::uint32_t group) const {
  if (tiling_.algorithm != Algorithm::winograd || group + 1 < tiling_.num_groups) return 1;
  const std::uint64_t before = std::uint64_t{group} * tiling_.group_tiles;
  return d(tiling_.num_tiles() - before) / tiling_.group_tiles;
}

double Demands::operations(const Task& task) const {
  const double whole = operations_[index(task.kind)];
  return task.kind == TaskKind::gemm ? whole : whole * group_share(task.group);
}

double Demands::l2_bytes(const Task& task) const {
  const double whole = l2_bytes_[index(task.kind)];
  if (task.kind == TaskKind::filter_transform) return whole;
  return whole * group_share(task.group);
}

void Demands::list_touches(const Task& task, std::vector<Touch>& touches) const {
  touches.clear();
  const auto touch = [&](std::uint32_t region, bool write, double bytes,
                         ReuseType reuse = ReuseType::none) {
    touches.push_back({region, write, reuse, bytes});
  };
  const double share = group_share(task.group);
  switch (task.kind) {
    case TaskKind::filter_transform:
      return touch_filters(task, touches);
    case TaskKind::input_transform:
      touch_input(task, touches);
      return touch(v_[task.group % v_.count], true, v_part_ * share);
    case TaskKind::gemm:
      touch(v_[task.group % v_.count], false, v_read_ * share, ReuseType::products);
      touch(u_[task.block], false, u_part_, ReuseType::filters);
      return touch(m_[task.group % tiling_.m_slots], true, m_written_ * share);
    case TaskKind::output_transform:
      touch(m_[task.group % tiling_.m_slots], false, m_read_ * share, ReuseType::products);
      return touch(y_[task.group * tiling_.output_tasks + task.block], true, y_part_ * share);
    case TaskKind::direct:
      if (v_.count > 0) {
        touch(v_[task.group], false, v_read_, ReuseType::input_rows);
      } else {
        touch_input(task, touches);
      }
      touch(u_[task.block], false, u_part_, ReuseType::filters);
      return touch(y_[task.group * tiling_.gemm_tasks + task.block], true, y_part_);
  }
}

// U's regions are those of GEMM blocks; filter tasks have shares of all of it, in order.
void Demands::touch_filters(const Task& task, std::vector<Touch>& touches) const {
  const std::uint64_t tasks = tiling_.num_filter_tasks;
  touches.push_back({w_[task.block], false, ReuseType::none, w_part_});
  const std::uint64_t begin = task.block * std::uint64_t{u_.count} / tasks;
  const std::uint64_t end = std::max(begin + 1, (task.block + std::uint64_t{1}) * u_.count / tasks);
  const double bytes = d(tiling_.u_bytes()) / d(tasks) / d(end - begin);
  for (std::uint64_t j = begin; j < end; ++j) {
    touches.push_back({u_[static_cast<std::uint32_t>(j)], true, ReuseType::none, bytes});
  }
}

void Demands::touch_input(const Task& task, std::vector<Touch>& touches) const {
  const bool direct = task.kind == TaskKind::direct;
  const std::uint32_t blocks = direct ? 1 : tiling_.input_tasks;
  const std::uint32_t block = direct ? 0 : task.block;
  const double share = group_share(task.group);
  touches.push_back({x_[task.group * blocks + block], false,
                     direct ? ReuseType::input_rows : ReuseType::none, x_part_ * share});
  const auto border = [&](std::uint32_t group) {
    touches.push_back(
        {x_[group * blocks + block], false, ReuseType::input_rows, x_border_ / 2 * share});
  };
  if (task.group >= neighbour_) border(task.group - neighbour_);
  if (tiling_.num_groups - task.group > neighbour_) border(task.group + neighbour_);
}

}  // namespace megaconv::sim
