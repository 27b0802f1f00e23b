// SPDX-License-Identifier: Apache-2.0
#include "tools/report/map_picture.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

namespace megaconv::cli {
namespace {

constexpr std::string_view kShades = " .:-=+*#%@";
constexpr std::string_view kMargin = "  F ";  // what stands in front of the picture
constexpr std::array<const char*, kNumTaskKinds> kEscapeCodes = {"\033[35m", "\033[36m", "\033[33m",
                                                                 "\033[32m", "\033[33m", "\033[31m",
                                                                 "\033[37m"};  // F I G O D P E

char shade(double share) {
  // Rounded up: a single task among thousands is still seen.
  const auto level = static_cast<std::size_t>(std::ceil(share * (kShades.size() - 1) - 1e-9));
  return kShades[std::min(level, kShades.size() - 1)];
}

}  // namespace

std::string mapping_picture(const Lowering& lowering, int width, bool color) {
  const std::vector<std::uint32_t>& order = lowering.mapping.order;
  const std::size_t columns =
      std::min(order.size(), static_cast<std::size_t>(width) - kMargin.size());
  if (columns == 0) return {};

  std::vector<std::array<std::size_t, kNumTaskKinds>> counts(columns);
  std::vector<std::size_t> sizes(columns);
  std::array<std::size_t, kNumTaskKinds> totals = {};
  for (std::size_t position = 0; position < order.size(); ++position) {
    const auto kind = static_cast<std::size_t>(lowering.graph.tasks[order[position]].kind);
    const std::size_t column = position * columns / order.size();
    ++counts[column][kind];
    ++sizes[column];
    ++totals[kind];
  }

  std::string text;
  for (std::uint32_t kind = 0; kind < kNumTaskKinds; ++kind) {
    if (totals[kind] == 0) continue;
    std::string row;
    for (std::size_t column = 0; column < columns; ++column) {
      row += shade(static_cast<double>(counts[column][kind]) / static_cast<double>(sizes[column]));
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += fmt::format("  {} {}{}{}\n", letter(static_cast<TaskKind>(kind)),
                        color ? kEscapeCodes[kind] : "", row, color ? "\033[0m" : "");
  }
  const std::string last = std::to_string(order.size() - 1);
  const std::size_t gap = columns > last.size() + 1 ? columns - 1 - last.size() : 1;
  return text + fmt::format("    0{}{}\n", std::string(gap, ' '), last);
}

}  // namespace megaconv::cli
