// SPDX-License-Identifier: Apache-2.0
// An analytic cost model. A task takes the longer of its arithmetic and its memory traffic, half of
// the shorter, and a ticket; a stage that must be over before the next begins takes whole rounds of
// its tasks.
//
// It knows what tilings change: register tiles that are not full, U read again by every group, V
// and M that fit a cache or do not or that come from another worker's, too few tasks for the
// workers. It does not know what distances change; the search learns that
// (runtime/tuning/model_search.cpp).
#include "tasks/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "megaconv/error.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// Rates of one worker. CPU: a Zen 4 core with AVX-512 (docs/performance.md); its cache is the L2,
// what is far comes from the L3. CUDA: its share of an H200's SM, with the L2 as the cache and HBM
// as what is far.
struct Rates {
  double products_per_us, transforms_per_us;  // operations
  double cache_bytes_per_us, far_bytes_per_us;
  double task_us;
  double register_rows;        // tiles or pixels of a register tile
  double least_register_rows;  // that multiply at the full rate
};

Rates rates_of(Arithmetic arithmetic, Backend backend) {
  if (backend != Backend::cuda) return {113'000, 80'000, 60'000, 20'000, 0.3, 14, 7};
  // Four workers share an SM, or two on tensor cores, which get more out of it: within 15 % of
  // what the ResNet layers take, and on tensor cores of what Winograd's layers of the suite take
  // in stages (docs/performance.md). Three products on tensor cores take a tenth of the time.
  const bool fma = arithmetic == Arithmetic::fma;
  const double share = fma ? 0.25 : 0.7;
  return {300'000 * share * (fma ? 1 : 3.5),
          80'000 * share,
          56'000 * share,
          32'000 * share,
          0.8,
          64,
          64};
}

// Filters of more bytes than the L3 keeps come from memory.
constexpr double kMostFarBytes = 16 << 20, kMemoryBytesPerUs = 12'000;

// Useful share of tiles of `unit` when `count` are computed.
double fill(double count, double unit) { return count / (std::ceil(count / unit) * unit); }

class RunTime {
 public:
  RunTime(const Tiling& tiling, const PlanOptions& launched, const Target& target)
      : tiling_(tiling),
        launched_(launched),
        target_(target),
        rates_(rates_of(tiling.arithmetic, target.backend)) {}

  double us() {
    for (const Stage& stage : conv_stages(tiling_)) {
      if (stage.num_tasks() != 0) add(stage);
    }
    const bool overlaps = algorithm_of(tiling_).has_transforms() && !in_stages();
    return overlaps ? worker_us_ / target_.workers + longest_us_ : rounds_us_;
  }

 private:
  void add(const Stage& stage) {
    const ConvAlgorithm& algorithm = algorithm_of(tiling_);
    if (const auto us = algorithm.fitted_us(tiling_, stage.role, launched_, target_)) {
      rounds_us_ += *us;
      return;
    }
    const TaskCost cost = algorithm.cost(tiling_, {}, stage.role);
    const double cached = stage.role == Role::prepare ? 1 : share_in_cache(cost);
    const double bytes = cost.bytes - cost.ahead_bytes + cost.private_bytes;
    const double memory_us =
        bytes * (cached / rates_.cache_bytes_per_us + (1 - cached) / rates_.far_bytes_per_us);
    const double compute_us = this->compute_us(cost);
    const double task_us =
        rates_.task_us + std::max(compute_us, memory_us) + 0.5 * std::min(compute_us, memory_us);
    const std::uint64_t rounds = ceil_div(stage.num_tasks(), std::uint64_t{target_.workers});
    rounds_us_ += static_cast<double>(rounds) * task_us;
    worker_us_ += static_cast<double>(stage.num_tasks()) * task_us;
    longest_us_ = std::max(longest_us_, task_us);
  }

  double compute_us(const TaskCost& cost) const {
    const double products_us =
        cost.products / cost.fill / register_fill(cost) / rates_.products_per_us;
    const double ahead_us =
        cost.ahead_bytes /
        (cost.ahead_bytes > kMostFarBytes ? kMemoryBytesPerUs : rates_.far_bytes_per_us);
    return cost.transforms / rates_.transforms_per_us + std::max(products_us, ahead_us);
  }

  // Share of the full rate at which a task multiplies, in register tiles of equally many rows.
  double register_fill(const TaskCost& cost) const {
    if (cost.rows == 0) return 1;
    const double rows = std::ceil(cost.rows / std::ceil(cost.rows / rates_.register_rows));
    return fill(cost.rows, rows) * std::min(1.0, rows / rates_.least_register_rows) *
           fill(cost.filter_blocks, 2);
  }

  // Share of its traffic that a task finds in its worker's cache: what it keeps there, and V and M
  // of those groups that are under way. On a CPU one of `workers` readers of these has them there.
  double share_in_cache(const TaskCost& cost) const {
    const auto near = static_cast<double>(target_.cache_bytes_per_worker);
    const auto share = [&](double bytes) { return std::min(1.0, near / std::max(bytes, 1.0)); };
    const double streamed = cost.ahead_bytes <= near ? cost.ahead_bytes : 0;
    const double kept = share(cost.kept_bytes + streamed);
    const Window* const window = tiling_.window();
    if (window == nullptr) return kept;
    const bool whole =
        in_stages() || (launched_.tiling.whole_tensors && window->v_slots == tiling_.num_groups);
    const double groups = whole ? tiling_.num_groups : target_.workers;
    const auto slots = static_cast<double>(tiling_.v_slot_bytes() + tiling_.m_slot_bytes());
    const double readers = target_.backend == Backend::cpu ? target_.workers : 1;
    return std::min(kept, share(slots * groups / target_.workers) / readers);
  }

  bool in_stages() const { return launched_.mapping.policy == "staged"; }

  const Tiling& tiling_;
  const PlanOptions& launched_;
  const Target& target_;
  const Rates rates_;
  double rounds_us_ = 0;                   // of all stages, one after the other
  double worker_us_ = 0, longest_us_ = 0;  // of all workers together, and of a task
};

}  // namespace

double estimate_ms(const LaunchChoice& launched, const Target& target) {
  return RunTime(launched.tiling, launched.options, target).us() / 1000;
}

double estimate_ms(const ConvProblem& problem, const PlanOptions& options, const Target& target) {
  Target narrowed = target;
  const std::uint32_t asked =
      options.backend == Backend::cpu ? options.num_threads : options.num_blocks;
  if (asked != 0) narrowed.workers = std::min(asked, target.workers);
  try {
    return estimate_ms(choose_launch(problem, options, narrowed), narrowed);
  } catch (const Error&) {
    return std::numeric_limits<double>::infinity();
  }
}

}  // namespace megaconv
