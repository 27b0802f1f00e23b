// SPDX-License-Identifier: Apache-2.0
#include "tasks/regions.hpp"

#include <algorithm>

#include "tasks/tiling.hpp"

namespace megaconv {

Interval WindowAxis::inputs_of(const Interval& read) const {
  const auto first = static_cast<std::int64_t>(read.begin) * stride - pad;
  const auto last = (static_cast<std::int64_t>(read.end) - 1) * stride - pad + extent;
  const std::int64_t begin = std::clamp<std::int64_t>(first, 0, inputs - 1);
  return {u64(begin), u64(std::clamp<std::int64_t>(last, begin + 1, inputs))};
}

Interval WindowAxis::inputs_of_images(const Interval& read) const {
  const std::uint64_t per_image = u64(outputs), last = read.end - 1;
  const std::uint64_t first_image = read.begin / per_image, last_image = last / per_image;
  const std::uint64_t begin = read.begin % per_image, end = last % per_image + 1;
  const Interval of_first = inputs_of({begin, first_image == last_image ? end : per_image});
  const Interval of_last = inputs_of({first_image == last_image ? begin : 0, end});
  return {first_image * u64(inputs) + of_first.begin, last_image * u64(inputs) + of_last.end};
}

WindowAxis rows_of(const ConvProblem& a) {
  return {a.h, a.p(), a.filter_extent_h(), a.stride_h, a.pad_h};
}

WindowAxis cols_of(const ConvProblem& a) {
  return {a.w, a.q(), a.filter_extent_w(), a.stride_w, a.pad_w};
}

Region x_extent(const ConvProblem& a) {
  return {.rows = {0, u64(a.n * a.h)}, .cols = {0, u64(a.w)}, .channels = {0, u64(a.c)}};
}

Region y_extent(const ConvProblem& a) {
  return {.rows = {0, u64(a.n * a.p())}, .cols = {0, u64(a.q())}, .channels = {0, u64(a.k)}};
}

void append_boxes(const PointGrid& grid, const Interval& run, std::vector<Region>& boxes) {
  const auto row_of = [&](std::uint64_t line) {
    const std::uint64_t image = line / grid.lines, row = line % grid.lines * grid.line_rows;
    return std::min(image, grid.images) * grid.rows +
           (image < grid.images ? std::min(row, grid.rows) : 0);
  };
  const auto col_of = [&](std::uint64_t point) {
    return grid.first_col + std::min(point * grid.point_cols, grid.cols);
  };
  const auto add = [&](const Interval& lines, const Interval& points) {
    const Region box{.rows = {row_of(lines.begin), row_of(lines.end)},
                     .cols = {col_of(points.begin), col_of(points.end)}};
    if (box.size() > 0) boxes.push_back(box);
  };
  std::uint64_t line = run.begin / grid.points;
  const std::uint64_t begin = run.begin % grid.points;
  const std::uint64_t last_line = run.end / grid.points, end = run.end % grid.points;
  if (line == last_line) return add({line, line + 1}, {begin, end});
  if (begin > 0) {
    add({line, line + 1}, {begin, grid.points});
    ++line;
  }
  if (line < last_line) add({line, last_line}, {0, grid.points});
  if (end > 0) add({last_line, last_line + 1}, {0, end});
}

}  // namespace megaconv
