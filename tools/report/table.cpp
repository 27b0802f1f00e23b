// SPDX-License-Identifier: Apache-2.0
#include "tools/report/table.hpp"

#include <algorithm>
#include <stdexcept>

namespace megaconv::cli {
namespace {

constexpr std::size_t kGap = 2;

/// Characters, not bytes: continuation bytes of UTF-8 take no place.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char ch) {
    return (static_cast<unsigned char>(ch) & 0xc0) != 0x80;
  }));
}

std::string padding(const std::string& text, std::size_t wanted) {
  return std::string(wanted - std::min(wanted, width(text)), ' ');
}

void end_line(std::string& text) {
  text.erase(text.find_last_not_of(' ') + 1);
  text += '\n';
}

}  // namespace

void Table::add_column(std::string title, std::string group, std::size_t least_width) {
  columns_.push_back({std::move(title), std::move(group), least_width});
}

void Table::add_row(std::vector<std::string> cells) {
  if (cells.size() != columns_.size()) throw std::logic_error("a table row of the wrong length");
  rows_.push_back(std::move(cells));
}

// The last column of a group gets the room that the group's title wants.
std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t widest = std::max(width(columns_[i].title), columns_[i].least_width);
    for (const auto& row : rows_) widest = std::max(widest, width(row[i]));
    widths.push_back(widest);
  }
  for (std::size_t begin = 0, end; begin < columns_.size(); begin = end) {
    std::size_t span = 0;
    for (end = begin; end < columns_.size() && columns_[end].group == columns_[begin].group;
         ++end) {
      span += widths[end] + (end == begin ? 0 : kGap);
    }
    const std::size_t wanted = width(columns_[begin].group);
    if (wanted > span) widths[end - 1] += wanted - span;
  }
  return widths;
}

// Titles of groups stand to the right, over the last column of their group.
std::string Table::head() const {
  const std::vector<std::size_t> all = widths();
  std::string titles;
  bool any_group = false;
  for (std::size_t begin = 0, end; begin < columns_.size(); begin = end) {
    std::size_t span = 0;
    for (end = begin; end < columns_.size() && columns_[end].group == columns_[begin].group;
         ++end) {
      span += all[end] + (end == begin ? 0 : kGap);
    }
    const std::string& group = columns_[begin].group;
    any_group = any_group || !group.empty();
    if (begin != 0) titles.append(kGap, ' ');
    titles += padding(group, span) + group;
  }
  end_line(titles);
  std::vector<std::string> names;
  for (const Column& column : columns_) names.push_back(column.title);
  return (any_group ? titles : std::string()) + line(names);
}

std::string Table::line(const std::vector<std::string>& cells) const {
  const std::vector<std::size_t> all = widths();
  std::string text;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::string blank = padding(cells[i], all[i]);
    if (i != 0) text.append(kGap, ' ');
    text += i == 0 ? cells[i] + blank : blank + cells[i];
  }
  end_line(text);
  return text;
}

std::string Table::str() const {
  std::string text = head();
  for (const auto& row : rows_) text += line(row);
  return text;
}

}  // namespace megaconv::cli
