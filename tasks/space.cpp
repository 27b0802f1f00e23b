// SPDX-License-Identifier: Apache-2.0
// A union of grids: numbering its points, and putting together what the algorithms declare, what
// the caller fixed, and values that replace the default ones.
#include "tasks/space.hpp"

#include <algorithm>
#include <map>

#include "megaconv/error.hpp"
#include "tasks/checks.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/launch.hpp"
#include "tasks/lower.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// Points of a grid looked at to tell whether a space is empty, and the step between them in a
// larger grid: a prime, so that all values of all parameters are met.
constexpr std::uint64_t kProbes = 20'000, kProbeStep = 2'654'435'761;

std::uint64_t grid_size(const Space::Grid& grid) {
  std::uint64_t size = 1;
  for (const Axis& axis : grid) size *= axis.values.size();
  return size;
}

bool has_parameters_of(const Configuration& configuration, const Space::Grid& grid) {
  for (std::size_t i = 0; i < kNumParameters; ++i) {
    const auto parameter = static_cast<Parameter>(i);
    const bool in_grid = std::any_of(grid.begin(), grid.end(),
                                     [&](const Axis& axis) { return axis.parameter == parameter; });
    if (in_grid != configuration.get(parameter).has_value()) return false;
  }
  return true;
}

// Words have no order: from one of them any other is one step.
bool has_words(Parameter parameter) {
  return parameter == Parameter::algo || parameter == Parameter::policy ||
         parameter == Parameter::output_layout || parameter == Parameter::launch;
}

Axis* find(Space::Grid& grid, Parameter parameter) {
  const auto at = std::find_if(grid.begin(), grid.end(),
                               [&](const Axis& axis) { return axis.parameter == parameter; });
  return at == grid.end() ? nullptr : &*at;
}

// What the caller says about one parameter; empty when nothing.
std::vector<std::int64_t> asked_values(Parameter parameter, const SpaceOptions& options) {
  const std::optional<std::int64_t> fixed = fixed_value(parameter, options.plan);
  for (const Axis& axis : options.axes) {
    if (axis.parameter != parameter) continue;
    if (axis.values.empty()) fail(std::string(to_string(parameter)) + ": no values");
    std::vector<std::int64_t> values = axis.values;
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    if (!fixed) return values;
    if (!std::binary_search(values.begin(), values.end(), *fixed)) {
      fail(std::string(to_string(parameter)) + " is fixed to " + value_text(parameter, *fixed) +
           ", which is not among the values to try");
    }
  }
  return fixed ? std::vector{*fixed} : std::vector<std::int64_t>{};
}

// False when a grid has nothing left: another algorithm or another kind of order was asked for.
bool restrict(Space::Grid& grid, Parameter parameter, const std::vector<std::int64_t>& values) {
  Axis* const axis = find(grid, parameter);
  const bool selects = parameter == Parameter::algo || parameter == Parameter::policy;
  if (axis == nullptr) return !selects;
  if (!selects) {
    axis->values = values;
    return true;
  }
  std::erase_if(axis->values, [&](std::int64_t value) {
    return !std::binary_search(values.begin(), values.end(), value);
  });
  return !axis->values.empty();
}

// One order, whatever a grid's policies are: the caller's function.
void leave_order_to_caller(std::vector<Space::Grid>& grids) {
  std::vector<Space::Grid> kept;
  for (Space::Grid& grid : grids) {
    std::erase_if(grid, [](const Axis& axis) {
      return axis.parameter == Parameter::dig || axis.parameter == Parameter::dgo ||
             axis.parameter == Parameter::m_groups;
    });
    find(grid, Parameter::policy)->values = {policy_value("own")};
    const auto same = [&](const Space::Grid& other) {
      return std::equal(grid.begin(), grid.end(), other.begin(), other.end(),
                        [](const Axis& a, const Axis& b) {
                          return a.parameter == b.parameter && a.values == b.values;
                        });
    };
    if (std::none_of(kept.begin(), kept.end(), same)) kept.push_back(std::move(grid));
  }
  grids = std::move(kept);
}

