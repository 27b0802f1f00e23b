// SPDX-License-Identifier: Apache-2.0
// One run as a page: task kinds over time, use of the machine, waits, footprint, a timeline. One
// file, which loads nothing.
#pragma once

#include <string>

#include "megaconv/machine.hpp"
#include "tools/trace_json.hpp"

namespace megaconv::cli {

/// `machine` says what full use is and how large the cache; `origin`, where the times come from:
/// "simulated on h200".
std::string html_report(const RecordedRun& run, const MachineModel& machine,
                        const std::string& origin);

}  // namespace megaconv::cli
