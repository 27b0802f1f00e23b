// SPDX-License-Identifier: Apache-2.0
// What is to be computed: numbers of x at other places. Padding, cutting off, upsampling, slices of
// channels and channel shuffle are all this.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "megaconv/problem.hpp"

namespace megaconv {

/// Each part optional, in this order:
///
///   channels   those of [first_channel, first_channel + channels), then of g groups the first
///              channels, the second ones, ...: c = j g + i is channel i (channels / g) + j
///   repeats    every row repeat_h times, every column repeat_w times: upsampling, nearest
///   padding    rows above and below, columns left and right of `fill`; negative: as many cut off
struct Rearrangement {
  std::int64_t first_channel = 0;
  std::int64_t channels = 0;  ///< 0: all behind first_channel
  std::int64_t groups = 1;    ///< g
  std::int64_t repeat_h = 1, repeat_w = 1;
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
  float fill = 0;  ///< an infinity is allowed

  bool operator==(const Rearrangement&) const = default;
};

/// Storage types f32, f16 and bf16; no number is rounded but `fill`.
struct RearrangementProblem {
  Rearrangement does;
  std::int64_t n = 1, c = 1, h = 1, w = 1;  ///< of x
  DataType dtype = DataType::f32;
  Layout layout = Layout::nchw;  ///< of x
  std::optional<Layout> to{};    ///< layout of y; unset: as x

  std::int64_t k() const;  ///< channels of y
  std::int64_t p() const { return h * does.repeat_h + does.top + does.bottom; }
  std::int64_t q() const { return w * does.repeat_w + does.left + does.right; }
  Layout y_layout() const { return to.value_or(layout); }
  std::int64_t x_size() const { return n * c * h * w; }
  std::int64_t y_size() const { return n * k() * p() * q(); }

  bool operator==(const RearrangementProblem&) const = default;
};

/// Throws Error(invalid_argument) for the first extent out of range, channels that x does not have,
/// groups that do not divide them, more rows or columns cut off than there are, a tensor of more
/// than 2^40 elements, a fill that is NaN; Error(unsupported) for i8, chwn, and nchw16c that is not
/// converted from or to another layout.
void validate(const RearrangementProblem& problem);

/// "upsampling 2x2, n1c64h13w13+nhwc": for messages and descriptions.
std::string to_string(const RearrangementProblem& problem);

/// How it is cut into tasks: a task group is one task, and has some rows of one image of y.
struct RearrangementCut {
  RearrangementProblem problem;
  std::uint32_t rows_per_group = 1;
  std::uint32_t num_groups = 0;  ///< NG; derived

  bool operator==(const RearrangementCut&) const = default;
};

/// One line per property, for describe().
std::string to_string(const RearrangementCut& cut);

}  // namespace megaconv
