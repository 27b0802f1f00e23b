// SPDX-License-Identifier: Apache-2.0
// What CudaLaunch::automatic stands for.
#pragma once

#include <string>

#include "megaconv/lowering.hpp"
#include "megaconv/plan.hpp"

namespace megaconv {

/// The reason of a launch that is not automatic.
inline constexpr const char* kAskedFor = "as asked for";

struct LaunchChoice {
  PlanOptions options;  ///< with a launch that is not automatic, and what that asks of the lowering
  std::string reason;   ///< "faster where tasks are short"
  Tiling tiling;        ///< what lower() cuts the problem into with these options
};

/// Chooses a launch where `options` leave it to choice, and cuts the problem for it: a staged one
/// has whole tensors and the policy staged. Throws like make_tiling.
LaunchChoice choose_launch(const ConvProblem& problem, const PlanOptions& options,
                           const Target& target);

}  // namespace megaconv
