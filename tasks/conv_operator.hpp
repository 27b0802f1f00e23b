// SPDX-License-Identifier: Apache-2.0
// Convolutions as operators of networks. tasks/operators.hpp says what these functions are.
#pragma once

#include "tasks/operator_fields.hpp"
#include "tasks/operator_room.hpp"

namespace megaconv {

const char* kind_of(const Convolution& op) noexcept;
const char* kind_of(const FullyConnected& op) noexcept;
Shape shape_of(const OperatorReads& reads, const Convolution& op);
Shape shape_of(const OperatorReads& reads, const FullyConnected& op);
ConvProblem problem_of(const Network& network, const Convolution& op, std::span<const Shape> reads);
/// Exact: a filter as large as the image has one output.
ConvProblem problem_of(const Network& network, const FullyConnected& op,
                       std::span<const Shape> reads);

Shape y_shape(const ConvProblem& problem);

NodeBuffers add_operator(TaskGraph& graph, const std::string& name, const Tiling& cut,
                         std::span<const BufferId> reads, const NodeBuffers& given);
NodeBuffers add_operator(TaskGraph& graph, const std::string& name, const SmallGemmCut& cut,
                         std::span<const BufferId> reads, const NodeBuffers& given);
NodeBuffers add_operator(TaskGraph& graph, const std::string& name, const InReaderCut& cut,
                         std::span<const BufferId> reads);
std::string summary_of(const Tiling& cut);
std::string summary_of(const SmallGemmCut& cut);
std::string summary_of(const InReaderCut& cut);
namespace cpu {
NodeTasks node_tasks(const Tiling& cut, const Kernels& kernels);
NodeTasks node_tasks(const SmallGemmCut& cut, const Kernels& kernels);
NodeTasks node_tasks(const InReaderCut& cut, const Kernels& kernels);
}  // namespace cpu

template <class Fields>
void describe(Fields& f, Convolution& a) {
  f("k", a.k);
  describe_window(f, a);
  f("dilation_h", a.dilation_h);
  f("dilation_w", a.dilation_w);
  f("groups", a.groups);
  f("relu", a.relu);
  f("w", a.w);
  f("bias", a.bias);
}
template <class Fields>
void describe(Fields& f, FullyConnected& a) {
  f("k", a.k);
  f("w", a.w);
  f("bias", a.bias);
}

}  // namespace megaconv
