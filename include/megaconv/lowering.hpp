// SPDX-License-Identifier: Apache-2.0
// The whole way from a problem to tasks in a proven order, and the file that holds one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "megaconv/mapping.hpp"
#include "megaconv/network.hpp"
#include "megaconv/operators.hpp"

namespace megaconv {

/// Buffers of one node; those that it does not have are kNoBuffer. Rows of x, residual and y are
/// those of all images, one image below the other. The others count in lane blocks:
///
///   w, U   channels: blocks of C    positions: blocks of K
///   V      rows: tiles (of a copy of x: pixels)   channels: blocks of C   positions: alpha^2
///   M      rows: tiles                            channels: blocks of K   positions: alpha^2
struct NodeBuffers {
  /// residual: also what a pixelwise operation multiplies by
  BufferId x = kNoBuffer, w = kNoBuffer, residual = kNoBuffer, y = kNoBuffer;
  BufferId u = kNoBuffer, v = kNoBuffer, m = kNoBuffer;
  std::vector<BufferId> inputs{};  ///< of an elementwise operation, in the place of x
  /// Of convolutions on a GPU: y of an elementwise operation or a pooling that reads y here, and
  /// the first of its channels that these tasks write.
  BufferId second = kNoBuffer;
  std::uint64_t second_channel = 0;
};

/// An operator of a graph; one of a network has others fused into it.
struct Node {
  Cut cut;
  NodeBuffers buffers;
  std::string reason{};  ///< why a convolution of a network was cut so; empty: no choice
};

/// What an executor runs: how the operators are cut, the tasks that this makes, and their order.
struct Lowering {
  std::vector<Node> nodes;
  TaskGraph graph;
  TaskMapping mapping;
  std::vector<BufferId> inputs{}, outputs{};  ///< of a network: what the caller gives and gets

  /// Of one convolution.
  const Tiling& tiling() const { return std::get<Tiling>(nodes.front().cut); }
  Tiling& tiling() { return std::get<Tiling>(nodes.front().cut); }
};

/// The whole way: tiling, graph, mapping, window (chosen to fit the policy's order when left to
/// choice), validated. `custom`, when set, replaces the policy. Throws Error(invalid_argument) with
/// the violation's message when the order and the window do not fit.
Lowering lower(const ConvProblem& problem, const TilingOptions& tiling,
               const MappingOptions& mapping, const Target& target,
               const PolicyFunction& custom = nullptr);

/// The same of a network, with prepared filters. Operators are fused where one task can do the work
/// of several. Values between operators share memory as far as the order allows, unless
/// `tiling.whole_tensors`; `tiling` holds for all convolutions. Throws what validate(network)
/// throws.
Lowering lower(const Network& network, const TilingOptions& tiling, const MappingOptions& mapping,
               const Target& target, const PolicyFunction& custom = nullptr);

/// The graph of a tiling, ready to be ordered.
Lowering cut(const Tiling& tiling);

/// The mapping file: JSON, one task a line, so that two of them can be compared with diff.
/// docs/mapping.schema.json describes it. Throws Error(unsupported) for more than one operator.
std::string export_mapping(const Lowering& lowering);

/// Reads a mapping file and rebuilds its graph. Throws Error(invalid_argument) with the line or key
/// that is wrong, or the first violation. When `expected` is given, also when the file is for
/// another problem.
Lowering import_mapping(std::string_view json, const ConvProblem* expected = nullptr);

}  // namespace megaconv
