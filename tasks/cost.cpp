// SPDX-License-Identifier: Apache-2.0
#include "tasks/cost.hpp"

#include <algorithm>

#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

using Piece = Traffic::Piece;

double d(std::uint64_t value) { return static_cast<double>(value); }
double d(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

ConvCost::ConvCost(const Tiling& tiling, const NodeBuffers& buffers)
    : tiling_(tiling),
      problem_(tiling.problem),
      buffers_(buffers),
      element_(d(std::uint64_t{size_of(tiling.problem.dtype)})) {}

double ConvCost::u_part() const { return d(tiling_.u_bytes()) / tiling_.gemm_tasks; }

void ConvCost::describe_filters(Stage& stage, double operations) const {
  const double tasks = tiling_.num_filter_tasks;
  const double w_part = d(problem_.w_size()) * element_ / tasks;
  const double u_share = d(tiling_.u_bytes()) / tasks;
  stage.operations = operations;
  stage.bytes = w_part + u_share;
  stage.traffic = {{buffers_.w, Mode::read, Piece::of_task, w_part},
                   {buffers_.u, Mode::write, Piece::evenly, u_share}};
}

void ConvCost::describe_packing(Stage& stage) const {
  describe_filters(stage, d(tiling_.u_bytes()) / tiling_.num_filter_tasks / element_);
}

void ConvCost::add_borders(Stage& stage, Piece piece, double bytes, std::int64_t neighbour) const {
  for (const std::int64_t side : {-neighbour, neighbour}) {
    stage.traffic.push_back({buffers_.x, Mode::read, piece, bytes / 2, side});
  }
}

void ConvCost::describe_direct(Stage& stage, double halo, double products) const {
  const double x_part = d(problem_.x_size()) * element_ / tiling_.num_groups;
  const double border = x_part * std::min(2.0, halo);  // a neighbour's rows at most, on either side
  stage.traffic = {{buffers_.x, Mode::read, Piece::of_group, x_part}};
  add_borders(stage, Piece::of_group, border, 1);
  describe_product(stage, x_part + border, products);
}

void ConvCost::describe_product(Stage& stage, double input, double products) const {
  const double groups = tiling_.num_groups;
  const double y_part = d(problem_.y_size()) * element_ / groups / tiling_.gemm_tasks;
  stage.operations = problem_.flops() * products / groups / tiling_.gemm_tasks;
  stage.bytes = input + u_part() + y_part + (problem_.epilogue.residual ? y_part : 0);
  stage.traffic.push_back({buffers_.u, Mode::read, Piece::of_block, u_part()});
  stage.traffic.push_back({buffers_.y, Mode::write, Piece::of_task, y_part});
}

}  // namespace megaconv
