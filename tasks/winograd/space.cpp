// SPDX-License-Identifier: Apache-2.0
// The search space of Winograd: output tile, task group, task sizes, window, and Algorithm 1's
// parameters. Orders without DIG, DGO and M groups have a grid of their own, so that no two points
// are the same plan for a parameter that is not read.
#include "tasks/space.hpp"

#include "tasks/winograd/winograd.hpp"

namespace megaconv {
namespace {

WinogradTiles counted(const ConvProblem& problem, const Configuration& configuration) {
  WinogradTiles tiles;
  tiles.m = static_cast<std::uint32_t>(configuration.get(Parameter::tile).value_or(4));
  count_tiles(problem, tiles);
  return tiles;
}

Arithmetic arithmetic_of(const Configuration& configuration) {
  constexpr auto kFma = static_cast<std::int64_t>(Arithmetic::fma);
  return static_cast<Arithmetic>(configuration.get(Parameter::arithmetic).value_or(kFma));
}

// What the target runs, the tensors allow at some m, and the precision permits.
Axis arithmetic_axis(const ConvProblem& problem, const Target& target, Precision precision) {
  Axis axis{Parameter::arithmetic, {}};
  const auto add = [&](Arithmetic arithmetic) {
    const bool has_tasks = winograd_arithmetic_need(4, problem.dtype, arithmetic).empty();
    if (has_tasks) axis.values.push_back(static_cast<std::int64_t>(arithmetic));
  };
  // CUDA's multiply-adds are for floats alone.
  if (target.backend != Backend::cuda || problem.dtype == DataType::f32) add(Arithmetic::fma);
  if (target.split_f16) {
    add(Arithmetic::split_f16);
    if (permits_f16(problem.dtype, precision)) add(Arithmetic::f16);
  }
  return axis;
}

// Task sizes: the register tile of the CPU's GEMM is 14 tiles; a GEMM task of the GPU is at most 64
// tiles x 128 filters or 128 x 64 (choose.cpp, tiling_cuda.cpp).
Space::Grid task_axes(const ConvProblem& problem, const Target& target, Precision precision) {
  const bool cuda = target.backend == Backend::cuda;
  const Tiling tiling{.problem = problem};
  const std::int64_t channels = tiling.channel_blocks(), filters = tiling.filter_blocks();
  Space::Grid grid;
  grid.push_back({Parameter::algo, {static_cast<std::int64_t>(Algorithm::winograd)}});
  grid.push_back({Parameter::tile, cuda ? std::vector<std::int64_t>{2, 4}
                                        : std::vector<std::int64_t>{2, 4, kWideTile, 6}});
  grid.push_back({Parameter::points, {static_cast<std::int64_t>(Points::low_error)}});
  grid.push_back(arithmetic_axis(problem, target, precision));
  grid.push_back(
      {Parameter::group_tiles, cuda ? std::vector<std::int64_t>{32, 64, 128}
                                    : std::vector<std::int64_t>{14, 28, 42, 56, 84, 112}});
  grid.push_back({Parameter::input_channels, at_most({1, 2, 4, 8}, u64(channels))});
  grid.push_back({Parameter::gemm_filters, at_most(cuda ? std::vector<std::int64_t>{4, 8}
                                                        : std::vector<std::int64_t>{2, 4, 8, 16},
                                                   u64(filters))});
  if (grid.back().values.empty()) grid.back().values = {filters};
  grid.push_back({Parameter::gemm_positions, cuda ? std::vector<std::int64_t>{1, 2, 4, 9, 18, 36}
                                                  : std::vector<std::int64_t>{2, 4, 9, 16, 36}});
  grid.push_back({Parameter::output_filters, at_most({1, 2, 4, 8}, u64(filters))});
  grid.push_back({Parameter::transform_tiles, cuda ? std::vector<std::int64_t>{32, 64, 128}
                                                   : std::vector<std::int64_t>{14, 28, 56, 112}});
  grid.push_back({Parameter::window, {0, 1}});
  return grid;
}

// Distances from none to several times the workers: below that a consumer may find its producers
// still at work, above it V has left the caches.
std::vector<std::int64_t> distances(const Target& target) {
  const std::int64_t workers = target.workers;
  return {1, workers, 2 * workers, 4 * workers, 8 * workers};
}

Space::Constraint asked_for(Parameter parameter, std::int64_t value, const char* reason) {
  return {to_string(parameter), [=](const Configuration& configuration) {
            return configuration.get(parameter) == value ? std::string(reason) : std::string();
          }};
}

}  // namespace

AlgorithmSpace winograd_space(const ConvProblem& problem, const Target& target,
                              const TilingOptions& asked) {
  AlgorithmSpace space;
  if (!winograd_obstacle(Algorithm::winograd, problem).empty() || problem.layout == Layout::chwn)
    return space;
  Space::Grid interleaved = task_axes(problem, target, asked.precision), others = interleaved;
  interleaved.push_back({Parameter::policy, {policy_value("interleaved")}});
  // Without filter transforms it is the same order, and few workers gain nothing from it.
  if (asked.filters == FilterMode::every_run && target.backend == Backend::cuda) {
    interleaved.back().values.push_back(policy_value("blended"));
  }
  interleaved.push_back({Parameter::dig, distances(target)});
  interleaved.push_back({Parameter::dgo, distances(target)});
  interleaved.push_back({Parameter::m_groups, {1, 2, 4, 8}});
  others.push_back(
      {Parameter::policy,
       {policy_value("staged"), policy_value("depth_first"), policy_value("critical_path")}});
  for (Space::Grid* grid : {&interleaved, &others}) {
    grid->push_back(workers_axis(target));
    add_launches(*grid, target);
    space.grids.push_back(std::move(*grid));
  }

  const auto tiles = [problem](const Configuration& c) { return counted(problem, c).num_tiles; };
  space.constraints.push_back(
      asked_for(Parameter::tile, 6, "6, has four times the error of 4: must be asked for by name"));
  space.constraints.push_back(asked_for(Parameter::points,
                                        static_cast<std::int64_t>(Points::integer),
                                        "integer, has twice the error of low-error: must be asked "
                                        "for by name"));
  space.constraints.push_back(
      most(Algorithm::winograd, Parameter::group_tiles, "the tiles of the problem", tiles));
  // What is more than a group's tiles means the whole group; one such value is enough.
  const std::int64_t least = target.backend == Backend::cuda ? 32 : 14;
  space.constraints.push_back(
      {"transform-tiles", [tiles, least](const Configuration& c) {
         const std::int64_t part = c.get(Parameter::transform_tiles).value_or(0);
         const std::uint64_t group =
             std::min(u64(c.get(Parameter::group_tiles).value_or(1)), tiles(c));
         return part <= least || u64(part) < 2 * group
                    ? std::string()
                    : std::to_string(part) + ", must be less than twice the " +
                          std::to_string(group) + " tiles of a group";
       }});
  space.constraints.push_back(launch_fits_order(target));
  space.constraints.push_back(most(Algorithm::winograd, Parameter::gemm_filters,
                                   "the lane blocks of filters", [problem](const Configuration&) {
                                     return std::uint64_t{
                                         Tiling{.problem = problem}.filter_blocks()};
                                   }));
  space.constraints.push_back(most(Algorithm::winograd, Parameter::gemm_positions, "alpha^2",
                                   [problem](const Configuration& c) -> std::uint64_t {
                                     return counted(problem, c).num_positions();
                                   }));
  space.constraints.push_back(
      {"arithmetic", [problem](const Configuration& c) {
         const auto arithmetic = c.get(Parameter::arithmetic);
         const bool ours = c.get(Parameter::algo) == static_cast<std::int64_t>(Algorithm::winograd);
         if (!arithmetic || !ours) return std::string();
         const std::int64_t m = c.get(Parameter::tile).value_or(4);
         const std::string need = winograd_arithmetic_need(
             static_cast<std::uint32_t>(m), problem.dtype, static_cast<Arithmetic>(*arithmetic));
         return need.empty() ? need
                             : value_text(Parameter::arithmetic, *arithmetic) + " with tile " +
                                   value_text(Parameter::tile, m) + ", must be " + need;
       }});
  if (target.backend == Backend::cuda) {
    space.constraints.push_back(
        {"transform-tiles", [](const Configuration& c) {
           const std::int64_t part = c.get(Parameter::transform_tiles).value_or(0);
           const std::uint32_t run = tiles_of_v_run(arithmetic_of(c));
           return part % run == 0 || part >= c.get(Parameter::group_tiles).value_or(1)
                      ? std::string()
                      : std::to_string(part) + ", must be a multiple of " + std::to_string(run) +
                            " or the whole group";
         }});
    space.constraints.push_back(
        {"gemm-filters", [](const Configuration& c) {
           const std::int64_t group = c.get(Parameter::group_tiles).value_or(1);
           const std::int64_t filters = c.get(Parameter::gemm_filters).value_or(1);
           const std::int64_t wide_tiles = arithmetic_of(c) != Arithmetic::fma ? 128 : 64;
           if ((group <= wide_tiles && filters <= 8) || (group <= 128 && filters <= 4)) {
             return std::string();
           }
           return std::to_string(group) + " tiles x " + std::to_string(filters) +
                  " blocks, must be at most " + std::to_string(wide_tiles) + " x 8 or 128 x 4";
         }});
  }
  space.constraints.push_back(most(Algorithm::winograd, Parameter::m_groups, "the task groups",
                                   [tiles](const Configuration& c) -> std::uint64_t {
                                     const std::int64_t t =
                                         c.get(Parameter::group_tiles).value_or(1);
                                     return ceil_div(tiles(c), u64(t));
                                   }));
  space.constraints.push_back(
      {"window", [](const Configuration& c) {
         const bool staged = c.get(Parameter::policy) == policy_value("staged");
         return staged && c.get(Parameter::window) == 0
                    ? std::string("auto, must be whole: a staged order needs all of V and M")
                    : std::string();
       }});
  return space;
}

}  // namespace megaconv
