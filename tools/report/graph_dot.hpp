// SPDX-License-Identifier: Apache-2.0
// A small task graph for Graphviz.
#pragma once

#include <string>

#include "megaconv/lowering.hpp"

namespace megaconv::cli {

/// Tasks as boxes with their positions, counters as dots between those that signal them and those
/// that wait; dashed where the signal frees a slot. Throws Error(unsupported) past 400 tasks.
std::string graph_dot(const Lowering& lowering);

}  // namespace megaconv::cli