// A value that was asked for by name is no longer rejected for its accuracy. An error budget
// decides about all values.
void allow_asked(std::vector<Space::Constraint>& constraints, const SpaceOptions& options) {
  for (const Parameter parameter : {Parameter::tile, Parameter::points}) {
    if (asked_values(parameter, options).empty() && !options.plan.tiling.max_error) continue;
    std::erase_if(constraints, [&](const Space::Constraint& constraint) {
      return constraint.rule == to_string(parameter);
    });
  }
}

// Why a point's algorithm, tile, points and products are not within the error budget.
Space::Constraint within_budget(const ConvProblem& problem, const Target& target,
                                const PlanOptions& plan) {
  return {"max-error", [=](const Configuration& configuration) {
            Configuration exactness;
            for (const Parameter parameter :
                 {Parameter::algo, Parameter::tile, Parameter::points, Parameter::arithmetic}) {
              if (const auto value = configuration.get(parameter)) exactness.set(parameter, *value);
            }
            try {
              make_tiling(problem, apply(exactness, plan).tiling, target);
              return std::string();
            } catch (const Error& error) {
              return std::string(error.what());
            }
          }};
}

// Throws when every point looked at is rejected, with the commonest reason.
void require_candidates(const Space& space) {
  if (space.index_of(space.heuristic()) && !space.rejection(space.heuristic())) return;
  std::map<std::string, std::uint64_t> reasons;
  std::uint64_t start = 0;
  for (const Space::Grid& grid : space.grids()) {
    const std::uint64_t size = grid_size(grid);
    for (std::uint64_t i = 0; i < std::min(size, kProbes); ++i) {
      const std::uint64_t index = size <= kProbes ? i : i * kProbeStep % size;
      const std::optional<Rejection> rejection = space.rejection(space.at(start + index));
      if (!rejection) return;
      ++reasons[rejection->rule + ' ' + rejection->reason];
    }
    start += size;
  }
  const auto commonest = std::max_element(reasons.begin(), reasons.end(),
                                          [](auto& a, auto& b) { return a.second < b.second; });
  fail("the search space is empty: " + std::to_string(space.size()) + " points, all rejected" +
       (commonest == reasons.end() ? "" : "; most often: " + commonest->first));
}

}  // namespace

std::vector<std::int64_t> at_most(std::vector<std::int64_t> values, std::uint64_t most) {
  std::erase_if(values, [&](std::int64_t value) { return u64(value) > most; });
  return values;
}

void insert(Axis& axis, std::int64_t value) {
  const auto at = std::lower_bound(axis.values.begin(), axis.values.end(), value);
  if (at == axis.values.end() || *at != value) axis.values.insert(at, value);
}

Axis workers_axis(const Target& target) {
  const std::int64_t workers = target.workers;
  Axis axis{Parameter::workers, {workers}};
  if (target.backend == Backend::cuda) {
    for (const std::int64_t quarter : {1, 2, 3})
      insert(axis, std::max<std::int64_t>(1, workers * quarter / 4));
  } else {
    insert(axis, std::max<std::int64_t>(1, workers / 2));
  }
  return axis;
}

void add_launches(Space::Grid& grid, const Target& target) {
  if (target.backend != Backend::cuda) return;
  const std::vector<std::int64_t>& policies = find(grid, Parameter::policy)->values;
  Axis launches{Parameter::launch, {static_cast<std::int64_t>(CudaLaunch::persistent)}};
  if (std::count(policies.begin(), policies.end(), policy_value("staged")) > 0) {
    launches.values.push_back(static_cast<std::int64_t>(CudaLaunch::staged));
  }
  grid.push_back(std::move(launches));
}

Space::Constraint launch_fits_order(const Target& target) {
  return {to_string(Parameter::launch), [target](const Configuration& c) {
            const bool stages =
                c.get(Parameter::launch) == static_cast<std::int64_t>(CudaLaunch::staged);
            if (!stages) return std::string();
            if (c.get(Parameter::policy) != policy_value("staged")) {
              return std::string("staged, must be persistent unless policy is staged");
            }
            // V and M are there in all algorithms with a window.
            if (c.get(Parameter::window).value_or(1) == 0) {
              return std::string("staged, must be persistent unless window is whole");
            }
            const auto algorithm = static_cast<Algorithm>(c.get(Parameter::algo).value_or(0));
            const std::int64_t all = conv_algorithm(algorithm).resident_workers(target);
            return c.get(Parameter::workers).value_or(all) == all
                       ? std::string()
                       : "staged, must be persistent unless workers is " + std::to_string(all) +
                             ": its kernels take the whole device";
          }};
}

