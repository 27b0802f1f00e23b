// SPDX-License-Identifier: Apache-2.0
#include "tasks/cost.hpp"

#include <algorithm>

#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

using Piece = Traffic::Piece;

double d(std::uint64_t value) { return static_cast<double>(value); }
double d(std::int64_t value) { return static_cast<double>(value); }

// One stage after the other of one convolution.
class ConvCost {
 public:
  ConvCost(const Tiling& tiling, const NodeBuffers& buffers)
      : tiling_(tiling),
        problem_(tiling.problem),
        buffers_(buffers),
        element_(d(std::uint64_t{size_of(tiling.problem.dtype)})),
        alpha_(tiling.alpha()),
        m_(tiling.m) {}

  void describe(Stage& stage) const {
    switch (static_cast<TaskKind>(stage.kind)) {
      case TaskKind::filter_transform:
        return describe_filters(stage);
      case TaskKind::input_transform:
        return has_input_tasks(tiling_) ? describe_copy(stage) : describe_input(stage);
      case TaskKind::gemm:
        return describe_gemm(stage);
      case TaskKind::output_transform:
        return describe_output(stage);
      case TaskKind::direct:
        return describe_direct(stage);
      case TaskKind::pooling:
        return;  // of another room
    }
  }

 private:
  double u_part() const { return d(tiling_.u_bytes()) / tiling_.gemm_tasks; }

  void describe_filters(Stage& stage) const {
    const double tasks = tiling_.num_filter_tasks, r = d(problem_.r);
    const double w_part = d(problem_.w_size()) * element_ / tasks;
    const double u_share = d(tiling_.u_bytes()) / tasks;
    stage.operations =
        tiling_.algorithm == Algorithm::winograd
            ? d(problem_.k) * d(problem_.c) / tasks * 2 * (alpha_ * r * r + alpha_ * alpha_ * r)
            : u_share / element_;
    stage.bytes = w_part + u_share;
    stage.traffic = {{buffers_.w, Mode::read, Piece::of_task, w_part},
                     {buffers_.u, Mode::write, Piece::evenly, u_share}};
  }

  // Rows of x that neighbouring groups share: half of them with either neighbour.
  void add_borders(Stage& stage, Piece piece, double bytes, std::int64_t neighbour) const {
    for (const std::int64_t side : {-neighbour, neighbour}) {
      stage.traffic.push_back({buffers_.x, Mode::read, piece, bytes / 2, side});
    }
  }

  void describe_input(Stage& stage) const {
    const double tiles = tiling_.group_tiles, channels = d(problem_.c) / tiling_.input_tasks;
    const double v_part = d(tiling_.v_slot_bytes()) / tiling_.input_tasks;
    const double rows = std::min(1.0, tiles / tiling_.tiles_w) * d(problem_.w);
    stage.operations = tiles * channels * 4 * alpha_ * alpha_ * alpha_;
    stage.bytes = tiles * alpha_ * alpha_ * channels * element_ + v_part;
    stage.traffic = {
        {buffers_.x, Mode::read, Piece::of_task, tiles * m_ * m_ * channels * element_}};
    add_borders(stage, Piece::of_task, (alpha_ - m_) * rows * channels * element_,
                std::max(1u, tiling_.tiles_w / tiling_.group_tiles));
    stage.traffic.push_back({buffers_.v, Mode::write, Piece::of_group, v_part});
  }

