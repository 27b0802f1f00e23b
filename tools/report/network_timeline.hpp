// SPDX-License-Identifier: Apache-2.0
// A run of a network, operator by operator: a picture, and what it waited for.
#pragma once

#include <string>

#include "tools/report/trace_json.hpp"

namespace megaconv::cli {

/// An SVG file: a row for every node, where its tasks ran, darker the more workers were at it; and
/// the longest chain of tasks through the rows.
std::string network_timeline(const RecordedRun& run, const std::string& title);

/// Tables: the longest chain of tasks by node, and the waits between nodes.
std::string network_waits(const RecordedRun& run);

}  // namespace megaconv::cli
