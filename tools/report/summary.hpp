// SPDX-License-Identifier: Apache-2.0
// Short texts about plans and errors that several verbs print.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megaconv/plan.hpp"
#include "tasks/reference.hpp"

namespace megaconv::cli {

/// "direct", "winograd F(4x4, 3x3), split f16"
std::string algorithm_text(const Tiling& tiling);

/// What follows "name: " in Plan::describe(); empty when no line has this name.
std::string property(const Plan& plan, const std::string& name);

/// Tiling, policy and parameters, one "name: value" a line.
std::vector<std::string> mapping_properties(const Lowering& lowering);

/// "1 thread", "2 threads"
std::string count_text(std::uint64_t count, const char* noun);

/// The greater of both errors relative to its bound; at most 1 when the result is right.
double share_of_bound(const ErrorReport& report, const ErrorBound& bound);

/// "relative L2 3.1e-07 (bound 2.4e-06), worst element 4.2 u S (bound 64): ok"
std::string error_text(const ErrorReport& report, const ErrorBound& bound);

}  // namespace megaconv::cli
