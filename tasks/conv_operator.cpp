// SPDX-License-Identifier: Apache-2.0
#include "tasks/conv_operator.hpp"

#include "tasks/conv_algorithm.hpp"
#include "tasks/conv_graph.hpp"
#include "tasks/operator_reads.hpp"
#include "tasks/small_gemm/computed_input.hpp"
#include "tasks/small_gemm/small_gemm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

std::string w_text(const ConvProblem& a) {
  std::string text;
  for (const std::int64_t extent : {a.k, a.c / a.groups, a.r, a.s}) {
    text += '[';
    text += std::to_string(extent);
    text += ']';
  }
  return text;
}

template <class Op>
Shape checked_shape(const OperatorReads& reads, const Op& op) {
  const ConvProblem problem = problem_of(reads.network(), op, reads.shapes());
  const Shape y = reads.y_of(problem);
  reads.expect_weights("w", op.w, problem.w_size(), w_text(problem));
  if (op.bias.data != nullptr) reads.expect_weights("bias", op.bias, op.k, "[K]");
  return y;
}

NodeBuffers with_given(std::span<const BufferId> reads, const NodeBuffers& given) {
  return {.x = reads[0],
          .residual = reads.size() == 2 ? reads[1] : kNoBuffer,
          .second = given.second,
          .second_channel = given.second_channel};
}

}  // namespace

const char* kind_of(const Convolution&) noexcept { return "convolution"; }
const char* kind_of(const FullyConnected&) noexcept { return "fully connected layer"; }

Shape shape_of(const OperatorReads& reads, const Convolution& op) {
  reads.expect_count(1, 2);
  const Shape y = checked_shape(reads, op);
  if (reads.shapes().size() == 2) reads.expect_shape(1, y, "the residual");
  return y;
}
Shape shape_of(const OperatorReads& reads, const FullyConnected& op) {
  reads.expect_count(1, 1);
  return checked_shape(reads, op);
}

ConvProblem problem_of(const Network& network, const Convolution& op,
                       std::span<const Shape> reads) {
  const ConvProblem problem{.k = op.k,
                            .r = op.r,
                            .s = op.s,
                            .pad_h = op.pad_h,
                            .pad_w = op.pad_w,
                            .stride_h = op.stride_h,
                            .stride_w = op.stride_w,
                            .dilation_h = op.dilation_h,
                            .dilation_w = op.dilation_w,
                            .groups = op.groups,
                            .epilogue = {.bias = op.bias.data != nullptr,
                                         .residual = reads.size() == 2,
                                         .activation = op.relu ? kRelu : Activation{}}};
  return with_input(problem, network, reads.front());
}
ConvProblem problem_of(const Network& network, const FullyConnected& op,
                       std::span<const Shape> reads) {
  const Shape& x = reads.front();
  const ConvProblem problem{.k = op.k,
                            .r = x.h,
                            .s = x.w,
                            .pad_h = 0,
                            .pad_w = 0,
                            .epilogue = {.bias = op.bias.data != nullptr}};
  return with_input(problem, network, x);
}

Shape y_shape(const ConvProblem& a) { return {a.n, a.k, a.p(), a.q()}; }

NodeBuffers add_operator(TaskGraph& graph, const std::string& name, const Tiling& cut,
                         std::span<const BufferId> reads, const NodeBuffers& given) {
  return add_convolution(graph, name, cut, with_given(reads, given));
}
NodeBuffers add_operator(TaskGraph& graph, const std::string& name, const SmallGemmCut& cut,
                         std::span<const BufferId> reads, const NodeBuffers& given) {
  return add_small_gemm(graph, name, cut, with_given(reads, given));
}
NodeBuffers add_operator(TaskGraph& graph, const std::string& name, const InReaderCut& cut,
                         std::span<const BufferId> reads) {
  return add_in_reader(graph, name, cut, {.x = reads[0]});
}

std::string summary_of(const Tiling& cut) {
  return to_string(cut.problem) + ", " + algorithm_of(cut).name(cut) + ", " +
         std::to_string(num_tasks(cut)) + " tasks";
}
std::string summary_of(const SmallGemmCut& cut) {
  std::string text = to_string(cut.problem) + ", small-tile implicit GEMM, " +
                     to_string(cut.precision) + ", tiles of " +
                     pair_text(cut.rows_per_group, cut.cols_per_group) + " pixels x " +
                     std::to_string(cut.filters_per_task()) + " filters, warps " +
                     std::to_string(cut.filter_warps) + "x" + std::to_string(cut.pixel_warps) +
                     "x" + std::to_string(cut.sum_warps) + ", ";
  if (cut.shares != 1) text += std::to_string(cut.shares) + " tasks a sum, ";
  if (cut.pairs.inputs) text += "tensors in pairs, ";
  if (cut.depthwise) text += cut.expand ? "computes x of its x, " : "computes its x, ";
  text += std::to_string(std::uint64_t{cut.num_groups} * cut.tasks_per_group);
  return text += " tasks";
}
std::string summary_of(const InReaderCut& cut) {
  return to_string(cut.problem) + ", computed by the tasks that read it";
}

}  // namespace megaconv
