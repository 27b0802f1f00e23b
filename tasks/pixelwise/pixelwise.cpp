// SPDX-License-Identifier: Apache-2.0
// The pixelwise problem: its limits and its text; how it is cut.
#include "tasks/pixelwise/pixelwise.hpp"

#include <cmath>

#include "megaconv/error.hpp"
#include "tasks/checks.hpp"
#include "tasks/row_bands.hpp"

namespace megaconv {
namespace {

void check_number(const char* name, float value) {
  if (std::isfinite(value)) return;
  throw Error(Status::invalid_argument,
              std::string(name) + " = " + std::to_string(value) + ": must be finite");
}

}  // namespace

const char* to_string(PixelFunction function) noexcept {
  switch (function) {
    case PixelFunction::multiply:
      return "multiply";
    case PixelFunction::leaky_relu:
      return "leaky_relu";
    case PixelFunction::sigmoid:
      return "sigmoid";
    case PixelFunction::hard_sigmoid:
      return "hard_sigmoid";
    case PixelFunction::hard_swish:
      return "hard_swish";
    case PixelFunction::tanh:
      return "tanh";
    case PixelFunction::softmax:
      return "softmax";
    case PixelFunction::local_response_norm:
      return "local_response_norm";
    case PixelFunction::gelu:
      return "gelu";
    case PixelFunction::gelu_tanh:
      return "gelu_tanh";
  }
  return "unknown";
}

void validate(const PixelwiseProblem& problem) {
  const PixelwiseProblem& a = problem;
  if (static_cast<std::uint32_t>(a.does.function) >= kNumPixelFunctions) {
    throw Error(Status::invalid_argument,
                "pixel function " + std::to_string(static_cast<int>(a.does.function)) +
                    ": must be 0 to " + std::to_string(kNumPixelFunctions - 1));
  }
  check_range("n", a.n, 1, kMaxExtent);
  check_range("c", a.c, 1, kMaxExtent);
  check_range("h", a.h, 1, kMaxExtent);
  check_range("w", a.w, 1, kMaxExtent);
  check_range("size of the window", a.does.size, 1, kMaxExtent);
  check_number("alpha", a.does.alpha);
  check_number("beta", a.does.beta);
  check_number("bias", a.does.bias);
  check_elements("output", {a.n, a.c, a.h, a.w});
  check_storage("pixelwise", a.dtype, a.layout);
}

std::string to_string(const PixelwiseProblem& problem) {
  const PixelwiseProblem& a = problem;
  std::string text = to_string(a.does.function);
  if (a.does.function == PixelFunction::multiply && a.per_channel) text += " by channel";
  if (a.does.function == PixelFunction::leaky_relu)
    text += std::string(" ") + number_text(a.does.alpha);
  if (a.does.function == PixelFunction::local_response_norm) {
    text += std::string(" of ") + std::to_string(a.does.size) + " channels";
  }
  text += std::string(" n") + std::to_string(a.n) + "c" + std::to_string(a.c) + "h" +
          std::to_string(a.h) + "w" + std::to_string(a.w);
  if (a.layout != Layout::nchw) text += std::string("+") + to_string(a.layout);
  if (a.dtype != DataType::f32) text += std::string("+") + to_string(a.dtype);
  return text;
}

void derive_counts(PixelwiseCut& cut) {
  validate(cut.problem);
  cut.num_groups = count_bands(cut.problem.n, cut.problem.h, cut.rows_per_group);
}

PixelwiseCut cut_pixelwise(const PixelwiseProblem& problem, std::uint32_t workers) {
  validate(problem);
  PixelwiseCut cut{.problem = problem};
  cut.rows_per_group = rows_of_bands(problem.n, problem.h, problem.y_size(), workers);
  derive_counts(cut);
  return cut;
}

// CUDA's functions in units of 2^-24: expf and tanhf 4, powf 8, division and root 1 (CUDA C++
// Programming Guide, "Mathematical Functions"). Of softmax, exp(x - largest) has the error of the
// difference as well, which is at most 88 where the result is a normal number, and a lane of a warp
// adds c / 32 numbers. Of gelu, erfc(z) has twice z^2 times the error of z, which is at most 9.2
// where the result is a normal number; of gelu_tanh, exp(q) as many times that of q, four
// roundings, as q is: at most 88 times.
double roundings_of(const PixelwiseProblem& problem) {
  const Pixelwise& does = problem.does;
  switch (does.function) {
    case PixelFunction::multiply:
    case PixelFunction::leaky_relu:
      return 1;
    case PixelFunction::softmax:
      return 105 + static_cast<double>(problem.c) / 32;
    case PixelFunction::gelu:
    case PixelFunction::gelu_tanh:
      return 300;
    case PixelFunction::local_response_norm:
      return 13 + 2 * static_cast<double>(does.size + 3) * std::fabs(double{does.beta});
    default:
      return 10;
  }
}

std::string to_string(const PixelwiseCut& cut) {
  return "problem: " + to_string(cut.problem) +
         "\nrows of a task: " + std::to_string(cut.rows_per_group) +
         "\ntasks: " + std::to_string(cut.num_groups) + '\n';
}

}  // namespace megaconv
