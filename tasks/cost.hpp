// SPDX-License-Identifier: Apache-2.0
// What the tasks of a convolution cost: operations and bytes. Here is what several algorithms have
// in common.
#pragma once

#include "megaconv/graph.hpp"
#include "tasks/conv_graph.hpp"

namespace megaconv {

class ConvCost {
 public:
  ConvCost(const Tiling& tiling, const NodeBuffers& buffers);

  /// Filter tasks, of so many operations each.
  void describe_filters(Stage& stage, double operations) const;
  /// Filter tasks that pack.
  void describe_packing(Stage& stage) const;
  /// Tasks that read x and U and write y. `halo`: rows that a group reads beside its own, as a
  /// share of these; `products`: how many it multiplies, as a share of the direct sum's.
  void describe_direct(Stage& stage, double halo, double products) const;
  /// The same of tasks that read `input` bytes of something else than x, which are in the traffic.
  void describe_product(Stage& stage, double input, double products) const;
  /// Adds reads of x that neighbouring groups share: half of them with either neighbour.
  void add_borders(Stage& stage, Traffic::Piece piece, double bytes, std::int64_t neighbour) const;

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
