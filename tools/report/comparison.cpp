// SPDX-License-Identifier: Apache-2.0
#include "tools/report/comparison.hpp"

#include <spdlog/fmt/fmt.h>

namespace megaconv::cli {

Table comparison_table(const std::string& compared) {
  Table table;
  table.add_column(compared);
  table.add_column("median", "time, us");
  table.add_column("95% interval", "time, us");
  table.add_column("against first");
  return table;
}

std::vector<std::string> comparison_cells(const std::string& name, const Estimate& time_us,
                                          const Estimate& against_first) {
  return {name, fmt::format("{:.1f}", time_us.median),
          fmt::format("{:.1f} .. {:.1f}", time_us.low, time_us.high),
          fmt::format("{:.3f} ({:.3f} .. {:.3f})", against_first.median, against_first.low,
                      against_first.high)};
}

}  // namespace megaconv::cli
