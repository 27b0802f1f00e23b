// SPDX-License-Identifier: Apache-2.0
// The room of rearrangements: how they are cut into tasks, and what these read and write.
#pragma once

#include <cstdint>
#include <string>

#include "megaconv/graph.hpp"
#include "megaconv/rearrangement.hpp"

namespace megaconv {

/// Tasks enough for `workers`, none of them tiny. Throws as validate() does, and
/// Error(invalid_argument) without workers.
RearrangementCut cut_rearrangement(const RearrangementProblem& problem, std::uint32_t workers);

/// Checks rows_per_group and counts the groups. Throws as validate() does, Error(invalid_argument)
/// for a field out of range, Error(unsupported) past 2^31 tasks.
void derive_counts(RearrangementCut& cut);

/// The channel of x that is channel c of y.
std::int64_t source_channel(const RearrangementProblem& problem, std::int64_t c);
/// The row of x that is row p of y; -1 or less, or h or more where y has padding.
std::int64_t source_row(const RearrangementProblem& problem, std::int64_t p);
std::int64_t source_col(const RearrangementProblem& problem, std::int64_t q);

/// Appends a node that reads buffer x. Returns the id of its buffer y. Throws as derive_counts()
/// and add_stage() do, and Error(invalid_argument) naming node and buffer where x does not fit.
BufferId add_rearrangement(TaskGraph& graph, const std::string& name, const RearrangementCut& cut,
                           BufferId x);

}  // namespace megaconv
