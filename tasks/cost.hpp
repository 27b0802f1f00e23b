// SPDX-License-Identifier: Apache-2.0
// What the tasks of a convolution cost. An algorithm states it once for each stage. From that come
// what a stage says to policies and to the simulator (Stage), and estimates of a run's time
// (cost_model.cpp).
#pragma once

#include <vector>

#include "megaconv/graph.hpp"
#include "tasks/conv_graph.hpp"

namespace megaconv {

/// What a task of a stage does, on average over the stage.
struct TaskCost {
  double transforms = 0;  ///< operations of transforms, as products with dense matrices; packing
  double products = 0;    ///< operations of sums over channels
  double bytes = 0;       ///< moved between worker and shared cache
  std::vector<Traffic> traffic{};  ///< reads first

  // How well that goes, for estimates.
  double fill = 1;           ///< products as a share of those of a full task, with padding
  double rows = 0;           ///< tiles or pixels that fill register tiles; 0: these are full
  double filter_blocks = 2;  ///< of a task; a register tile has two
  double kept_bytes = 0;     ///< that the worker's cache should hold while the task runs
  double private_bytes = 0;  ///< that the task writes and reads again, beside `bytes`
  double ahead_bytes = 0;    ///< of `bytes`: fetched while it multiplies

  double operations() const { return transforms + products; }
};

/// Costs that several algorithms have in common.
class ConvCost {
 public:
  ConvCost(const Tiling& tiling, const NodeBuffers& buffers);

  /// Filter tasks, of so many operations each.
  TaskCost filters(double operations) const;
  /// Filter tasks that pack.
  TaskCost packing() const;
  /// Tasks that read x and U and write y. `halo`: rows that a group reads beside its own, as a
  /// share of these; `share`: how many it multiplies, of the direct sum's.
  TaskCost direct(double halo, double share) const;
  /// The same of tasks that read something else than x.
  TaskCost product(std::vector<Traffic> input, double share) const;
  /// Adds reads of x that neighbouring groups share: half of them with either neighbour.
  void add_borders(std::vector<Traffic>& traffic, Traffic::Piece piece, double bytes,
                   std::int64_t neighbour) const;

  /// Bytes of U that a product task reads.
  double u_part() const;
  /// Bytes of an element of the tensors.
  double element() const { return element_; }

 private:
  const Tiling& tiling_;
  const ConvProblem& problem_;
  const NodeBuffers& buffers_;
  const double element_;
};

}  // namespace megaconv
