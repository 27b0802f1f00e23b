// SPDX-License-Identifier: Apache-2.0
// The HTML report of tuned problems: one file, no scripts, nothing from the network.
#pragma once

#include <string>
#include <vector>

#include "tools/tune/tune_export.hpp"

namespace megaconv::cli {

struct ReportedProblem {
  std::string name;
  KeyedMeasurements known;
  Configuration heuristic;  ///< what the library chooses by itself
};

std::string tune_report(const std::vector<ReportedProblem>& problems, std::size_t table_rows);

}  // namespace megaconv::cli
