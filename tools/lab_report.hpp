// SPDX-License-Identifier: Apache-2.0
// What `megaconv lab compare` found, as a table and as records.
#pragma once

#include <string>
#include <vector>

#include "megaconv/simulation.hpp"
#include "tools/confidence.hpp"
#include "tools/records.hpp"

namespace megaconv::cli {

/// One policy for one layer on one back end.
struct LabResult {
  std::string layer, policy;
  RecordSite site;
  Lowering lowering;
  std::vector<double> times_us;  ///< one a turn
  Estimate time_us, against_first;
  double bound_us = 0;
  TraceAnalysis analysis;
  std::optional<Simulation> simulation;
};

std::string lab_table(const std::vector<LabResult>& results);
std::vector<Record> lab_records(const std::vector<LabResult>& results, std::uint64_t seed);

}  // namespace megaconv::cli
