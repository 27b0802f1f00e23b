// SPDX-License-Identifier: Apache-2.0
// What an algorithm declares about its search space, beside its lowering.
#pragma once

#include <vector>

#include "megaconv/tuning.hpp"

namespace megaconv {

/// Grids of values worth a try on this problem and target, and what makes a point no candidate.
/// Every grid has axes algo, policy and workers; the constraints see points of all grids.
struct AlgorithmSpace {
  std::vector<Space::Grid> grids;
  std::vector<Space::Constraint> constraints;
};

/// `asked`: what the caller fixed, of which a space reads the filter mode, precision and
/// arithmetic.
AlgorithmSpace winograd_space(const ConvProblem& problem, const Target& target,
                              const TilingOptions& asked);
AlgorithmSpace implicit_gemm_space(const ConvProblem& problem, const Target& target,
                                   const TilingOptions& asked);

/// What stands for a policy on the axis of policies.
std::int64_t policy_value(const std::string& policy);

/// What the library chooses by itself for a problem, where `plan` leaves it to choice.
Configuration heuristic_configuration(const ConvProblem& problem, const PlanOptions& plan,
                                      const Target& target);

/// Leaves what the caller asked for. Throws Error(invalid_argument) when nothing has it.
void keep_asked(std::vector<Space::Grid>& grids, const SpaceOptions& options);

/// The values of `values` from 1 to `most`.
std::vector<std::int64_t> at_most(std::vector<std::int64_t> values, std::uint64_t most);
/// Adds a value to an axis that does not have it, in its place.
void insert(Axis& axis, std::int64_t value);
/// Workers worth a try: all and half of the CPU's; 1 to 4 thread blocks an SM.
Axis workers_axis(const Target& target);
/// Adds the grids of an algorithm that has tasks of one kind beside those of the filters, without
/// orders.
void add_orders_of_one_kind(AlgorithmSpace& space, const Space::Grid& tasks, const Axis& workers,
                            const Target& target);
/// Adds the launches worth a try with the policies of a grid, on CUDA.
void add_launches(Space::Grid& grid, const Target& target);
/// Why a point's launch does not go with its order, or with its workers.
Space::Constraint launch_fits_order(const Target& target);
/// A constraint on points of one algorithm: `parameter` may be at most `most(configuration)`, and
/// `what` says what that is.
Space::Constraint most(Algorithm algorithm, Parameter parameter, const char* what,
                       std::function<std::uint64_t(const Configuration&)> most);

}  // namespace megaconv
