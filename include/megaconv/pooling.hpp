// SPDX-License-Identifier: Apache-2.0
// What is to be computed: one pooling of an activation tensor.
#pragma once

#include <cstdint>
#include <string>

#include "megaconv/problem.hpp"

namespace megaconv {

enum class PoolMode : std::uint8_t {
  max,      ///< largest value under the window; NaN if one is there; padding counts for nothing.
            ///< Zeros are equal: the first one under the window is taken, with its sign
  average,  ///< sum of the values under the window, row by row in FP32, divided by their number:
            ///< padding counts neither for the sum nor for the number. A sum of f32 values that is
            ///< too large for FP32 is infinite
};
const char* to_string(PoolMode mode) noexcept;  ///< "max", "average"

/// An operator of a network: max or average pooling, as PoolProblem has it. Reads x.
struct Pooling {
  PoolMode mode = PoolMode::max;
  std::int64_t r = 2, s = 2;
  std::int64_t pad_h = 0, pad_w = 0;
  std::int64_t stride_h = 2, stride_w = 2;
};

/// The average of each channel: y has height and width 1. Reads x.
struct GlobalAveragePooling {};

/// One pooling, in the letters of ConvProblem: every output is made of the r x s inputs of its own
/// channel under a window. Tensors are dense; y has as many channels as x. Storage types f32, f16
/// and bf16; values are FP32 in between and y is rounded once, to nearest, ties to even.
struct PoolProblem {
  PoolMode mode = PoolMode::max;
  std::int64_t n = 1;      ///< batch
  std::int64_t c = 1;      ///< channels
  std::int64_t h = 1;      ///< input height
  std::int64_t w = 1;      ///< input width
  std::int64_t r = 2;      ///< window height
  std::int64_t s = 2;      ///< window width
  std::int64_t pad_h = 0;  ///< rows above and below that are not there; less than r
  std::int64_t pad_w = 0;  ///< columns left and right; less than s
  std::int64_t stride_h = 2;
  std::int64_t stride_w = 2;
  DataType dtype = DataType::f32;
  Layout layout = Layout::nchw;

  /// Output height P and width Q: windows that begin within the input and its upper padding, and
  /// end within the padded input.
  std::int64_t p() const { return (h + 2 * pad_h - r) / stride_h + 1; }
  std::int64_t q() const { return (w + 2 * pad_w - s) / stride_w + 1; }
  std::int64_t x_size() const { return n * c * h * w; }
  std::int64_t y_size() const { return n * c * p() * q(); }

  bool operator==(const PoolProblem&) const = default;
};

/// Throws Error(invalid_argument) for the first extent out of range, a window larger than the
/// padded input, padding that is not less than the window, a tensor of more than 2^40 elements;
/// Error(unsupported) for i8 and chwn.
void validate(const PoolProblem& problem);

/// "max pooling n1c64h112w112r3s3p1u2+nhwc": for messages and descriptions.
std::string to_string(const PoolProblem& problem);

/// How a pooling is cut into tasks: a task group is a rectangle of output pixels of one image, a
/// task has some of its channels.
struct PoolCut {
  PoolProblem problem;
  std::uint32_t rows_per_group = 1, cols_per_group = 1;
  std::uint32_t channels_per_task = 1;
  /// The tasks write y that make x; there are none of its own.
  bool written_by_maker = false;
  // Derived; cut_pooling() and derive_counts() fill them.
  std::uint32_t num_groups = 0;       ///< NG
  std::uint32_t tasks_per_group = 0;  ///< SG

  bool operator==(const PoolCut&) const = default;
};

/// One line per property, for describe().
std::string to_string(const PoolCut& cut);

}  // namespace megaconv
