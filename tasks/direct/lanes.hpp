// SPDX-License-Identifier: Apache-2.0
// What the lanes of direct tasks on a CPU are: which of their bodies computes a problem, and so how
// it is cut best.
#pragma once

#include <cstdint>

#include "megaconv/problem.hpp"

namespace megaconv {

/// Whether they are columns of the output (tasks/direct/cpu/columns.inl).
bool lanes_are_columns(const ConvProblem& problem);

/// Whether they are filters, and x is read where it lies (tasks/direct/cpu/in_place.inl).
bool reads_x_in_place(const ConvProblem& problem);

/// Copies of input that a depthwise task has at a time, where they are: with y, in a first-level
/// cache.
inline constexpr std::uint64_t kDepthwiseBytes = std::uint64_t{24} << 10;

}  // namespace megaconv
