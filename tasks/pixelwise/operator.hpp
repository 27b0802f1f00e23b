// SPDX-License-Identifier: Apache-2.0
// Pixelwise operations as operators of networks. tasks/operators.hpp says what these functions are.
#pragma once

#include "tasks/operator_room.hpp"

namespace megaconv {

const char* kind_of(const Pixelwise& op) noexcept;
Shape shape_of(const OperatorReads& reads, const Pixelwise& op);
PixelwiseProblem problem_of(const Network& network, const Pixelwise& op,
                            std::span<const Shape> reads);

Shape y_shape(const PixelwiseProblem& problem);
PixelwiseCut cut_operator(const PixelwiseProblem& problem, std::uint32_t workers);
OperatorTruth truth_of(const PixelwiseProblem& problem, const FusedOperator& op,
                       const ReadNumbers& read);

NodeBuffers add_operator(TaskGraph& graph, const std::string& name, const PixelwiseCut& cut,
                         std::span<const BufferId> reads);
std::string summary_of(const PixelwiseCut& cut);
namespace cpu {
NodeTasks node_tasks(const PixelwiseCut& cut, const Kernels& kernels);
}  // namespace cpu

inline constexpr PixelFunction kPixelFunctions[] = {
    PixelFunction::multiply,     PixelFunction::leaky_relu,          PixelFunction::sigmoid,
    PixelFunction::hard_sigmoid, PixelFunction::hard_swish,          PixelFunction::tanh,
    PixelFunction::softmax,      PixelFunction::local_response_norm, PixelFunction::gelu,
    PixelFunction::gelu_tanh};
static_assert(std::size(kPixelFunctions) == kNumPixelFunctions);
template <class Fields>
void describe(Fields& f, Pixelwise& a) {
  f("function", a.function, kPixelFunctions);
  f("alpha", a.alpha);
  f("beta", a.beta);
  f("bias", a.bias);
  f("size", a.size);
}

}  // namespace megaconv