  void describe_gemm(Stage& stage) const {
    const double chunk =
        d(std::uint64_t{tiling_.positions_per_gemm_task}) / tiling_.num_positions();
    const double v_read = d(tiling_.v_slot_bytes()) * std::min(1.0, chunk);
    const double m_written = d(tiling_.m_slot_bytes()) / tiling_.gemm_tasks;
    // Machines with tensor cores are calibrated for three products; one is expected to take half
    // as long (tasks/implicit_gemm/implicit_gemm.cpp).
    const double effort = tiling_.arithmetic == Arithmetic::f16 ? 0.5 : 1;
    stage.operations = effort * 2 * tiling_.group_tiles * d(problem_.c) * tiling_.filter_blocks() *
                       Tiling::kLaneBlock * tiling_.num_positions() / tiling_.gemm_tasks;
    stage.bytes = v_read + u_part() + m_written;
    stage.traffic = {{buffers_.v, Mode::read, Piece::of_group, v_read},
                     {buffers_.u, Mode::read, Piece::of_block, u_part()},
                     {buffers_.m, Mode::write, Piece::of_group, m_written}};
  }

  void describe_output(Stage& stage) const {
    const double tiles = tiling_.group_tiles, filters = d(problem_.k) / tiling_.output_tasks;
    const double m_read = d(tiling_.m_slot_bytes()) / tiling_.output_tasks;
    const double y_part = tiles * m_ * m_ * filters * element_;
    stage.operations = tiles * filters * 2 * (alpha_ * alpha_ * m_ + alpha_ * m_ * m_);
    stage.bytes = m_read + y_part + (problem_.epilogue.residual ? y_part : 0);
    stage.traffic = {{buffers_.m, Mode::read, Piece::of_group, m_read},
                     {buffers_.y, Mode::write, Piece::of_task, y_part}};
  }

  // Of implicit GEMM: x as operands.
  void describe_copy(Stage& stage) const {
    const double groups = tiling_.num_groups, tasks = groups * tiling_.input_tasks;
    const double x_part = d(problem_.x_size()) * element_ / tasks;
    const double v_part = d(input_copy_bytes(tiling_)) / tasks;
    stage.operations = x_part / element_;
    stage.bytes = x_part + v_part;
    stage.traffic = {{buffers_.x, Mode::read, Piece::of_task, x_part},
                     {buffers_.v, Mode::write, Piece::of_group, v_part}};
  }

  void describe_direct(Stage& stage) const {
    const bool fused = tiling_.m != 0;  // Winograd in one task
    const double groups = tiling_.num_groups;
    const double y_part = d(problem_.y_size()) * element_ / groups / tiling_.gemm_tasks;
    double input = 0;
    if (has_input_tasks(tiling_)) {
      input = d(input_copy_bytes(tiling_)) / groups;
      stage.traffic = {{buffers_.v, Mode::read, Piece::of_group, input}};
    } else {
      const double x_part = d(problem_.x_size()) * element_ / groups;
      const double rows = fused ? tiling_.m : tiling_.rows_per_group;
      const double halo = std::max(0.0, d(problem_.filter_extent_h()) - d(problem_.stride_h)) /
                          (rows * d(problem_.stride_h));
      const double border = x_part * std::min(2.0, halo);
      input = x_part + border;
      stage.traffic = {{buffers_.x, Mode::read, Piece::of_group, x_part}};
      add_borders(stage, Piece::of_group, border, 1);
    }
    // F(2x2, 3x3) multiplies 16 times where the direct sum multiplies 36 times.
    const double share =
        fused ? tiling_.num_positions() / (d(problem_.r * problem_.s) * m_ * m_) : 1;
    stage.operations = problem_.flops() * share / groups / tiling_.gemm_tasks;
    stage.bytes = input + u_part() + y_part + (problem_.epilogue.residual ? y_part : 0);
    stage.traffic.push_back({buffers_.u, Mode::read, Piece::of_block, u_part()});
    stage.traffic.push_back({buffers_.y, Mode::write, Piece::of_task, y_part});
  }

  const Tiling& tiling_;
  const ConvProblem& problem_;
  const NodeBuffers& buffers_;
  const double element_, alpha_, m_;
};

}  // namespace

void describe_cost(const Tiling& tiling, const NodeBuffers& buffers, Stage& stage) {
  ConvCost(tiling, buffers).describe(stage);
}

}  // namespace megaconv
