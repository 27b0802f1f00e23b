// SPDX-License-Identifier: Apache-2.0
// Elementwise operations as operators of networks. tasks/operators.hpp says what these functions
// are.
#pragma once

#include "tasks/operator_room.hpp"

namespace megaconv {

const char* kind_of(const BatchNorm& op) noexcept;
const char* kind_of(const Add& op) noexcept;
const char* kind_of(const Concatenation& op) noexcept;
const char* kind_of(const Clamp& op) noexcept;
Shape shape_of(const OperatorReads& reads, const BatchNorm& op);
Shape shape_of(const OperatorReads& reads, const Add& op);
Shape shape_of(const OperatorReads& reads, const Concatenation& op);
Shape shape_of(const OperatorReads& reads, const Clamp& op);

Shape y_shape(const ElementwiseProblem& problem);
ElementwiseCut cut_operator(const ElementwiseProblem& problem, std::uint32_t workers);
OperatorTruth truth_of(const ElementwiseProblem& problem, const FusedOperator& op,
                       const ReadNumbers& read);

NodeBuffers add_operator(TaskGraph& graph, const std::string& name, const ElementwiseCut& cut,
                         std::span<const BufferId> reads, const NodeBuffers& given);
std::string summary_of(const ElementwiseCut& cut);
inline std::int64_t scales_of(const ElementwiseCut& cut) {
  return cut.problem.affine ? cut.problem.c() : 0;
}
namespace cpu {
NodeTasks node_tasks(const ElementwiseCut& cut, const Kernels& kernels);
}  // namespace cpu

template <class Fields>
void describe(Fields& f, BatchNorm& a) {
  f("epsilon", a.epsilon);
  f("gamma", a.gamma);
  f("beta", a.beta);
  f("mean", a.mean);
  f("variance", a.variance);
}
template <class Fields>
void describe(Fields&, Add&) {}
template <class Fields>
void describe(Fields&, Concatenation&) {}
template <class Fields>
void describe(Fields& f, Clamp& a) {
  f("least", a.least);
  f("most", a.most);
}

}  // namespace megaconv
