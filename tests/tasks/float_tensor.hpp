// SPDX-License-Identifier: Apache-2.0
// A tensor of floats whose regions tests mark: tasks run where all but what they may read is NaN.
#pragma once

#include <cstdint>
#include <vector>

#include "megaconv/graph.hpp"
#include "tasks/strides.hpp"

namespace megaconv::test {

struct FloatTensor {
  FloatTensor(Layout layout, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w,
              float value)
      : at(strides_of(layout, n, c, h * w)),
        height(h),
        width(w),
        numbers(static_cast<std::size_t>(n * c * h * w), value) {}

  /// visit(number) for all of a region: rows of all images, columns, channels.
  template <class Visit>
  void for_each(const Region& region, Visit visit) {
    for (std::uint64_t row = region.rows.begin; row < region.rows.end; ++row) {
      for (std::uint64_t col = region.cols.begin; col < region.cols.end; ++col) {
        for (std::uint64_t c = region.channels.begin; c < region.channels.end; ++c) {
          const auto h = static_cast<std::int64_t>(row);
          const std::int64_t pixel = h % height * width + static_cast<std::int64_t>(col);
          visit(numbers[static_cast<std::size_t>(
              at.at(h / height, static_cast<std::int64_t>(c), pixel))]);
        }
      }
    }
  }

  Strides at;
  std::int64_t height, width;
  std::vector<float> numbers;
};

}  // namespace megaconv::test