// Tasks that wait for nothing but the filters have no use for distances: the order only decides
// which tasks share filters and which share pixels.
void add_orders_of_one_kind(AlgorithmSpace& space, const Space::Grid& tasks, const Axis& workers,
                            const Target& target) {
  Space::Grid interleaved = tasks, others = tasks;
  interleaved.push_back({Parameter::policy, {policy_value("interleaved")}});
  interleaved.push_back({Parameter::m_groups, {1, 2, 4, 8}});
  interleaved.push_back(workers);
  add_launches(interleaved, target);
  others.push_back({Parameter::policy, {policy_value("staged")}});
  others.push_back(workers);
  add_launches(others, target);
  if (space.grids.empty()) space.constraints.push_back(launch_fits_order(target));
  space.grids.push_back(std::move(interleaved));
  space.grids.push_back(std::move(others));
}

Space::Constraint most(Algorithm algorithm, Parameter parameter, const char* what,
                       std::function<std::uint64_t(const Configuration&)> most) {
  return {
      to_string(parameter), [=](const Configuration& configuration) {
        const std::optional<std::int64_t> value = configuration.get(parameter);
        if (!value || configuration.get(Parameter::algo) != static_cast<std::int64_t>(algorithm)) {
          return std::string();
        }
        const std::uint64_t limit = most(configuration);
        if (u64(*value) <= limit) return std::string();
        return std::to_string(*value) + ", must be at most " + std::to_string(limit) + ", " + what;
      }};
}

Space::Space(std::vector<Grid> grids, std::vector<Constraint> constraints, Configuration heuristic)
    : grids_(std::move(grids)),
      starts_{0},
      constraints_(std::move(constraints)),
      heuristic_(heuristic) {
  for (const Grid& grid : grids_) starts_.push_back(starts_.back() + grid_size(grid));
}

Space::Place Space::place(std::uint64_t index) const {
  const auto next = std::upper_bound(starts_.begin(), starts_.end(), index);
  Place place{static_cast<std::size_t>(next - starts_.begin()) - 1, {}};
  index -= starts_[place.grid];
  const Grid& grid = grids_[place.grid];
  place.digits.resize(grid.size());
  for (std::size_t i = grid.size(); i-- > 0; index /= grid[i].values.size()) {
    place.digits[i] = index % grid[i].values.size();
  }
  return place;
}

std::uint64_t Space::index(const Place& place) const {
  const Grid& grid = grids_[place.grid];
  std::uint64_t index = 0;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    index = index * grid[i].values.size() + place.digits[i];
  }
  return starts_[place.grid] + index;
}

Configuration Space::at(std::uint64_t index) const {
  const Place at = place(index);
  Configuration configuration;
  const Grid& grid = grids_[at.grid];
  for (std::size_t i = 0; i < grid.size(); ++i) {
    configuration.set(grid[i].parameter, grid[i].values[at.digits[i]]);
  }
  return configuration;
}

std::optional<std::uint64_t> Space::index_of(const Configuration& configuration) const {
  for (std::size_t g = 0; g < grids_.size(); ++g) {
    Place at{g, {}};
    Configuration rebuilt;
    for (const Axis& axis : grids_[g]) {
      const std::optional<std::int64_t> value = configuration.get(axis.parameter);
      const auto found = std::find(axis.values.begin(), axis.values.end(), value.value_or(-1));
      if (found == axis.values.end()) break;
      at.digits.push_back(static_cast<std::size_t>(found - axis.values.begin()));
      rebuilt.set(axis.parameter, *value);
    }
    if (at.digits.size() == grids_[g].size() && rebuilt == configuration) return index(at);
  }
  return std::nullopt;
}

std::vector<std::uint64_t> Space::line(std::uint64_t start, Parameter parameter) const {
  Place at = place(start);
  const Grid& grid = grids_[at.grid];
  std::vector<std::uint64_t> indices;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    if (grid[i].parameter != parameter) continue;
    const std::size_t own = at.digits[i];
    for (at.digits[i] = 0; at.digits[i] < grid[i].values.size(); ++at.digits[i]) {
      if (at.digits[i] != own) indices.push_back(index(at));
    }
    return indices;
  }
  return indices;
}

