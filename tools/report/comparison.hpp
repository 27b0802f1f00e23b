// SPDX-License-Identifier: Apache-2.0
// Tables that compare times with the first of them.
#pragma once

#include <string>
#include <vector>

#include "tools/report/confidence.hpp"
#include "tools/report/table.hpp"

namespace megaconv::cli {

/// Its first four columns: what is compared, its median and interval in microseconds, and the ratio
/// to the first one.
Table comparison_table(const std::string& compared);

/// A row's first four cells.
std::vector<std::string> comparison_cells(const std::string& name, const Estimate& time_us,
                                          const Estimate& against_first);

}  // namespace megaconv::cli
