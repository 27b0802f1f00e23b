// SPDX-License-Identifier: Apache-2.0
#include "tools/report/mapping_diff.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "tools/report/summary.hpp"

namespace megaconv::cli {
namespace {

/// Lines of `lines` that `others` lacks.
std::string missing_lines(const std::vector<std::string>& lines,
                          const std::vector<std::string>& others, char sign) {
  std::string text;
  for (const std::string& line : lines) {
    if (std::find(others.begin(), others.end(), line) == others.end()) {
      text += fmt::format("{} {}\n", sign, line);
    }
  }
  return text;
}

const Task& task_at(const Lowering& lowering, std::size_t position) {
  return lowering.graph.tasks[lowering.mapping.order[position]];
}

bool same_task(const Task& a, const Task& b) {
  return a.kind == b.kind && a.group == b.group && a.block == b.block;
}

}  // namespace

std::string mapping_diff(const Lowering& first, const Lowering& second) {
  const std::vector<std::string> first_lines = mapping_properties(first);
  const std::vector<std::string> second_lines = mapping_properties(second);
  std::string text =
      missing_lines(first_lines, second_lines, '-') + missing_lines(second_lines, first_lines, '+');

  const std::size_t first_size = first.mapping.order.size();
  const std::size_t second_size = second.mapping.order.size();
  if (first_size != second_size) {
    text += fmt::format("order: {} against {}\n", count_text(first_size, "task"), second_size);
  }
  std::size_t moved = 0;
  std::optional<std::size_t> position;
  for (std::size_t i = 0; i < std::min(first_size, second_size); ++i) {
    if (same_task(task_at(first, i), task_at(second, i))) continue;
    if (!position) position = i;
    ++moved;
  }
  if (position) {
    text += fmt::format("order: position {} holds {} against {}; {} of {} positions differ\n",
                        *position, name(first.graph, task_at(first, *position)),
                        name(second.graph, task_at(second, *position)), moved,
                        std::min(first_size, second_size));
  }
  return text;
}

}  // namespace megaconv::cli
