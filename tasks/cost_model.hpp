// SPDX-License-Identifier: Apache-2.0
// How long a plan takes, roughly and within a microsecond: what ranks candidates before any is
// measured.
#pragma once

#include "megaconv/tuning.hpp"
#include "tasks/launch.hpp"

namespace megaconv {

/// Milliseconds of one run, from the tiling and the policy alone. What matters is the order of the
/// candidates of one problem, not the number. Infinity when there is no such plan.
double estimate_ms(const LaunchChoice& launched, const Target& target);
/// The same of what the options choose.
double estimate_ms(const ConvProblem& problem, const PlanOptions& options, const Target& target);

}  // namespace megaconv
