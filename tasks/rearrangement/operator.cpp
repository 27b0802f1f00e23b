// SPDX-License-Identifier: Apache-2.0
#include "tasks/rearrangement/operator.hpp"

#include "tasks/operator_reads.hpp"
#include "tasks/rearrangement/rearrangement.hpp"

namespace megaconv {

const char* kind_of(const Rearrangement&) noexcept { return "rearrangement"; }

Shape shape_of(const OperatorReads& reads, const Rearrangement& op) {
  reads.expect_count(1, 1);
  return reads.y_of(problem_of(reads.network(), op, reads.shapes()));
}

RearrangementProblem problem_of(const Network& network, const Rearrangement& op,
                                std::span<const Shape> reads) {
  return with_input(RearrangementProblem{.does = op}, network, reads.front());
}

Shape y_shape(const RearrangementProblem& a) { return {a.n, a.k(), a.p(), a.q()}; }

RearrangementCut cut_operator(const RearrangementProblem& problem, std::uint32_t workers) {
  return cut_rearrangement(problem, workers);
}

NodeBuffers add_operator(TaskGraph& graph, const std::string& name, const RearrangementCut& cut,
                         std::span<const BufferId> reads) {
  NodeBuffers buffers{.x = reads[0]};
  buffers.y = add_rearrangement(graph, name, cut, buffers.x);
  return buffers;
}

std::string summary_of(const RearrangementCut& cut) {
  return to_string(cut.problem) + ", " + std::to_string(cut.num_groups) + " tasks";
}

}  // namespace megaconv
