// SPDX-License-Identifier: Apache-2.0
// Where the elements of a tensor lie, for code that takes every layout and need not be fast.
#pragma once

#include <cstdint>

#include "megaconv/problem.hpp"

namespace megaconv {

/// Distances between neighbours, in elements. For filters: of K, of C and of R S.
struct Strides {
  std::int64_t image, channel, pixel;
  std::int64_t blocked_channels = 0;  ///< those of an image in nchw16c, which has no other strides

  /// The element of an image's channel and pixel.
  constexpr std::int64_t at(std::int64_t n, std::int64_t c, std::int64_t number) const {
    if (blocked_channels == 0) return n * image + c * channel + number * pixel;
    const std::int64_t first = c / kChannelBlock * kChannelBlock, left = blocked_channels - first;
    return n * image + first * channel + number * (left < kChannelBlock ? left : kChannelBlock) +
           c - first;
  }
};

constexpr Strides strides_of(Layout layout, std::int64_t images, std::int64_t channels,
                             std::int64_t num_pixels) {
  switch (layout) {
    case Layout::nhwc:
      return {num_pixels * channels, 1, channels};
    case Layout::chwn:
      return {1, num_pixels * images, images};
    case Layout::nchw16c:
      return {channels * num_pixels, num_pixels, 1, channels};
    default:
      return {channels * num_pixels, num_pixels, 1};
  }
}

constexpr Strides x_strides(const ConvProblem& p) {
  return strides_of(p.layout, p.n, p.c, p.h * p.w);
}
/// [K][C][R][S], [K][R][S][C], [C][R][S][K]
constexpr Strides w_strides(const ConvProblem& p) {
  const Layout layout = p.layout == Layout::nchw16c ? Layout::nchw : p.layout;
  return strides_of(layout, p.k, p.c / p.groups, p.r * p.s);
}
constexpr Strides y_strides(const ConvProblem& p, std::int64_t num_pixels) {
  return strides_of(p.layout, p.n, p.k, num_pixels);
}

/// Products in the sum of one output.
constexpr std::int64_t num_terms(const ConvProblem& problem) {
  return problem.c / problem.groups * problem.r * problem.s;
}

}  // namespace megaconv
