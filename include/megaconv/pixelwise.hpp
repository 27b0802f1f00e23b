// SPDX-License-Identifier: Apache-2.0
// What is to be computed: every pixel of y from the same pixel of x, and perhaps of a second
// tensor.
#pragma once

#include <cstdint>
#include <string>

#include "megaconv/problem.hpp"

namespace megaconv {

enum class PixelFunction : std::uint8_t {
  multiply,             ///< y = a b
  leaky_relu,           ///< y = x, but alpha x where x < 0
  sigmoid,              ///< y = 1 / (1 + exp(-x))
  hard_sigmoid,         ///< y = clamp(alpha x + beta, 0, 1)
  hard_swish,           ///< y = x clamp(x / 6 + 1/2, 0, 1)
  tanh,                 ///< y = tanh(x)
  softmax,              ///< y[c] = exp(x[c]) / the sum of exp(x) over all channels of the pixel
  local_response_norm,  ///< y[c] = x[c] / (bias + alpha / size * the sum of x^2 over the channels
                        ///< c - (size - 1) / 2 to c + size / 2 that there are)^beta
  gelu,                 ///< y = x (1 + erf(x / sqrt(2))) / 2
  gelu_tanh,            ///< y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
};
inline constexpr std::uint32_t kNumPixelFunctions = 10;
const char* to_string(PixelFunction function) noexcept;  ///< "multiply", "leaky_relu", ...

/// A function and its numbers, of which it has those that its formula names.
struct Pixelwise {
  PixelFunction function = PixelFunction::multiply;
  float alpha = 0, beta = 0, bias = 0;
  std::int64_t size = 1;  ///< channels of a window

  bool operator==(const Pixelwise&) const = default;
};

/// y = f(x), or f(x, b) for `multiply`. Storage types f32, f16 and bf16; y is rounded to FP32 and
/// then to its type, to nearest, ties to even. Arithmetic is in double; on CUDA in FP32, which errs
/// by 10 units of 2^-24 |y| at most, of softmax by 105 + c / 32, of gelu and gelu_tanh by 300, of
/// local_response_norm by 13 + 2 (size + 3) |beta|, and may make 0 of numbers below 2^-126.
struct PixelwiseProblem {
  Pixelwise does;
  std::int64_t n = 1, c = 1, h = 1, w = 1;
  bool per_channel = false;  ///< b has height and width 1: one number for a channel of an image
  DataType dtype = DataType::f32;
  Layout layout = Layout::nchw;

  std::int64_t y_size() const { return n * c * h * w; }

  bool operator==(const PixelwiseProblem&) const = default;
};

/// Throws Error(invalid_argument) for the first extent out of range, a tensor of more than 2^40
/// elements, a window that is not 1 to 2^31 - 1 channels, a number that is not finite;
/// Error(unsupported) for i8 and chwn.
void validate(const PixelwiseProblem& problem);

/// "softmax n1c1000h1w1+nhwc": for messages and descriptions.
std::string to_string(const PixelwiseProblem& problem);

/// How it is cut into tasks: a task group is one task, and has some rows of one image.
struct PixelwiseCut {
  PixelwiseProblem problem;
  std::uint32_t rows_per_group = 1;
  std::uint32_t num_groups = 0;  ///< NG; derived

  bool operator==(const PixelwiseCut&) const = default;
};

/// One line per property, for describe().
std::string to_string(const PixelwiseCut& cut);

}  // namespace megaconv
