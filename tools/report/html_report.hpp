// SPDX-License-Identifier: Apache-2.0
// One run as a page: task kinds over time, use of the machine, waits, footprint, a timeline. One
// file, which loads nothing.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "megaconv/machine.hpp"
#include "tools/report/trace_json.hpp"

namespace megaconv::cli {

/// `machine` says what full use is and how large the cache; `origin`, where the times come from:
/// "simulated on h200", and whether that is the simulator.
std::string html_report(const RecordedRun& run, const MachineModel& machine,
                        const std::string& origin, bool simulated);

/// One of several runs that a page shows on one time axis.
struct ComparedRun {
  std::string heading;  ///< "interleaved on sim: 812.4 us"
  RecordedRun run;
  double bound_us = 0;  ///< of the span, of any order
};

/// Timelines below each other, all as long as the longest, each with its bound. `groups`: what
/// shares an axis, with its heading.
std::string html_comparison(
    const std::vector<std::pair<std::string, std::vector<ComparedRun>>>& groups);

}  // namespace megaconv::cli
