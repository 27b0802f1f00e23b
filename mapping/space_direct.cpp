// SPDX-License-Identifier: Apache-2.0
// The search spaces of the algorithms whose tasks are all of one kind.
#include "mapping/space.hpp"
#include "mapping/tiling.hpp"

namespace megaconv {
namespace {

// Tasks that wait for nothing but the filters have no use for distances: the order only decides
// which tasks share filters and which share pixels.
void add_orders(AlgorithmSpace& space, const Space::Grid& tasks, const Target& target) {
  Space::Grid interleaved = tasks, others = tasks;
  interleaved.push_back({Parameter::policy, {static_cast<std::int64_t>(Policy::interleaved)}});
  interleaved.push_back({Parameter::m_groups, {1, 2, 4, 8}});
  interleaved.push_back(workers_axis(target));
  add_launches(interleaved, target);
  others.push_back({Parameter::policy, {static_cast<std::int64_t>(Policy::staged)}});
  others.push_back(workers_axis(target));
  add_launches(others, target);
  space.grids = {std::move(interleaved), std::move(others)};
  space.constraints.push_back(launch_fits_order());
}

}  // namespace

// On a GPU the shapes of tasks are compiled: only the heuristic's are there, which make_space adds.
AlgorithmSpace direct_space(const ConvProblem& problem, const Target& target) {
  AlgorithmSpace space;
  if (problem.layout == Layout::chwn) return space;
  const bool cuda = target.backend == Backend::cuda;
  const std::uint64_t p = u64(problem.p()), q = u64(problem.q());
  Tiling tiling;
  tiling.problem = problem;
  Axis filters{Parameter::gemm_filters, {}}, rows{Parameter::rows, {}}, cols{Parameter::cols, {}};
  if (!cuda) {
    filters.values = at_most({1, 2, 4, 8}, tiling.filter_blocks());
    rows.values = at_most({1, 2, 4, 7, 14, 28}, p);
    cols.values = at_most({14, 28, 56, 112}, q);
    if (cols.values.empty()) cols.values = {problem.q()};
  }
  add_orders(
      space,
      {{Parameter::algo, {static_cast<std::int64_t>(Algorithm::direct)}}, filters, rows, cols},
      target);
  return space;
}

// A task's V and M stay in its worker's cache: the fewer tiles the better they fit, and the more
// often U is read. 7 is half a register tile.
AlgorithmSpace fused_winograd_space(const ConvProblem& problem, const Target& target) {
  AlgorithmSpace space;
  const bool possible = winograd_obstacle(Algorithm::fused_winograd, problem).empty();
  if (target.backend == Backend::cuda || !possible || problem.layout == Layout::chwn) return space;
  add_orders(space,
             {{Parameter::algo, {static_cast<std::int64_t>(Algorithm::fused_winograd)}},
              {Parameter::tile, {2, 4, 6}},
              {Parameter::points, {static_cast<std::int64_t>(Points::low_error)}},
              {Parameter::group_tiles, {7, 14, 28, 42, 56, 84, 112}}},
             target);
  space.constraints.push_back(
      most(Algorithm::fused_winograd, Parameter::group_tiles, "the tiles of the problem",
           [problem](const Configuration& c) {
             const std::uint64_t m = u64(c.get(Parameter::tile).value_or(4));
             return u64(problem.n) * ceil_div(u64(problem.p()), m) * ceil_div(u64(problem.q()), m);
           }));
  return space;
}

// Stripes and groups are cut for the filters of a task.
AlgorithmSpace implicit_gemm_space(const ConvProblem& problem, const Target& target) {
  AlgorithmSpace space;
  const bool possible = target.backend == Backend::cuda && target.split_f16 &&
                        problem.layout != Layout::chwn && implicit_gemm_obstacle(problem).empty();
  if (!possible) return space;
  Tiling tiling;
  tiling.problem = problem;
  add_orders(space,
             {{Parameter::algo, {static_cast<std::int64_t>(Algorithm::implicit_gemm)}},
              {Parameter::gemm_filters, at_most({1, 2, 4, 8}, tiling.filter_blocks())}},
             target);
  return space;
}

AlgorithmSpace opencnn_space(const ConvProblem& problem, const Target& target) {
  AlgorithmSpace space;
  if (target.backend != Backend::cuda || !opencnn_obstacle(problem).empty()) return space;
  Space::Grid tasks;
  tasks.push_back({Parameter::algo, {static_cast<std::int64_t>(Algorithm::opencnn)}});
  tasks.push_back({Parameter::output_layout,
                   {static_cast<std::int64_t>(OutputLayout::baseline),
                    static_cast<std::int64_t>(OutputLayout::optSTS64),
                    static_cast<std::int64_t>(OutputLayout::optSTS64_compact),
                    static_cast<std::int64_t>(OutputLayout::optLDS64)}});
  add_orders(space, tasks, target);
  return space;
}

}  // namespace megaconv
