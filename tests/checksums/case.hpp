// SPDX-License-Identifier: Apache-2.0
// One line of a list of checksums: a problem, and all that decides how it is computed.
//
// Nothing is left to choice: a heuristic that changes its mind must not change a line. So a
// configuration names the algorithm, the sizes of all tasks that a configuration can name, the
// order and the workers.
#pragma once

#include <cstdint>
#include <string>

#include "megaconv/plan.hpp"

namespace megaconv::checksums {

struct Case {
  std::string problem;        ///< "n2c17h9w12k33+nhwc"
  std::string configuration;  ///< "algo=winograd,tile=4,group-tiles=28,..."
  // What a configuration does not say.
  bool prepared = false;                   ///< filters ahead of the run, not in it
  std::uint32_t v_slots = 0, m_slots = 0;  ///< window; 0: as the configuration says
  std::uint64_t policy_seed = 0;           ///< of the policy random_topological
  bool residual_in_y = false;              ///< in the same memory
  // The data.
  std::uint64_t seed = 0;
  int x_exponent = 0, w_exponent = 0;  ///< powers of two on x and residual, and on w
};

/// "n2c17h9w12k33+nhwc algo=winograd,...;prepared;slots=2x3": what a line begins with.
std::string to_string(const Case& item);

/// What to ask of Plan::create. Throws Error(invalid_argument) for a configuration that is wrong.
PlanOptions plan_options(const Case& item, Backend backend);

/// The index-th case of a seed, on the CPU: direct, Winograd and fused Winograd. It depends on
/// nothing else, neither on the machine nor on how many cases there are.
Case cpu_case(std::uint64_t seed, std::uint64_t index);

/// What a program that emulates CUDA's tasks was compiled for.
enum class EmulatedCode {
  sm75,  ///< Winograd of multiply-adds, direct, openCNN
  sm80,  ///< Winograd on a warp's tensor cores
  sm90,  ///< Winograd, also on a warpgroup's tensor cores; implicit GEMM that loads x
};
const char* to_string(EmulatedCode code);

/// The same of CUDA's tasks that run without a GPU. Tensors are f32: others are not emulated.
Case emulated_case(EmulatedCode code, std::uint64_t seed, std::uint64_t index);

}  // namespace megaconv::checksums
