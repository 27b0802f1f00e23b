// SPDX-License-Identifier: Apache-2.0
// What else a plan could have been: for describe().
#pragma once

#include <string>

#include "megaconv/plan.hpp"

namespace megaconv {

/// A line for every algorithm: "considered: direct, estimated 0.41 ms", with "taken" where it is
/// the plan's; "rejected: opencnn: stride 2x2, must be 1x1" where it cannot compute the problem
/// with these options. With an error budget, first the plan's bound and what was rejected for it.
/// Estimates rank plans of one problem; they are no times (cost_model.hpp).
std::string considered_text(const ConvProblem& problem, const PlanOptions& options,
                            const Target& target, Algorithm taken);

}  // namespace megaconv
