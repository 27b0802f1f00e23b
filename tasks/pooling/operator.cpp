// SPDX-License-Identifier: Apache-2.0
#include "tasks/pooling/operator.hpp"

#include "tasks/operator_reads.hpp"
#include "tasks/pooling/pooling.hpp"

namespace megaconv {

const char* kind_of(const Pooling& op) noexcept {
  return op.mode == PoolMode::max ? "max pooling" : "average pooling";
}
const char* kind_of(const GlobalAveragePooling&) noexcept { return "global average pooling"; }

Shape shape_of(const OperatorReads& reads, const Pooling& op) {
  reads.expect_count(1, 1);
  return reads.y_of(problem_of(reads.network(), op, reads.shapes()));
}
Shape shape_of(const OperatorReads& reads, const GlobalAveragePooling& op) {
  reads.expect_count(1, 1);
  return reads.y_of(problem_of(reads.network(), op, reads.shapes()));
}

PoolProblem problem_of(const Network& network, const Pooling& op, std::span<const Shape> reads) {
  const PoolProblem problem{.mode = op.mode,
                            .r = op.r,
                            .s = op.s,
                            .pad_h = op.pad_h,
                            .pad_w = op.pad_w,
                            .stride_h = op.stride_h,
                            .stride_w = op.stride_w};
  return with_input(problem, network, reads.front());
}
PoolProblem problem_of(const Network& network, const GlobalAveragePooling&,
                       std::span<const Shape> reads) {
  const Shape& x = reads.front();
  return problem_of(network, Pooling{.mode = PoolMode::average, .r = x.h, .s = x.w}, reads);
}

Shape y_shape(const PoolProblem& a) { return {a.n, a.c, a.p(), a.q()}; }

PoolCut cut_operator(const PoolProblem& problem, std::uint32_t workers) {
  return cut_pooling(problem, workers);
}

NodeBuffers add_operator(TaskGraph& graph, const std::string& name, const PoolCut& cut,
                         std::span<const BufferId> reads, const NodeBuffers& given) {
  NodeBuffers buffers{.x = reads[0]};
  buffers.y = add_pooling(graph, name, cut, buffers.x, given.y);
  return buffers;
}

std::string summary_of(const PoolCut& cut) {
  return to_string(cut.problem) + ", " +
         std::to_string(std::uint64_t{cut.num_groups} * cut.tasks_per_group) + " tasks";
}

}  // namespace megaconv
