// SPDX-License-Identifier: Apache-2.0
// Choosing within an error budget (TilingOptions::max_error).
#pragma once

#include <string>

#include "megaconv/tiling.hpp"

namespace megaconv {

/// Throws Error(invalid_argument) for a budget that is no number greater than 0, or a precision
/// beside it.
void check_error_budget(const TilingOptions& options);

/// make_tiling() with a budget: of what may be tried, as a rule the fastest first, the first that
/// is within it. Throws Error(unsupported) with the least error that is possible.
Tiling tiling_within_budget(const ConvProblem& problem, const TilingOptions& options,
                            const Target& target);

/// Throws Error(unsupported) when a tiling of the caller's own exceeds the budget, if there is one.
void require_within_budget(const Tiling& tiling, const TilingOptions& options);

/// What is wrong with a bound that exceeds the budget: "max_error = 1e-06: must be at
/// least 3.4e-06, the bound of winograd F(4x4, 3x3)". `error` is rounded up, so that what is said
/// is enough.
std::string over_budget_text(double max_error, double error, const std::string& name);

/// For describe(): the bound that the plan has, and a line for all that was rejected on the way to
/// it; "" without a budget.
std::string budget_text(const ConvProblem& problem, const TilingOptions& options,
                        const Target& target);

}  // namespace megaconv
