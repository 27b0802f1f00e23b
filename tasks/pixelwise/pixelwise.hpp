// SPDX-License-Identifier: Apache-2.0
// The room of pixelwise operations: how they are cut into tasks, and what these read and write.
#pragma once

#include <cstdint>
#include <string>

#include "megaconv/graph.hpp"
#include "megaconv/pixelwise.hpp"

namespace megaconv {

/// Tasks enough for `workers`, none of them tiny. Throws as validate() does, and
/// Error(invalid_argument) without workers.
PixelwiseCut cut_pixelwise(const PixelwiseProblem& problem, std::uint32_t workers);

/// Checks rows_per_group and counts the groups. Throws as validate() does, Error(invalid_argument)
/// for a field out of range, Error(unsupported) past 2^31 tasks.
void derive_counts(PixelwiseCut& cut);

/// Roundings of FP32, each of 2^-24 |y|, that tasks of any back end make at most.
double roundings_of(const PixelwiseProblem& problem);

/// Appends a node that reads buffer x and, to multiply, b. Returns the id of its buffer y. Throws
/// as derive_counts() and add_stage() do, and Error(invalid_argument) naming node and buffer where
/// a buffer does not fit.
BufferId add_pixelwise(TaskGraph& graph, const std::string& name, const PixelwiseCut& cut,
                       BufferId x, BufferId b);

}  // namespace megaconv
