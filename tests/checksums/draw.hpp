// SPDX-License-Identifier: Apache-2.0
// What the lists of the CPU and of the emulated CUDA tasks draw alike. Sizes are counted here, not
// asked of the library: a list must not depend on its rules.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "tests/checksums/case.hpp"
#include "tests/checksums/dice.hpp"

namespace megaconv::checksums {

/// A problem in the field's letters, before it is a string.
struct Shape {
  std::int64_t n = 1, c = 1, h = 1, w = 1, k = 1, r = 3, s = 3;
  std::int64_t pad_h = 0, pad_w = 0;
  std::int64_t stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  std::int64_t groups = 1;

  std::int64_t extent_h() const { return (r - 1) * dilation_h + 1; }
  std::int64_t extent_w() const { return (s - 1) * dilation_w + 1; }
  std::int64_t p() const { return (h + 2 * pad_h - extent_h()) / stride_h + 1; }
  std::int64_t q() const { return (w + 2 * pad_w - extent_w()) / stride_w + 1; }
  bool depthwise() const { return groups == c && groups == k; }
  /// Multiplications of the direct algorithm.
  std::int64_t products() const { return n * k * p() * q() * (c / groups) * r * s; }
  /// Blocks of 16 lanes.
  std::int64_t channel_blocks() const { return (c / groups + 15) / 16; }
  std::int64_t filter_blocks() const {
    return depthwise() ? (k + 15) / 16 : groups * ((k / groups + 15) / 16);
  }
};

/// `suffixes`: "+nhwc+bf16+bias".
std::string to_string(const Shape& shape, const std::string& suffixes);

/// A 3x3 filter with stride and dilation 1, which Winograd takes.
Shape winograd_shape(Dice& dice, std::int64_t most_extent, std::int64_t most_channels);
/// Images at least as large as the filter, up to most_extent more.
void draw_image(Dice& dice, Shape& shape, std::int64_t most_extent);

/// Some of "+bias", "+residual" and "+relu".
std::string draw_epilogue(Dice& dice);

/// "policy=...", for tasks of several kinds with distances.
std::string draw_policy(Dice& dice, Case& item, bool has_distances);

/// Sizes of Winograd's tasks, and the window.
struct WinogradSizes {
  std::int64_t m, group_tiles, input_channels, gemm_filters, gemm_positions, output_filters,
      transform_tiles;
};
/// Tiles of F(m x m, 3 x 3).
std::int64_t num_tiles(const Shape& shape, std::int64_t m);
/// Tasks of a run but for those of filters.
std::int64_t num_tasks(const Shape& shape, const WinogradSizes& sizes);
/// "group-tiles=...", ..., "window=whole" or, in the case, slots.
std::string draw_window(Dice& dice, Case& item, const std::string& policy, std::int64_t num_groups);
std::string to_string(const WinogradSizes& sizes);

/// "name=value,name=value"
std::string joined(std::initializer_list<std::pair<const char*, std::int64_t>> values);

}  // namespace megaconv::checksums
