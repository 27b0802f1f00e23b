// SPDX-License-Identifier: Apache-2.0
// What can be tuned about a plan: parameters, their values, and the points of a search space.
//
//   ConvProblem --make_space--> Space --at--> Configuration --apply--> PlanOptions
//
// docs/tuning.md explains the parameters; plan_database.hpp keeps what was measured.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "megaconv/lowering.hpp"
#include "megaconv/plan.hpp"

namespace megaconv {

/// Everything a search may vary, in the order in which configurations are written.
enum class Parameter : std::uint8_t {
  algo,             ///< Algorithm
  tile,             ///< Winograd's m
  points,           ///< Points
  arithmetic,       ///< Arithmetic of Winograd's GEMM tasks
  output_layout,    ///< OutputLayout of openCNN
  group_tiles,      ///< t
  input_channels,   ///< lane blocks of an input-transform task
  gemm_filters,     ///< lane blocks of a GEMM, direct or implicit GEMM task
  gemm_positions,   ///< positions of a GEMM task
  output_filters,   ///< lane blocks of an output-transform task
  transform_tiles,  ///< tiles of an input- or output-transform task
  rows,             ///< output rows of a direct task
  cols,             ///< output columns of a direct task, or of a stripe of implicit GEMM
  places,           ///< padded pixels of a task group of implicit GEMM
  window,           ///< 0: fitted to the order, 1: V and M whole
  policy,           ///< a policy's name, or own: PlanOptions::policy
  dig,
  dgo,
  m_groups,
  workers,  ///< CPU threads, or thread blocks of the persistent kernel
  launch,   ///< CudaLaunch
  cluster,  ///< thread blocks of one, in one launch of a network
};
inline constexpr std::size_t kNumParameters = 22;

const char* to_string(Parameter parameter) noexcept;  ///< "group-tiles": the option's name
/// Throws Error(invalid_argument) listing the names allowed.
Parameter parse_parameter(std::string_view name);
/// "winograd", "28": a value as the command line writes it.
std::string value_text(Parameter parameter, std::int64_t value);
/// Throws Error(invalid_argument) with what is allowed.
std::int64_t parse_value(Parameter parameter, std::string_view text);

/// One choice for some of the parameters; the others are left to the library.
class Configuration {
 public:
  Configuration() { values_.fill(kUnset); }
  std::optional<std::int64_t> get(Parameter parameter) const {
    const std::int64_t value = values_[static_cast<std::size_t>(parameter)];
    return value == kUnset ? std::nullopt : std::optional(value);
  }
  void set(Parameter parameter, std::int64_t value) {
    values_[static_cast<std::size_t>(parameter)] = value;
  }
  bool operator==(const Configuration&) const = default;

 private:
  static constexpr std::int64_t kUnset = -1;
  std::array<std::int64_t, kNumParameters> values_;
};

/// "algo=winograd,tile=4,group-tiles=28,...", in the order of Parameter.
std::string to_string(const Configuration& configuration);
/// Throws Error(invalid_argument) naming the part that is wrong.
Configuration parse_configuration(std::string_view text);

/// `options` with what the configuration says; source becomes PlanSource::heuristic.
PlanOptions apply(const Configuration& configuration, PlanOptions options);
/// The configuration that a lowering is an instance of, with every parameter it has on this target.
Configuration configuration_of(const Lowering& lowering, const Target& target,
                               CudaLaunch launch = CudaLaunch::persistent);
/// What the caller of Plan::create fixed about a parameter; nullopt when it is left to choice.
std::optional<std::int64_t> fixed_value(Parameter parameter, const PlanOptions& options);

/// The values that a search tries for one parameter, ascending.
struct Axis {
  Parameter parameter;
  std::vector<std::int64_t> values;
};

/// Why a configuration is no candidate: the rule it breaks, and how.
struct Rejection {
  std::string rule;    ///< "group-tiles"
  std::string reason;  ///< "112, must be at most 49, the tiles of the problem"
};

struct SpaceOptions {
  /// What is fixed in all candidates: backend, filter mode, algorithm, m, policy, ... that are set.
  PlanOptions plan{};
  /// Values that replace the default ones of a parameter.
  std::vector<Axis> axes{};
};

/// All configurations worth a thought for one problem: a union of grids, one for each algorithm and
/// family of policies, of which constraints reject some, each with a reason.
class Space {
 public:
  using Grid = std::vector<Axis>;
  struct Constraint {
    std::string rule;
    /// Empty when the configuration is fine.
    std::function<std::string(const Configuration&)> violation;
  };

  Space(std::vector<Grid> grids, std::vector<Constraint> constraints, Configuration heuristic);

  const std::vector<Grid>& grids() const { return grids_; }
  /// Points of all grids, rejected ones included.
  std::uint64_t size() const { return starts_.back(); }
  Configuration at(std::uint64_t index) const;
  /// nullopt when a value is on no axis.
  std::optional<std::uint64_t> index_of(const Configuration& configuration) const;
  /// Indices that differ from `index` in one parameter, which is moved by one value of its axis, or
  /// to any value where the values are words.
  std::vector<std::uint64_t> neighbours(std::uint64_t index) const;
  /// Indices that differ from `index` in `parameter` alone; empty when the grid does not have it.
  std::vector<std::uint64_t> line(std::uint64_t index, Parameter parameter) const;
  /// nullopt when the configuration is a candidate.
  std::optional<Rejection> rejection(const Configuration& configuration) const;
  /// What the library chooses by itself; a point of the space unless values were replaced.
  const Configuration& heuristic() const { return heuristic_; }

 private:
  struct Place {
    std::size_t grid;
    std::vector<std::size_t> digits;
  };
  Place place(std::uint64_t index) const;
  std::uint64_t index(const Place& place) const;

  std::vector<Grid> grids_;
  std::vector<std::uint64_t> starts_;  // of each grid's indices, and the end
  std::vector<Constraint> constraints_;
  Configuration heuristic_;
};

/// The space of a problem on a target. Throws Error(invalid_argument) when the values asked for and
/// the options fixed contradict each other, or nothing is left; Error(unsupported) when no
/// algorithm can compute the problem.
Space make_space(const ConvProblem& problem, const Target& target, const SpaceOptions& options);
/// The same of a network, as a whole: launches, clusters, orders, and direct convolution on a CPU.
Space make_space(const Network& network, const Target& target, const SpaceOptions& options);

}  // namespace megaconv
