// SPDX-License-Identifier: Apache-2.0
// Tables for people: columns as wide as they must be, numbers to the right, groups of columns under
// a common title.
//
//                       time, ms             error
//   layer          direct    mega   rel L2   bound
//   resnet_conv2    2.011   0.980  3.1e-07     12%
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace megaconv::cli {

class Table {
 public:
  /// A column; those that follow each other with the same `group` share it as a title. The first
  /// column of a table is aligned to the left, the others to the right. `least_width`: characters,
  /// for rows that come later.
  void add_column(std::string title, std::string group = {}, std::size_t least_width = 0);
  /// As many cells as there are columns.
  void add_row(std::vector<std::string> cells);
  /// Every line ends with a line break; no line has trailing spaces.
  std::string str() const;

  /// A table that is shown while it grows: its titles, and one line, as wide as the columns are
  /// without that line.
  std::string head() const;
  std::string line(const std::vector<std::string>& cells) const;

 private:
  struct Column {
    std::string title, group;
    std::size_t least_width;
  };
  std::vector<std::size_t> widths() const;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace megaconv::cli
