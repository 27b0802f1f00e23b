// SPDX-License-Identifier: Apache-2.0
#include "tasks/pixelwise/operator.hpp"

#include "tasks/operator_reads.hpp"
#include "tasks/pixelwise/pixelwise.hpp"

namespace megaconv {
namespace {

Shape channels_of(const Shape& x) { return {x.n, x.c, 1, 1}; }

}  // namespace

const char* kind_of(const Pixelwise& op) noexcept { return to_string(op.function); }

Shape shape_of(const OperatorReads& reads, const Pixelwise& op) {
  const std::size_t count = op.function == PixelFunction::multiply ? 2 : 1;
  reads.expect_count(count, count);
  if (count == 2 && reads.shapes()[1] != channels_of(reads.x())) {
    reads.expect_shape(1, reads.x(), "the second factor");
  }
  return reads.y_of(problem_of(reads.network(), op, reads.shapes()));
}

PixelwiseProblem problem_of(const Network& network, const Pixelwise& op,
                            std::span<const Shape> reads) {
  const Shape& x = reads.front();
  const bool per_channel = reads.size() == 2 && reads[1] == channels_of(x);
  return with_input(PixelwiseProblem{.does = op, .per_channel = per_channel}, network, x);
}

Shape y_shape(const PixelwiseProblem& a) { return {a.n, a.c, a.h, a.w}; }

PixelwiseCut cut_operator(const PixelwiseProblem& problem, std::uint32_t workers) {
  return cut_pixelwise(problem, workers);
}

NodeBuffers add_operator(TaskGraph& graph, const std::string& name, const PixelwiseCut& cut,
                         std::span<const BufferId> reads) {
  NodeBuffers buffers{.x = reads[0], .residual = reads.size() == 2 ? reads[1] : kNoBuffer};
  buffers.y = add_pixelwise(graph, name, cut, buffers.x, buffers.residual);
  return buffers;
}

std::string summary_of(const PixelwiseCut& cut) {
  return to_string(cut.problem) + ", " + std::to_string(cut.num_groups) + " tasks";
}

}  // namespace megaconv