std::vector<std::uint64_t> Space::neighbours(std::uint64_t start) const {
  std::vector<std::uint64_t> indices;
  Place at = place(start);
  for (std::size_t i = 0; i < at.digits.size(); ++i) {
    const Axis& axis = grids_[at.grid][i];
    if (has_words(axis.parameter)) {
      for (const std::uint64_t other : line(start, axis.parameter)) indices.push_back(other);
      continue;
    }
    const std::size_t own = at.digits[i];
    for (const std::size_t other : {own - 1, own + 1}) {
      if (other >= axis.values.size()) continue;  // below the first: wrapped around
      at.digits[i] = other;
      indices.push_back(index(at));
    }
    at.digits[i] = own;
  }
  return indices;
}

std::optional<Rejection> Space::rejection(const Configuration& configuration) const {
  for (const Constraint& constraint : constraints_) {
    std::string reason = constraint.violation(configuration);
    if (!reason.empty()) return Rejection{constraint.rule, std::move(reason)};
  }
  return std::nullopt;
}

Configuration heuristic_configuration(const ConvProblem& problem, const PlanOptions& plan,
                                      const Target& target) {
  const auto [launched, reason, tiling] = choose_launch(problem, plan, target);
  return configuration_of(lower(tiling, launched.tiling, launched.mapping, target, launched.policy),
                          target, launched.cuda_launch);
}

void keep_asked(std::vector<Space::Grid>& grids, const SpaceOptions& options) {
  for (std::size_t i = 0; i < kNumParameters; ++i) {
    const auto parameter = static_cast<Parameter>(i);
    const std::vector<std::int64_t> values = asked_values(parameter, options);
    if (values.empty()) continue;
    std::erase_if(grids, [&](Space::Grid& grid) { return !restrict(grid, parameter, values); });
    const bool known = std::any_of(grids.begin(), grids.end(), [&](Space::Grid& grid) {
      return find(grid, parameter) != nullptr;
    });
    if (!known) {
      fail("the search space is empty: no candidate has " + std::string(to_string(parameter)) +
           " = " + value_text(parameter, values.front()) +
           (values.size() > 1 ? " or another of the values asked for" : ""));
    }
  }
}

Space make_space(const ConvProblem& problem, const Target& target, const SpaceOptions& options) {
  const Configuration heuristic = heuristic_configuration(problem, options.plan, target);

  std::vector<Space::Grid> grids;
  std::vector<Space::Constraint> constraints;
  TilingOptions asked = options.plan.tiling;
  if (asked.max_error) asked.precision = Precision::f16;  // the budget is what permits
  for (const ConvAlgorithm* const algorithm : conv_algorithms()) {
    AlgorithmSpace part = algorithm->space(problem, target, asked);
    std::move(part.grids.begin(), part.grids.end(), std::back_inserter(grids));
    std::move(part.constraints.begin(), part.constraints.end(), std::back_inserter(constraints));
  }
  if (options.plan.policy) leave_order_to_caller(grids);
  allow_asked(constraints, options);
  if (asked.max_error) constraints.push_back(within_budget(problem, target, options.plan));

  // The heuristic's own values are worth a try wherever its algorithm, parameters and order are.
  for (Space::Grid& grid : grids) {
    const auto matches = [&](Parameter parameter) {
      const std::vector<std::int64_t>& values = find(grid, parameter)->values;
      return std::count(values.begin(), values.end(), *heuristic.get(parameter)) != 0;
    };
    if (!matches(Parameter::algo) || !matches(Parameter::policy)) continue;
    if (!has_parameters_of(heuristic, grid)) continue;
    for (Axis& axis : grid) insert(axis, *heuristic.get(axis.parameter));
  }

  std::erase_if(grids, [](const Space::Grid& grid) {
    return std::any_of(grid.begin(), grid.end(),
                       [](const Axis& axis) { return axis.values.empty(); });
  });

  keep_asked(grids, options);
  Space space(std::move(grids), std::move(constraints), heuristic);
  require_candidates(space);
  return space;
}

}  // namespace megaconv
