// SPDX-License-Identifier: Apache-2.0
// What an algorithm of convolution contributes beside the bodies of its tasks: one class in each
// room, and one line for it in conv_algorithms.cpp.
#pragma once

#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "megaconv/tuning.hpp"
#include "tasks/conv_graph.hpp"
#include "tasks/cost.hpp"
#include "tasks/error_bound.hpp"
#include "tasks/space.hpp"

namespace megaconv {

class FileSection;

/// A number of a tiling that is chosen, and has a line in mapping files.
struct CutField {
  const char* name;
  std::uint32_t& value;
  std::uint32_t least = 1;
};

/// Bytes of V and M of one task group.
struct SlotBytes {
  std::uint64_t v = 0, m = 0;
};

class ConvAlgorithm {
 public:
  virtual ~ConvAlgorithm() = default;

  virtual Algorithm id() const = 0;

  // --- what it can compute

  /// Whether the back end has tasks of it.
  virtual bool runs_on(Backend backend) const = 0;
  /// What keeps it from computing the problem, with the arithmetic asked for ("winograd: stride
  /// 2x2, must be 1x1"); empty when nothing does.
  virtual std::string obstacle(const ConvProblem& problem, Arithmetic asked) const = 0;
  /// Whether it has tasks for tensors in chwn.
  virtual bool takes_chwn() const { return false; }
  /// Conv groups that its tasks multiply as one, with zeros where a filter has no channels.
  virtual std::int64_t groups_at_once(const ConvProblem&) const { return 1; }
  /// Channels that they add up under a tap.
  virtual std::int64_t channels_at_once(const ConvProblem& problem) const {
    return problem.c / problem.groups * groups_at_once(problem);
  }
  /// What would have to be otherwise for it to have tasks with the tiling's arithmetic ("f32
  /// tensors"); empty when it has. Of the device it knows nothing. Here: all but multiply-adds.
  virtual std::string arithmetic_need(const Tiling& tiling) const;
  /// How far its results may be from the exact ones, before they are rounded to the storage type.
  virtual ErrorBound sum_bound(const Tiling& tiling) const = 0;

  // --- its cut: tiling.problem and filters are set, and tiling.cut is one of its own

  /// One of which nothing is chosen.
  virtual ConvCut empty_cut() const = 0;
  /// Chooses all fields that are in fields(), and the others that are chosen.
  virtual void choose(Tiling& tiling, const TilingOptions& options, const Target& target) const = 0;
  /// Checks what is chosen, and computes what follows from it: NG, SI, SG, SO and tile counts.
  /// Throws as derive_counts() does.
  virtual void derive(Tiling& tiling) const = 0;
  /// Filter tasks of a run that has any.
  virtual std::uint32_t count_filter_tasks(const Tiling& tiling) const = 0;
  /// Bytes of transformed or packed filters.
  virtual std::uint64_t u_bytes(const Tiling& tiling) const = 0;
  /// Bytes of V and M, if it has them. Back ends may round these up.
  virtual SlotBytes slot_bytes(const Tiling& tiling) const;

  // --- its tasks

  /// All of U, and of w, in blocks of channels and of filters.
  virtual Region u_extent(const Tiling& tiling) const;
  /// Adds V and M, if it has them.
  virtual void add_buffers(TaskGraph& graph, const Tiling& tiling, NodeBuffers& buffers) const;
  /// The kind of its products.
  virtual TaskKind product() const { return TaskKind::direct; }
  /// Whether tasks before and behind the products transform, so that there are V and M.
  bool has_transforms() const { return product() == TaskKind::gemm; }
  virtual AccessFunction accesses(const Tiling& tiling, const NodeBuffers& buffers) const = 0;
  /// What a task of the stage with this role costs.
  virtual TaskCost cost(const Tiling& tiling, const NodeBuffers& buffers, Role role) const = 0;
  /// Tasks that run at the same time.
  virtual std::uint32_t resident_workers(const Target& target) const { return target.workers; }

