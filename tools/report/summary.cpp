// SPDX-License-Identifier: Apache-2.0
#include "tools/report/summary.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "tasks/conv_algorithm.hpp"

namespace megaconv::cli {

std::string algorithm_text(const Tiling& tiling) { return algorithm_of(tiling).name(tiling); }

std::string property(const Plan& plan, const std::string& name) {
  std::istringstream lines(plan.describe());
  const std::string begin = name + ": ";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(begin)) return line.substr(begin.size());
  }
  return {};
}

std::vector<std::string> mapping_properties(const Lowering& lowering) {
  const MappingOptions& options = lowering.mapping.options;
  const auto number = [](const std::optional<std::uint32_t>& value) {
    return value ? std::to_string(*value) : std::string("-");
  };
  std::istringstream tiling(to_string(lowering.tiling()));
  std::vector<std::string> lines;
  for (std::string line; std::getline(tiling, line);) lines.push_back(line);
  lines.push_back("policy: " + lowering.mapping.policy);
  lines.push_back(fmt::format("parameters: DIG {}, DGO {}, M groups {}, seed {}",
                              number(options.dig), number(options.dgo), number(options.m_groups),
                              options.seed));
  return lines;
}

std::string count_text(std::uint64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

double share_of_bound(const ErrorReport& report, const ErrorBound& bound) {
  const auto share = [](double error, double most) { return error == 0 ? 0 : error / most; };
  return std::max(share(report.relative_l2, bound.relative_l2),
                  share(report.worst_element, bound.worst_element));
}

std::string error_text(const ErrorReport& report, const ErrorBound& bound) {
  return fmt::format(
      "relative L2 {:.1e} (bound {:.1e}), worst element {:.1f} u S (bound {:.0f}): {}",
      report.relative_l2, bound.relative_l2, report.worst_element, bound.worst_element,
      bound.covers(report) ? "ok" : "WRONG");
}

}  // namespace megaconv::cli
