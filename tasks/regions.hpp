// SPDX-License-Identifier: Apache-2.0
// Regions of activations: rows of all images, one image below the other, columns, and channels.
#pragma once

#include <cstdint>
#include <vector>

#include "megaconv/graph.hpp"
#include "megaconv/problem.hpp"

namespace megaconv {

/// A sliding window over the rows or columns of an image: of a filter, or of a pool.
struct WindowAxis {
  std::int64_t inputs = 1, outputs = 1;  ///< of one image
  std::int64_t extent = 1, stride = 1, pad = 0;

  /// What the outputs [begin, end) of one image read, within the image. Not empty.
  Interval inputs_of(const Interval& outputs_read) const;
  /// The same of outputs of several images, which follow each other.
  Interval inputs_of_images(const Interval& outputs_read) const;
};

WindowAxis rows_of(const ConvProblem& problem);
WindowAxis cols_of(const ConvProblem& problem);

/// All of x, or of y: rows n * h, columns, channels.
Region x_extent(const ConvProblem& problem);
Region y_extent(const ConvProblem& problem);

/// A grid of points whose lines, one below the other, stand for `line_rows` output rows, and whose
/// points for `point_cols` output columns: tiles of Winograd, or padded pixels. Of the lines of an
/// image the last ones may stand for fewer rows or none, as may the last points of a line.
struct PointGrid {
  std::uint64_t points = 1;  ///< of a line
  std::uint64_t lines = 1;   ///< of an image
  std::uint64_t line_rows = 1, point_cols = 1;
  std::uint64_t first_col = 0;       ///< output column of a line's first point
  std::uint64_t rows = 1, cols = 1;  ///< of an image's outputs; columns from the first on
  std::uint64_t images = 1;          ///< in all
};

/// Appends the output pixels of a run of points as boxes of rows and columns: at most the rest of a
/// line, whole lines, and the beginning of a line.
void append_boxes(const PointGrid& grid, const Interval& run, std::vector<Region>& boxes);

}  // namespace megaconv
