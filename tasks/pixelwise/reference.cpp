// SPDX-License-Identifier: Apache-2.0
#include "tasks/pixelwise/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tasks/pixelwise/operator.hpp"
#include "tasks/pixelwise/pixelwise.hpp"

namespace megaconv {
namespace {

/// One number of y.
class PixelwiseReference {
 public:
  PixelwiseReference(const PixelwiseProblem& problem, std::span<const double> x,
                     std::span<const double> b)
      : a_(problem), x_(x), b_(b) {}

  double at(std::int64_t image, std::int64_t c, std::int64_t pixel) const {
    const Pixelwise& does = a_.does;
    const double v = x(image, c, pixel);
    const double alpha = does.alpha, beta = does.beta, bias = does.bias;
    switch (does.function) {
      case PixelFunction::multiply:
        return v * (a_.per_channel ? b_[index(image * a_.c + c)] : b_[place(image, c, pixel)]);
      case PixelFunction::leaky_relu:
        return v >= 0 ? v : alpha * v;
      case PixelFunction::sigmoid:
        return 0.5 + 0.5 * std::tanh(v / 2);
      case PixelFunction::hard_sigmoid:
        return std::fmin(1, std::fmax(0, alpha * v + beta));
      case PixelFunction::hard_swish:
        return v <= -3 ? 0 : v >= 3 ? v : v * (v + 3) / 6;
      case PixelFunction::tanh:
        return std::tanh(v);
      case PixelFunction::gelu:
        return 0.5 * v * std::erfc(-v / std::sqrt(2.0));
      case PixelFunction::gelu_tanh:  // 1 + tanh(q / 2) without cancellation
        return v / (1 + std::exp(-std::sqrt(8 / std::acos(-1.0)) * (v + 0.044715 * v * v * v)));
      case PixelFunction::softmax: {
        double others = 0;
        for (std::int64_t i = 0; i < a_.c; ++i) others += std::exp(x(image, i, pixel) - v);
        return 1 / others;
      }
      case PixelFunction::local_response_norm: {
        double squares = 0;
        for (std::int64_t i = 0; i < a_.c; ++i) {
          const bool under = i >= c - (does.size - 1) / 2 && i <= c + does.size / 2;
          if (under) squares += x(image, i, pixel) * x(image, i, pixel);
        }
        return v / std::pow(bias + alpha / static_cast<double>(does.size) * squares, beta);
      }
    }
    std::abort();
  }

 private:
  static std::size_t index(std::int64_t at) { return static_cast<std::size_t>(at); }
  std::size_t place(std::int64_t image, std::int64_t c, std::int64_t pixel) const {
    return index((image * a_.c + c) * a_.h * a_.w + pixel);
  }
  double x(std::int64_t image, std::int64_t c, std::int64_t pixel) const {
    return x_[place(image, c, pixel)];
  }

  const PixelwiseProblem& a_;
  std::span<const double> x_, b_;
};

}  // namespace

std::vector<double> reference_pixelwise(const PixelwiseProblem& problem, std::span<const double> x,
                                        std::span<const double> b) {
  const PixelwiseReference reference(problem, x, b);
  std::vector<double> y;
  y.reserve(x.size());
  for (std::int64_t image = 0; image < problem.n; ++image) {
    for (std::int64_t c = 0; c < problem.c; ++c) {
      for (std::int64_t pixel = 0; pixel < problem.h * problem.w; ++pixel) {
        y.push_back(reference.at(image, c, pixel));
      }
    }
  }
  return y;
}

// Tasks may make 0 of numbers below 2^-126.
OperatorTruth truth_of(const PixelwiseProblem& a, const FusedOperator&, const ReadNumbers& read) {
  const Shape x = y_shape(a);
  std::vector<double> b;
  if (a.does.function == PixelFunction::multiply) {
    b = read(1, a.per_channel ? Shape{a.n, a.c, 1, 1} : x);
  }
  OperatorTruth truth{.y = reference_pixelwise(a, read(0, x), b), .roundings = roundings_of(a)};
  for (const double y : truth.y) truth.magnitude.push_back(std::max(std::fabs(y), 0x1p-102));
  return truth;
}

}  // namespace megaconv
