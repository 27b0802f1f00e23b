// SPDX-License-Identifier: Apache-2.0
// The charts of the tuning report as inline SVG. Colours come from the page's style (CSS classes).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace megaconv::cli {

/// Dots of all values and a line of the best so far, over their number.
struct ProgressChart {
  std::string x_title, y_title;
  std::vector<double> values;  ///< greater is better; NaN: nothing to show at this number
  double reference = 0;        ///< a horizontal line; 0: none
  std::string reference_title;
};
std::string svg(const ProgressChart& chart);

/// One column a value of a parameter: where the best, the middle and the worst lie, from 0 to 1.
struct ValueChart {
  struct Column {
    std::string label;
    double best = 0, median = 0, worst = 0;
    std::size_t count = 0;
  };
  std::string title;
  std::vector<Column> columns;
};
std::string svg(const ValueChart& chart);

/// Cells from 0 to 1, darker is better; an empty one was not measured.
struct HeatMap {
  std::string x_title, y_title;
  std::vector<std::string> x_labels, y_labels;
  std::vector<std::optional<double>> cells;  ///< [y][x]
};
std::string svg(const HeatMap& map);

}  // namespace megaconv::cli
