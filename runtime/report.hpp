// SPDX-License-Identifier: Apache-2.0
// The text of Status::timeout, the same for every executor.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "megaconv/graph.hpp"

namespace megaconv {

/// "position 7: G[0,1] waited 200 ms on counter 0: seen 2, expected 3; missing: I[0,2] (position 9,
/// not started)". `state` says of a position why its task has not signalled, null when it has.
/// `tasks`: those of the graph, by position.
std::string timeout_report(const TaskGraph& graph, std::span<const Task> tasks,
                           std::uint32_t position, std::uint32_t seen,
                           std::chrono::milliseconds budget,
                           const std::function<const char*(std::uint32_t position)>& state);

}  // namespace megaconv