  // --- its choices

  /// Microseconds of all tasks of a stage on a GPU, where they were fitted to measured runs;
  /// nullopt: what follows from cost(). `launched`: of a launch that is chosen.
  virtual std::optional<double> fitted_us(const Tiling& tiling, Role role,
                                          const PlanOptions& launched, const Target& target) const;
  virtual AlgorithmSpace space(const ConvProblem& problem, const Target& target,
                               const TilingOptions& asked) const = 0;
  /// What of a configuration is the tiling's.
  virtual void configure(const Tiling& tiling, CudaLaunch launch,
                         Configuration& configuration) const = 0;

  // --- in texts

  /// The numbers that a mapping file has of it.
  virtual std::vector<CutField> fields(Tiling& tiling) const = 0;
  /// What a mapping file has of it in words.
  virtual void put_words(const Tiling& tiling, FileSection& section) const;
  virtual void take_words(FileSection& section, Tiling& tiling) const;
  /// "winograd F(4x4, 3x3), split f16": the algorithm and what of it changes results.
  virtual std::string name(const Tiling& tiling) const = 0;
  /// One line per property for people, behind "algorithm: name" and up to the size of a filter
  /// task.
  virtual void describe(const Tiling& tiling, std::ostream& text) const = 0;
};

/// An algorithm whose cuts are of type Own.
template <class Own>
class ConvAlgorithmOf : public ConvAlgorithm {
 public:
  Algorithm id() const final { return Own::kAlgorithm; }
  ConvCut empty_cut() const final { return Own{}; }

 protected:
  static const Own& own(const Tiling& tiling) { return std::get<Own>(tiling.cut); }
  static Own& own(Tiling& tiling) { return std::get<Own>(tiling.cut); }
};

/// All of them, in the order in which they are named to people.
std::span<const ConvAlgorithm* const> conv_algorithms();

/// One of them, not Algorithm::automatic.
const ConvAlgorithm& conv_algorithm(Algorithm algorithm);
inline const ConvAlgorithm& algorithm_of(const Tiling& tiling) {
  return conv_algorithm(tiling.algorithm());
}

const ConvAlgorithm& direct_algorithm();
const ConvAlgorithm& winograd_algorithm();
const ConvAlgorithm& fused_winograd_algorithm();
const ConvAlgorithm& implicit_gemm_algorithm();
const ConvAlgorithm& small_gemm_algorithm();
const ConvAlgorithm& opencnn_algorithm();

// --- what several rooms have in common

/// arithmetic_need() of tasks that only multiply and add.
std::string multiply_add_need(DataType dtype, Arithmetic arithmetic);
/// Throws Error(invalid_argument) unless 1 <= value <= most.
void check_field(const char* name, std::uint64_t value, std::uint64_t most);
/// Task groups: throws Error(unsupported) past 2^31.
std::uint32_t checked_groups(std::uint64_t groups);
/// Tasks of a group, `parts` times `times`: throws Error(unsupported) past 2^31.
std::uint32_t checked_tasks(std::uint64_t parts, std::uint64_t times);
/// Filter tasks of those sizes that the tiling has.
std::uint32_t filter_tasks_by_sizes(const Tiling& tiling);
/// Bytes of filters that are packed, or transformed to so many numbers each.
std::uint64_t packed_filter_bytes(const Tiling& tiling, std::uint64_t numbers);
/// "split f16", "tf32", ...
std::string product_text(Arithmetic arithmetic);
/// "2 lane blocks".
std::string blocks_text(std::uint32_t blocks);
/// The size of a filter task in blocks of filters and channels.
void describe_filter_task(const Tiling& tiling, std::ostream& text);
inline constexpr const char* kNoExactSums =
    "storage type i8, which has exact sums; must be f32, f16 or bf16";

}  // namespace megaconv
