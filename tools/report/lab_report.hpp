// SPDX-License-Identifier: Apache-2.0
// What `megaconv lab compare` found, as a table and as records.
#pragma once

#include <string>
#include <vector>

#include "megaconv/simulation.hpp"
#include "tools/report/confidence.hpp"
#include "tools/report/records.hpp"
#include "tools/report/trace_json.hpp"

namespace megaconv::cli {

/// One policy for one layer on one back end.
struct LabResult {
  std::string layer, policy;
  RecordSite site;
  Lowering lowering;
  std::vector<double> times_us;  ///< one a turn
  Estimate time_us, against_first;
  double bound_us = 0;  ///< of the machine model, of the time; 0: none
  TraceAnalysis analysis;
  TaskTimes times;            ///< of its trace
  double order_bound_us = 0;  ///< of the span, by the least task times among the policies
  std::optional<Simulation> simulation;
  std::optional<RecordedRun> run;  ///< kept for a page
};

/// Fills in order_bound_us of the results of one layer on one back end. The least time that a task
/// takes in any of the orders counts: caches serve some of them better.
void bound_orders(std::vector<LabResult>& results);

/// The timelines of policies side by side; every result has its run.
std::string lab_page(std::vector<LabResult> results);

std::string lab_table(const std::vector<LabResult>& results);
std::vector<Record> lab_records(const std::vector<LabResult>& results, std::uint64_t seed);

}  // namespace megaconv::cli
