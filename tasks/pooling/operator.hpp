// SPDX-License-Identifier: Apache-2.0
// Pooling as operators of networks. tasks/operators.hpp says what these functions are.
#pragma once

#include "tasks/operator_fields.hpp"
#include "tasks/operator_room.hpp"

namespace megaconv {

const char* kind_of(const Pooling& op) noexcept;
const char* kind_of(const GlobalAveragePooling& op) noexcept;
Shape shape_of(const OperatorReads& reads, const Pooling& op);
Shape shape_of(const OperatorReads& reads, const GlobalAveragePooling& op);
PoolProblem problem_of(const Network& network, const Pooling& op, std::span<const Shape> reads);
PoolProblem problem_of(const Network& network, const GlobalAveragePooling& op,
                       std::span<const Shape> reads);

Shape y_shape(const PoolProblem& problem);
PoolCut cut_operator(const PoolProblem& problem, std::uint32_t workers);
OperatorTruth truth_of(const PoolProblem& problem, const FusedOperator& op,
                       const ReadNumbers& read);

NodeBuffers add_operator(TaskGraph& graph, const std::string& name, const PoolCut& cut,
                         std::span<const BufferId> reads, const NodeBuffers& given = {});
std::string summary_of(const PoolCut& cut);
namespace cpu {
NodeTasks node_tasks(const PoolCut& cut, const Kernels& kernels);
}  // namespace cpu

inline constexpr PoolMode kPoolModes[] = {PoolMode::max, PoolMode::average};
template <class Fields>
void describe(Fields& f, Pooling& a) {
  f("mode", a.mode, kPoolModes);
  describe_window(f, a);
}
template <class Fields>
void describe(Fields&, GlobalAveragePooling&) {}

}  // namespace megaconv
