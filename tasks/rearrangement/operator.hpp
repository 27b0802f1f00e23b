// SPDX-License-Identifier: Apache-2.0
// Rearrangements as operators of networks. tasks/operators.hpp says what these functions are.
#pragma once

#include "tasks/operator_room.hpp"

namespace megaconv {

const char* kind_of(const Rearrangement& op) noexcept;
Shape shape_of(const OperatorReads& reads, const Rearrangement& op);
RearrangementProblem problem_of(const Network& network, const Rearrangement& op,
                                std::span<const Shape> reads);

Shape y_shape(const RearrangementProblem& problem);
RearrangementCut cut_operator(const RearrangementProblem& problem, std::uint32_t workers);
OperatorTruth truth_of(const RearrangementProblem& problem, const FusedOperator& op,
                       const ReadNumbers& read);

NodeBuffers add_operator(TaskGraph& graph, const std::string& name, const RearrangementCut& cut,
                         std::span<const BufferId> reads);
std::string summary_of(const RearrangementCut& cut);
namespace cpu {
NodeTasks node_tasks(const RearrangementCut& cut, const Kernels& kernels);
}  // namespace cpu

template <class Fields>
void describe(Fields& f, Rearrangement& a) {
  f("first_channel", a.first_channel);
  f("channels", a.channels);
  f("groups", a.groups);
  f("repeat_h", a.repeat_h);
  f("repeat_w", a.repeat_w);
  f("top", a.top);
  f("bottom", a.bottom);
  f("left", a.left);
  f("right", a.right);
  f("fill", a.fill);
}

}  // namespace megaconv
