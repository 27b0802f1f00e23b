// SPDX-License-Identifier: Apache-2.0
#include "tools/table.hpp"

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

void Table::add_column(std::string title, std::string group) {
  columns_.push_back({std::move(title), std::move(group)});
}

void Table::add_row(std::vector<std::string> cells) {
  if (cells.size() != columns_.size()) throw std::logic_error("a table row of the wrong length");
  rows_.push_back(std::move(cells));
}

std::string Table::str() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t widest = width(columns_[i].title);
    for (const auto& row : rows_) widest = std::max(widest, width(row[i]));
    widths.push_back(widest);
  }

  // Titles of groups stand to the right, over the last column of their group.
  std::string titles;
  bool any_group = false;
  std::size_t begin = 0;
  while (begin < columns_.size()) {
    std::size_t end = begin, span = 0;
    while (end < columns_.size() && columns_[end].group == columns_[begin].group) ++end;
    for (std::size_t i = begin; i < end; ++i) span += widths[i] + (i == begin ? 0 : kGap);
    const std::string& group = columns_[begin].group;
    any_group = any_group || !group.empty();
    if (width(group) > span) {  // the last column gets the room that the title wants
      widths[end - 1] += width(group) - span;
      span = width(group);
    }
    if (begin != 0) titles.append(kGap, ' ');
    titles += padding(group, span);
    titles += group;
    begin = end;
  }

  std::string text;
  if (any_group) {
    text += titles;
    end_line(text);
  }
  const auto put_row = [&](const auto& cell) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string& content = cell(i);
      const std::string blank = padding(content, widths[i]);
      if (i != 0) text.append(kGap, ' ');
      text += i == 0 ? content : blank;
      text += i == 0 ? blank : content;
    }
    end_line(text);
  };
  put_row([&](std::size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_)
    put_row([&](std::size_t i) -> const std::string& { return row[i]; });
  return text;
}

}  // namespace megaconv::cli
