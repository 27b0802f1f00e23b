// SPDX-License-Identifier: Apache-2.0
// What CudaLaunch::automatic stands for.
#pragma once

#include <cstdint>
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

/// Throws Error(unsupported) unless a launch on CUDA can run the cut: small tiles are one stage.
void check_launch(const Tiling& tiling, CudaLaunch launch);

/// V and M of more bytes than this are not for a workspace that nobody asked for.
inline constexpr std::uint64_t kMostWholeBytes = std::uint64_t{8} << 30;

/// The options with a launch for a network, and the reason. Throws like lower().
struct NetworkLaunch {
  PlanOptions options;
  std::string reason;
};
NetworkLaunch choose_launch(const Network& network, const PlanOptions& options,
                            const Target& target);

}  // namespace megaconv
