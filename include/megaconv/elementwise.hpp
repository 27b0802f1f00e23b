// SPDX-License-Identifier: Apache-2.0
// What is to be computed: an operation on every element of activation tensors by itself.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "megaconv/problem.hpp"

namespace megaconv {

/// y = clamp(scale[c] x + bias[c] + residual), each part optional, where x is one tensor or several
/// whose channels stand one behind the other. So an addition, a concatenation, a batch
/// normalisation that stands alone and an activation are the same operation.
///
/// Storage types f32, f16 and bf16; numbers are FP32 in between and y is rounded once, to nearest,
/// ties to even. scale and bias are FP32 always. NaN stays NaN.
struct ElementwiseProblem {
  std::int64_t n = 1, h = 1, w = 1;       ///< batch, height, width
  std::vector<std::int64_t> channels{1};  ///< of each tensor of x; of y their sum
  bool affine = false;                    ///< scale [C] and bias [C]
  bool residual = false;                  ///< a second summand, of y's shape
  float least = -std::numeric_limits<float>::infinity();
  float most = std::numeric_limits<float>::infinity();
  DataType dtype = DataType::f32;
  Layout layout = Layout::nchw;

  std::int64_t c() const;  ///< channels of y
  std::int64_t y_size() const { return n * c() * h * w; }

  bool operator==(const ElementwiseProblem&) const = default;
};

/// Throws Error(invalid_argument) for the first extent out of range, no tensor, a tensor of more
/// than 2^40 elements, a least that is not below the most; Error(unsupported) for i8 and chwn.
void validate(const ElementwiseProblem& problem);

/// "concatenation of 64+32 channels, scaled, clamped to 0 to inf, n1c96h56w56+nhwc": for messages
/// and descriptions.
std::string to_string(const ElementwiseProblem& problem);

/// How it is cut into tasks: a task group is one task, and has some rows of one image and some
/// channels. Those of the last tensor of x and those of older ones are not in one task, unless a
/// task has all: so tasks of older tensors need not wait for the last one.
struct ElementwiseCut {
  ElementwiseProblem problem;
  std::uint32_t rows_per_group = 1;
  std::uint32_t channels_per_task = 1;
  /// Tensors of x, the last ones, whose part of y the tasks write that make them.
  std::uint32_t written_by_makers = 0;
  std::uint32_t num_groups = 0;  ///< NG; derived

  bool operator==(const ElementwiseCut&) const = default;
};

/// One line per property, for describe().
std::string to_string(const ElementwiseCut& cut);

}  // namespace megaconv
