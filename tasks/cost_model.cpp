// SPDX-License-Identifier: Apache-2.0
// An analytic cost model (tasks/stage_times.hpp).
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
#include "tasks/launch.hpp"
#include "tasks/stage_times.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

StageTimes::Rates rates_of(Arithmetic arithmetic, const Target& target) {
  if (target.backend == Backend::cuda) {
    // Four workers share an SM, or two on tensor cores, which get more out of it: within 15 % of
    // what the ResNet layers take, and on tensor cores of what Winograd's layers of the suite take
    // in stages (docs/performance.md).
    const double share = arithmetic == Arithmetic::fma ? 0.25 : 0.7;
    return {300'000 * share,
            80'000 * share,
            56'000 * share,
            32'000 * share,
            0.8,
            64,
            64,
            target.cache_bytes_per_worker};
  }
  return {113'000, 80'000, 60'000, 20'000, 0.3, 14, 7, target.cache_bytes_per_worker};
}

double ratio(std::uint64_t whole, std::uint64_t part) {
  return static_cast<double>(whole) / static_cast<double>(part);
}

}  // namespace

StageTimes::StageTimes(Arithmetic arithmetic, const PlanOptions& options, const Target& target)
    : staged_(options.mapping.policy == "staged"),
      one_kernel_(options.cuda_launch != CudaLaunch::staged),
      whole_tensors_(options.tiling.whole_tensors),
      target_(target),
      rates_(rates_of(arithmetic, target)) {}

double StageTimes::fill(double count, double unit) {
  return count / (std::ceil(count / unit) * unit);
}

double StageTimes::register_fill(double rows) const {
  const double tile_rows = std::ceil(rows / std::ceil(rows / rates_.register_rows));
  return fill(rows, tile_rows) * std::min(1.0, tile_rows / rates_.least_register_rows);
}

double StageTimes::share_in_cache(double bytes) const {
  return std::clamp(static_cast<double>(rates_.near_bytes) / std::max(bytes, 1.0), 0.0, 1.0);
}

void StageTimes::add_stage(std::uint64_t tasks, double compute_us, double bytes, double share) {
  const double memory_us =
      bytes * (share / rates_.cache_bytes_per_us + (1 - share) / rates_.far_bytes_per_us);
  const double task_us =
      rates_.task_us + std::max(compute_us, memory_us) + 0.5 * std::min(compute_us, memory_us);
  const std::uint64_t rounds = ceil_div(tasks, std::uint64_t{target_.workers});
  rounds_us_ += static_cast<double>(rounds) * task_us;
  overlapped_us_ += static_cast<double>(tasks) * task_us;
  longest_us_ = std::max(longest_us_, task_us);
}

double estimate_ms(const ConvProblem& problem, const PlanOptions& options, const Target& target) {
  Target narrowed = target;
  const std::uint32_t asked =
      options.backend == Backend::cpu ? options.num_threads : options.num_blocks;
  if (asked != 0) narrowed.workers = std::min(asked, target.workers);
  try {
    const PlanOptions launched = choose_launch(problem, options, narrowed).options;
    const Tiling tiling = make_tiling(problem, launched.tiling, narrowed);
    StageTimes times(tiling.arithmetic, launched, narrowed);
    if (tiling.num_filter_tasks != 0) {
      times.add_stage(tiling.num_filter_tasks, 0,
                      ratio(2 * tiling.u_bytes(), tiling.num_filter_tasks), 1);
    }
    return algorithm_of(tiling).run_us(tiling, times) / 1000;
  } catch (const Error&) {
    return std::numeric_limits<double>::infinity();
  }
}

}  // namespace megaconv
