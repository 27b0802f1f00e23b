// SPDX-License-Identifier: Apache-2.0
#include "tasks/cost.hpp"

#include <algorithm>
#include <utility>

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

TaskCost ConvCost::filters(double operations) const {
  const double tasks = tiling_.num_filter_tasks;
  const double w_part = d(problem_.w_size()) * element_ / tasks;
  const double u_share = d(tiling_.u_bytes()) / tasks;
  return {.transforms = operations,
          .bytes = w_part + u_share,
          .traffic = {{buffers_.w, Mode::read, Piece::of_task, w_part},
                      {buffers_.u, Mode::write, Piece::evenly, u_share}}};
}

TaskCost ConvCost::packing() const {
  return filters(d(tiling_.u_bytes()) / tiling_.num_filter_tasks / element_);
}

void ConvCost::add_borders(std::vector<Traffic>& traffic, Piece piece, double bytes,
                           std::int64_t neighbour) const {
  for (const std::int64_t side : {-neighbour, neighbour}) {
    traffic.push_back({buffers_.x, Mode::read, piece, bytes / 2, side});
  }
}

TaskCost ConvCost::direct(double halo, double share) const {
  const double x_part = d(problem_.x_size()) * element_ / tiling_.num_groups;
  const double border = x_part * std::min(2.0, halo);  // a neighbour's rows at most, on either side
  std::vector<Traffic> input = {{buffers_.x, Mode::read, Piece::of_group, x_part}};
  add_borders(input, Piece::of_group, border, 1);
  return product(std::move(input), share);
}

TaskCost ConvCost::product(std::vector<Traffic> input, double share) const {
  const double groups = tiling_.num_groups;
  const double y_part = d(problem_.y_size()) * element_ / groups / tiling_.gemm_tasks;
  TaskCost cost{.products = problem_.flops() * share / groups / tiling_.gemm_tasks,
                .traffic = std::move(input)};
  for (const Traffic& read : cost.traffic) cost.bytes += read.bytes;
  cost.bytes = cost.bytes + u_part() + y_part + (problem_.epilogue.residual ? y_part : 0);
  cost.traffic.push_back({buffers_.u, Mode::read, Piece::of_block, u_part()});
  cost.traffic.push_back({buffers_.y, Mode::write, Piece::of_task, y_part});
  return cost;
}

}  // namespace megaconv
