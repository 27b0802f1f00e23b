// SPDX-License-Identifier: Apache-2.0
// The search space of implicit GEMM.
#include "tasks/space.hpp"

#include "tasks/conv_algorithm.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"

namespace megaconv {
namespace {

std::uint64_t places_of(const ConvProblem& problem, std::int64_t cols) {
  return u64(places_of_stripe(problem, make_stripes(problem, static_cast<std::int32_t>(cols))));
}

// What makes a point no implicit GEMM, or one that is sure to be slower than another.
std::vector<Space::Constraint> implicit_gemm_constraints(const ConvProblem& problem) {
  const Tiling tiling{.problem = problem, .cut = ImplicitGemmCut{}};
  const auto filter_blocks = static_cast<std::int64_t>(tiling.filter_blocks());
  const auto rule = [](Parameter parameter, auto violation) {
    return Space::Constraint{to_string(parameter), [=](const Configuration& c) {
                               const std::optional<std::int64_t> value = c.get(parameter);
                               const bool ours =
                                   c.get(Parameter::algo) ==
                                   static_cast<std::int64_t>(Algorithm::implicit_gemm);
                               return value && ours ? violation(*value, c) : std::string();
                             }};
  };
  const auto cols_of = [problem](const Configuration& c) {
    return c.get(Parameter::cols).value_or(problem.q());
  };
  // If TMA loads x, or its copy from space to depth.
  const ConvProblem in_place = multiplied_problem(problem, Operands::in_tensor);
  // Where tasks load the operands or copy them, a step is that of either.
  const std::uint64_t step =
      place_step(operands_in_tensor(in_place) || operands_can_be_copied(in_place));
  const auto rounds_in_place = [](const Configuration& c) {
    return c.get(Parameter::arithmetic) == static_cast<std::int64_t>(Arithmetic::tf32);
  };
  // Of floats that TMA can load a configuration has the arithmetic, unless they are split.
  const auto splits_in_stages = [](const Configuration& c) {
    constexpr auto kSplit = static_cast<std::int64_t>(Arithmetic::split_f16);
    return c.get(Parameter::arithmetic).value_or(kSplit) == kSplit &&
           c.get(Parameter::launch) == static_cast<std::int64_t>(CudaLaunch::staged);
  };
  // What will be chosen, as far as a rule has to know.
  const auto operands_of = [=](const Configuration& c) {
    // Where there are copies to choose, others may convert.
    const std::int64_t cols = cols_of(c);
    const std::optional<std::int64_t> window = c.get(Parameter::window);
    if (splits_in_stages(c) && converts_in_tall_tiles(problem)) return Operands::split_tall;
    if (window == 1 && !rounds_in_place(c) &&
        converts_in_tall_tiles(problem, u32(u64(c.get(Parameter::gemm_filters).value_or(0))))) {
      return Operands::converted_tall;
    }
    const bool converts = window && !has_space_to_depth(problem) &&
                          stripes_can_be_converted(problem, cols) &&
                          c.get(Parameter::gemm_filters) <= kFilterBlocksInPlace;
    const bool copies = window == 1 && cols % problem.q() == 0;
    const bool floats = rounds_in_place(c);
    if (operands_in_tensor(in_place) || floats) {
      return operands_of_tensors(floats, operands_in_wide_tiles(in_place),
                                 u32(u64(*c.get(Parameter::gemm_filters))));
    }
    return converts ? Operands::converted : copies ? Operands::in_copy : Operands::loaded;
  };
  const auto multiplied_of = [=](const Configuration& c) {
    return multiplied_problem(problem, operands_of(c));
  };
  return {
      rule(Parameter::gemm_filters,
           [=](std::int64_t filters, const Configuration& c) {
             const bool in_tensor = operands_in_tensor(in_place) || rounds_in_place(c);
             const Operands operands = operands_of(c);
             if (are_tall(operands) ||
                 (in_tensor && operands_in_wide_tiles(in_place) && filters != 4)) {
               const auto most = static_cast<std::int64_t>(
                   filter_blocks_of_tile(are_converted(operands) ? operands
                                         : rounds_in_place(c)    ? Operands::in_float_tensor_tall
                                                                 : Operands::in_tensor_tall));
               return filters <= most ? std::string()
                                      : std::to_string(filters) + ", must be at most the " +
                                            std::to_string(most) + " that a tile can have";
             }
             return filters == 4 || (filters == 8 && !in_tensor) ||
                            (filters < (in_tensor ? 4 : 8) && filters == filter_blocks)
                        ? std::string()
                        : std::to_string(filters) +
                              (in_tensor ? ", must be 4" : ", must be 4 or 8") +
                              ", which tiles are made for, or all " +
                              std::to_string(filter_blocks) + " lane blocks";
           }),
      rule(Parameter::gemm_filters,
           [=](std::int64_t filters, const Configuration&) {
             const bool as_one = groups_at_once(problem) == problem.groups;
             return as_one || filters_at_once(problem) % (filters * Tiling::kLaneBlock) == 0
                        ? std::string()
                        : std::to_string(filters) + ", must divide the filters of " +
                              std::to_string(groups_at_once(problem)) + " conv groups";
           }),
      most(Algorithm::implicit_gemm, Parameter::gemm_filters, "the lane blocks of filters",
           [=](const Configuration&) {
             return std::max(u64(filter_blocks), std::uint64_t{kFilterBlocksInPlace});
           }),
      most(Algorithm::implicit_gemm, Parameter::cols, "the columns of y in all images",
           [problem](const Configuration&) { return u64(problem.n * problem.q()); }),
      rule(Parameter::cols,
           [=](std::int64_t cols, const Configuration& c) {
             const std::string obstacle = stripe_obstacle(multiplied_of(c), operands_of(c), cols);
             return obstacle.empty() ? obstacle : std::to_string(cols) + obstacle;
           }),
      most(Algorithm::implicit_gemm, Parameter::places,
           "the padded pixels of a stripe in whole steps",
           [=](const Configuration& c) {
             return ceil_div(places_of(multiplied_of(c), cols_of(c)), step) * step;
           }),
      rule(Parameter::places,
           [=](std::int64_t places, const Configuration& c) {
             const ConvProblem a = multiplied_of(c);
             const Stripes stripes = make_stripes(a, static_cast<std::int32_t>(cols_of(c)));
             const bool abreast = stripes.images > 1;
             const std::uint64_t whole = abreast ? u64(stripes.row()) : step;
             if (u64(places) % whole != 0) {
               return std::to_string(places) + ", must be a multiple of the " +
                      std::to_string(whole) + " padded pixels of a " + (abreast ? "row" : "step");
             }
             const bool fits =
                 !abreast || tile_places_in_place(places, stripes, operands_of(c), a.c) > 0;
             return fits ? std::string()
                         : std::to_string(places) + ", of which no tile has room for rows of " +
                               std::to_string(stripes.images) + " images abreast";
           }),
  };
}

// Stripes as wide as the heuristic's, in one or two more, or half as wide: fewer columns reach less
// far, and have more gaps; of images abreast, which have fewer, a whole stripe or less. Groups of 1
// to 16 tiles of 256 padded pixels: more amortise a task's start, fewer even out between the
// multiprocessors. One task runs on each of these at a time, so there is no choice of workers.
void add_implicit_gemm(AlgorithmSpace& space, const ConvProblem& problem, const Target& target,
                       Arithmetic arithmetic) {
  TilingOptions options;
  options.algorithm = Algorithm::implicit_gemm;
  options.arithmetic = arithmetic;
  const auto choose = [&] {
    return std::get<ImplicitGemmCut>(make_tiling(problem, options, target).cut);
  };
  const ImplicitGemmCut chosen = choose();
  options.whole_tensors = true;
  const ImplicitGemmCut chosen_in_stages = choose();
  const std::uint64_t q = u64(problem.q());
  const std::uint64_t stripes = ceil_div(q, std::uint64_t{chosen.cols_per_group});
  const std::uint32_t all = Tiling{.problem = problem, .cut = ImplicitGemmCut{}}.filter_blocks();
  Axis filters{Parameter::gemm_filters, at_most({4, 8}, all)};
  Axis cols{Parameter::cols, {}}, places{Parameter::places, {}};
  for (const ImplicitGemmCut& cut : {chosen, chosen_in_stages}) {
    insert(filters, cut.filter_blocks_per_gemm_task);
    insert(cols, cut.cols_per_group);
    insert(places, cut.places_per_group);
  }
  const ConvProblem multiplied = multiplied_problem(problem, chosen.operands);
  if (all < kFilterBlocksInPlace && are_tensors(chosen.operands) &&
      operands_in_wide_tiles(multiplied)) {
    insert(filters, all);  // tall tiles
    insert(filters, kFilterBlocksInPlace);
  }
  if (chosen_in_stages.operands == Operands::split_tall) {
    const std::uint32_t most = std::min(all, filter_blocks_of_tile(Operands::split_tall));
    for (std::uint32_t blocks = 2; blocks <= most; ++blocks) insert(filters, blocks);
  }
  if (!are_tensors(chosen.operands)) {
    for (const std::uint64_t num : {stripes + 1, stripes + 2, 2 * stripes}) {
      insert(cols, static_cast<std::int64_t>(ceil_div(q, num)));
    }
  }
  for (const std::int64_t num : {1, 2, 3, 4, 6, 8, 12, 16, 32}) insert(places, 128 * num);
  const bool in_place = are_tensors(chosen.operands) || has_copies_to_choose(problem, arithmetic);
  for (const std::int64_t images : {2, 4, 8}) {
    const std::int64_t abreast = images * problem.q();
    if (!in_place || images > problem.n ||
        !stripe_obstacle(multiplied, Operands::in_tensor, abreast).empty()) {
      break;
    }
    insert(cols, abreast);
    insert(places, static_cast<std::int64_t>(places_of(multiplied, abreast)));
  }
  Space::Grid tasks{{Parameter::algo, {static_cast<std::int64_t>(Algorithm::implicit_gemm)}},
                    filters,
                    cols,
                    places};
  if (has_arithmetic_to_choose(problem, arithmetic)) {
    tasks.push_back({Parameter::arithmetic, {static_cast<std::int64_t>(arithmetic)}});
  }
  if (has_copies_to_choose(problem, arithmetic)) tasks.push_back({Parameter::window, {0, 1}});
  add_orders_of_one_kind(space, tasks,
                         {Parameter::workers, {implicit_gemm_algorithm().resident_workers(target)}},
                         target);
}

}  // namespace

AlgorithmSpace implicit_gemm_space(const ConvProblem& problem, const Target& target,
                                   const TilingOptions& asked) {
  AlgorithmSpace space;
  const Arithmetic arithmetic = implicit_gemm_arithmetic(problem, asked);
  const bool possible = target.backend == Backend::cuda && target.split_f16 &&
                        target.multiprocessors != 0 && problem.layout != Layout::chwn &&
                        implicit_gemm_obstacle(problem).empty() &&
                        implicit_gemm_arithmetic_need(problem, arithmetic).empty();
  if (!possible) return space;
  add_implicit_gemm(space, problem, target, arithmetic);
  if (asked.arithmetic == Arithmetic::automatic && has_arithmetic_to_choose(problem, arithmetic)) {
    add_implicit_gemm(space, problem, target, Arithmetic::tf32);
  }
  for (Space::Constraint& constraint : implicit_gemm_constraints(problem)) {
    space.constraints.push_back(std::move(constraint));
  }
  return space;
}

}  // namespace megaconv
