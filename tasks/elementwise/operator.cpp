// SPDX-License-Identifier: Apache-2.0
#include "tasks/elementwise/operator.hpp"

#include "tasks/elementwise/elementwise.hpp"
#include "tasks/operator_reads.hpp"

namespace megaconv {

const char* kind_of(const BatchNorm&) noexcept { return "batch norm"; }
const char* kind_of(const Add&) noexcept { return "addition"; }
const char* kind_of(const Concatenation&) noexcept { return "concatenation"; }
const char* kind_of(const Clamp&) noexcept { return "clamp"; }

Shape shape_of(const OperatorReads& reads, const BatchNorm& op) {
  reads.expect_count(1, 1);
  const Shape& x = reads.x();
  reads.expect_weights("gamma", op.gamma, x.c, "[C]");
  reads.expect_weights("beta", op.beta, x.c, "[C]");
  reads.expect_weights("mean", op.mean, x.c, "[C]");
  reads.expect_weights("variance", op.variance, x.c, "[C]");
  for (const float variance : op.variance.values()) {
    if (double{variance} + op.epsilon > 0) continue;
    reads.reject("variance " + std::to_string(variance) + " + epsilon " +
                 std::to_string(op.epsilon) + ", must be more than 0");
  }
  return x;
}

Shape shape_of(const OperatorReads& reads, const Add&) {
  reads.expect_count(2, 2);
  reads.expect_shape(1, reads.x(), "the second summand");
  return reads.x();
}

Shape shape_of(const OperatorReads& reads, const Concatenation&) {
  reads.expect_count(1, 65536);
  const Shape& x = reads.x();
  ElementwiseProblem problem{.n = x.n, .h = x.h, .w = x.w, .channels = {x.c}};
  for (std::size_t i = 1; i < reads.shapes().size(); ++i) {
    const std::int64_t channels = reads.shapes()[i].c;
    reads.expect_shape(i, {x.n, channels, x.h, x.w}, "what is concatenated");
    problem.channels.push_back(channels);
  }
  return reads.y_of(problem);
}

Shape shape_of(const OperatorReads& reads, const Clamp& op) {
  reads.expect_count(1, 1);
  if (!(op.least < op.most)) {
    reads.reject("least " + std::to_string(op.least) + ", must be below most, " +
                 std::to_string(op.most));
  }
  return reads.x();
}

Shape y_shape(const ElementwiseProblem& a) { return {a.n, a.c(), a.h, a.w}; }

ElementwiseCut cut_operator(const ElementwiseProblem& problem, std::uint32_t workers) {
  return cut_elementwise(problem, workers);
}

NodeBuffers add_operator(TaskGraph& graph, const std::string& name, const ElementwiseCut& cut,
                         std::span<const BufferId> reads, const NodeBuffers& given) {
  NodeBuffers read = given;
  if (cut.problem.residual) {
    read.residual = reads.back();
    reads = reads.first(reads.size() - 1);
  }
  read.inputs.assign(reads.begin(), reads.end());
  return add_elementwise(graph, name, cut, read);
}

std::string summary_of(const ElementwiseCut& cut) {
  return to_string(cut.problem) + ", " + std::to_string(cut.num_groups) + " tasks";
}

}  // namespace megaconv
