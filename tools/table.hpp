// SPDX-License-Identifier: Apache-2.0
// Tables for people: columns as wide as they must be, numbers to the right, groups of columns under
// a common title.
//
//                       time, ms             error
//   layer          direct    mega   rel L2   bound
//   resnet_conv2    2.011   0.980  3.1e-07     12%
#pragma once

#include <string>
#include <vector>

namespace megaconv::cli {

class Table {
 public:
  /// A column; those that follow each other with the same `group` share it as a title. The first
  /// column of a table is aligned to the left, the others to the right.
  void add_column(std::string title, std::string group = {});
  /// As many cells as there are columns.
  void add_row(std::vector<std::string> cells);
  /// Every line ends with a line break; no line has trailing spaces.
  std::string str() const;

 private:
  struct Column {
    std::string title, group;
  };
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace megaconv::cli
