// SPDX-License-Identifier: Apache-2.0
#include "tasks/elementwise/reference.hpp"

#include <cmath>

#include "tasks/elementwise/operator.hpp"
#include "tasks/fuse.hpp"
#include "tasks/storage.hpp"
#include "tasks/strides.hpp"

namespace megaconv {
namespace {

/// T: see number_of(). Number: of scale and bias.
template <class T, class Number>
void compute_elementwise(const ElementwiseProblem& problem, std::span<const T* const> tensors,
                         const T* residual, const Number* scale, const Number* bias, double* y,
                         double* magnitude) {
  const std::int64_t pixels = problem.h * problem.w;
  const Strides out = strides_of(problem.layout, problem.n, problem.c(), pixels);
  std::int64_t first = 0;  // channel of y that is the first of this tensor
  for (std::size_t i = 0; i < problem.channels.size(); ++i) {
    const std::int64_t channels = problem.channels[i];
    const Strides in = strides_of(problem.layout, problem.n, channels, pixels);
    for (std::int64_t at = 0; at < problem.n * channels * pixels; ++at) {
      const std::int64_t pixel = at % pixels, channel = at / pixels % channels;
      const std::int64_t image = at / pixels / channels, c = first + channel;
      const std::int64_t to = image * out.image + c * out.channel + pixel * out.pixel;
      double value =
          number_of(tensors[i][image * in.image + channel * in.channel + pixel * in.pixel]);
      double size = std::fabs(value);
      if (problem.affine) {
        value = value * double{scale[c]} + double{bias[c]};
        size = size * std::fabs(double{scale[c]}) + std::fabs(double{bias[c]});
      }
      if (problem.residual) {
        const double term = number_of(residual[to]);
        value += term;
        size += std::fabs(term);
      }
      if (value < double{problem.least}) value = problem.least;
      if (value > double{problem.most}) value = problem.most;
      y[to] = value;
      if (magnitude != nullptr) magnitude[to] = size;
    }
    first += channels;
  }
}

}  // namespace

void reference_elementwise(const ElementwiseProblem& problem, const ElementwiseTensors& tensors,
                           double* y, double* magnitude) {
  with_storage(problem.dtype, [&](auto number) {
    using T = decltype(number);
    std::vector<const T*> x;
    for (const void* const tensor : tensors.x) x.push_back(static_cast<const T*>(tensor));
    compute_elementwise<T>(problem, x, static_cast<const T*>(tensors.residual), tensors.scale,
                           tensors.bias, y, magnitude);
  });
}

// Scale and bias, which are rounded to FP32 before, and the sum of both; then the residual.
OperatorTruth truth_of(const ElementwiseProblem& problem, const FusedOperator& op,
                       const ReadNumbers& read) {
  ElementwiseProblem a = problem;
  a.layout = Layout::nchw;
  std::vector<std::vector<double>> numbers;
  for (const std::int64_t channels : a.channels) {
    numbers.push_back(read(numbers.size(), {a.n, channels, a.h, a.w}));
  }
  if (a.residual) numbers.push_back(read(numbers.size(), y_shape(a)));
  std::vector<const double*> x;
  for (const auto& tensor : numbers) x.push_back(tensor.data());
  const auto size = static_cast<std::size_t>(a.y_size());
  OperatorTruth truth{.y = std::vector<double>(size),
                      .magnitude = std::vector<double>(size),
                      .roundings = static_cast<double>(a.affine + a.residual)};
  compute_elementwise<double>(a, x, x.back(), op.scale.data(), op.bias.data(), truth.y.data(),
                              truth.magnitude.data());
  return truth;
}

}  // namespace megaconv
