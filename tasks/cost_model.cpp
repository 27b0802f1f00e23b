// SPDX-License-Identifier: Apache-2.0
// An analytic cost model. A task takes the longer of its arithmetic and its memory traffic, plus a
// ticket; a stage that must be over before the next begins takes whole rounds of its tasks.
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
#include "tasks/launch.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// Of one worker. CPU: a Zen 4 core with AVX-512 (docs/performance.md); its cache is the L2, what is
// far comes from the L3. CUDA: its share of an H200's SM, with the L2 as the cache and HBM as what
// is far.
struct Rates {
  double flops_per_us, transform_flops_per_us;
  double cache_bytes_per_us, far_bytes_per_us;
  double task_us;
  double register_rows;        // tiles or pixels of a register tile
  double least_register_rows;  // that multiply at the full rate
  std::uint64_t near_bytes;    // what a worker may keep in the cache
};

// A U of more bytes than the L3 keeps comes from memory.
constexpr double kMostFarU = 16 << 20, kMemoryBytesPerUs = 12'000;
// What an implicit GEMM pays for tickets, counters and a filter stage of few blocks: 6 to 19 us.
constexpr double kOneKernelUs = 8;

Rates rates_of(const Tiling& tiling, const Target& target) {
  if (target.backend == Backend::cuda) {
    // Four workers share an SM, or two on tensor cores, which get more out of it: within 15 % of
    // what the ResNet layers take, and on tensor cores of what Winograd's layers of the suite take
    // in stages (docs/performance.md).
    const double share = tiling.arithmetic == Arithmetic::fma ? 0.25 : 0.7;
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

// Of a GEMM task against multiply-adds: three products on tensor cores, at ten times the rate; one
// at twice the speed of three (expected, implicit_gemm.cpp).
double product_speed(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::fma ? 1 : arithmetic == Arithmetic::split_f16 ? 3.5 : 7;
}

double ratio(std::uint64_t whole, std::uint64_t part) {
  return static_cast<double>(whole) / static_cast<double>(part);
}

// Useful share of tiles of `unit` when `count` are computed.
double fill(double count, double unit) { return count / (std::ceil(count / unit) * unit); }

// Share of the full rate at which `rows` are multiplied, in register tiles of equally many.
double register_fill(double rows, const Rates& rates) {
  const double tile_rows = std::ceil(rows / std::ceil(rows / rates.register_rows));
  return fill(rows, tile_rows) * std::min(1.0, tile_rows / rates.least_register_rows);
}

class Model {
 public:
  Model(const Tiling& tiling, const PlanOptions& options, const Target& target)
      : tiling_(tiling),
        staged_(options.mapping.policy == "staged"),
        one_kernel_(options.cuda_launch != CudaLaunch::staged),
        target_(target),
        rates_(rates_of(tiling, target)) {}

  double ms() {
    const ConvProblem& p = tiling_.problem;
    const double channels = static_cast<double>(tiling_.channel_blocks() * Tiling::kLaneBlock);
    if (tiling_.num_filter_tasks != 0) {
      add_stage(tiling_.num_filter_tasks, 0, ratio(2 * tiling_.u_bytes(), tiling_.num_filter_tasks),
                1);
    }
    if (tiling_.algorithm == Algorithm::winograd) {
      add_winograd(channels);
    } else if (tiling_.algorithm == Algorithm::fused_winograd) {
      add_fused_winograd(channels);
    } else if (tiling_.algorithm == Algorithm::direct) {
      const double pixels = std::min<double>(tiling_.rows_per_group, static_cast<double>(p.p())) *
                            tiling_.cols_per_group;
      const double filters = tiling_.filter_blocks_per_gemm_task * Tiling::kLaneBlock;
      const double taps = channels * static_cast<double>(p.r * p.s);
      const double halo = static_cast<double>((tiling_.rows_per_group + p.filter_extent_h() - 1) *
                                              (tiling_.cols_per_group + p.filter_extent_w() - 1));
      const double fullness = register_fill(tiling_.cols_per_group, rates_) *
                              fill(tiling_.filter_blocks_per_gemm_task, 2);
      add_stage(std::uint64_t{tiling_.num_groups} * tiling_.gemm_tasks,
                2 * pixels * filters * taps / fullness / rates_.flops_per_us,
                4 * (halo * channels + filters * taps + pixels * filters),
                share_in_cache(4 * halo * channels + 4 * filters * taps));
    } else if (tiling_.algorithm == Algorithm::implicit_gemm) {
      const double us = implicit_gemm_us(tiling_, target_, !one_kernel_);
      return (us + (one_kernel_ ? kOneKernelUs : 0)) / 1000;
    } else {
      add_stage(std::uint64_t{tiling_.num_groups} * tiling_.gemm_tasks,
                2.0 * 32 * 64 * 16 * channels / rates_.flops_per_us, 4.0 * 64 * 16 * channels, 1);
    }
    // Tasks of one kind, and stages, take whole rounds.
    const bool rounds = staged_ || tiling_.algorithm != Algorithm::winograd;
    return (rounds ? staged_us_ : overlapped_us_ / target_.workers + longest_us_) / 1000;
  }

 private:
  // V and M are written and read in the worker's cache; U passes through it once a group, fetched
  // ahead of the products.
  void add_fused_winograd(double channels) {
    const double positions = tiling_.num_positions(), t = tiling_.group_tiles;
    const double filters = static_cast<double>(tiling_.filter_blocks() * Tiling::kLaneBlock);
    const double alpha = tiling_.alpha();
    const double live_bytes = 4 * positions * t * (channels + filters);
    const double u_bytes = 4 * positions * channels * filters;
    const double transforms =
        4 * t * alpha * alpha * (alpha * channels + static_cast<double>(tiling_.m) * filters);
    const double products = 2 * t * positions * channels * filters / register_fill(t, rates_);
    const double u_us =
        u_bytes / (u_bytes > kMostFarU ? kMemoryBytesPerUs : rates_.far_bytes_per_us);
    const bool keeps_u = u_bytes <= static_cast<double>(rates_.near_bytes);
    add_stage(
        tiling_.num_groups,
        transforms / rates_.transform_flops_per_us + std::max(products / rates_.flops_per_us, u_us),
        2 * live_bytes, share_in_cache(live_bytes + (keeps_u ? u_bytes : 0)));
  }

  void add_winograd(double channels) {
    const double positions = tiling_.num_positions(), t = tiling_.group_tiles;
    const double filters = static_cast<double>(tiling_.filter_blocks() * Tiling::kLaneBlock);
    const double alpha = tiling_.alpha();
    const double v_bytes = static_cast<double>(tiling_.v_slot_bytes());
    const double m_bytes = static_cast<double>(tiling_.m_slot_bytes());
    const bool whole = tiling_.v_slots == tiling_.num_groups || staged_;
    const double live = (v_bytes + m_bytes) * (whole ? tiling_.num_groups : target_.workers);
    // On a CPU one of `workers` readers of V and M has them in its own cache.
    const double own = target_.backend == Backend::cpu ? 1.0 / target_.workers : 1;
    const double v_share = own * share_in_cache(live / target_.workers);
    // Input: each tile is read with its overlap, transformed along both sides, and written to V.
    const double stored_bytes = static_cast<double>(size_of(tiling_.problem.dtype));
    add_stage(std::uint64_t{tiling_.num_groups} * tiling_.input_tasks,
              t * channels / tiling_.input_tasks * 4 * alpha * alpha * alpha /
                  rates_.transform_flops_per_us,
              (v_bytes + stored_bytes * positions * t * channels) / tiling_.input_tasks, v_share);
    const double filters_per_task =
        std::min<double>(tiling_.filter_blocks_per_gemm_task * Tiling::kLaneBlock, filters);
    const double positions_per_task = std::min<double>(tiling_.positions_per_gemm_task, positions);
    const double fullness = register_fill(t, rates_) * fill(tiling_.filter_blocks_per_gemm_task, 2);
    const double rate = rates_.flops_per_us * product_speed(tiling_.arithmetic);
    const double operand_bytes = static_cast<double>(number_bytes(tiling_.arithmetic));
    if (staged_ && target_.multiprocessors != 0 && tiling_.arithmetic != Arithmetic::fma) {
      staged_us_ += gemm_stage_us(tiling_, target_.multiprocessors);
    } else {
      add_stage(
          std::uint64_t{tiling_.num_groups} * tiling_.gemm_tasks,
          2 * t * channels * filters_per_task * positions_per_task / fullness / rate,
          positions_per_task *
              (operand_bytes * channels * (t + filters_per_task) + 4 * t * filters_per_task),
          std::min(v_share, share_in_cache(v_bytes + operand_bytes * channels * filters_per_task)));
    }
    add_stage(std::uint64_t{tiling_.num_groups} * tiling_.output_tasks,
              t * filters / tiling_.output_tasks * 4 * tiling_.m * alpha * alpha /
                  rates_.transform_flops_per_us,
              (1 + stored_bytes / 8) * m_bytes / tiling_.output_tasks, v_share);
  }

  double share_in_cache(double bytes) const {
    return std::clamp(static_cast<double>(rates_.near_bytes) / std::max(bytes, 1.0), 0.0, 1.0);
  }

  void add_stage(std::uint64_t tasks, double compute_us, double bytes, double share) {
    const double memory_us =
        bytes * (share / rates_.cache_bytes_per_us + (1 - share) / rates_.far_bytes_per_us);
    const double task_us =
        rates_.task_us + std::max(compute_us, memory_us) + 0.5 * std::min(compute_us, memory_us);
    const std::uint64_t rounds = ceil_div(tasks, std::uint64_t{target_.workers});
    staged_us_ += static_cast<double>(rounds) * task_us;
    overlapped_us_ += static_cast<double>(tasks) * task_us;
    longest_us_ = std::max(longest_us_, task_us);
  }

  const Tiling& tiling_;
  bool staged_, one_kernel_;
  const Target& target_;
  Rates rates_;
  double staged_us_ = 0, overlapped_us_ = 0, longest_us_ = 0;
};

}  // namespace

double estimate_ms(const ConvProblem& problem, const PlanOptions& options, const Target& target) {
  Target narrowed = target;
  const std::uint32_t asked =
      options.backend == Backend::cpu ? options.num_threads : options.num_blocks;
  if (asked != 0) narrowed.workers = std::min(asked, target.workers);
  try {
    const PlanOptions launched = choose_launch(problem, options, narrowed).options;
    Tiling tiling = make_tiling(problem, launched.tiling, narrowed);
    if (!launched.tiling.whole_tensors && tiling.v_slots == tiling.num_groups) tiling.v_slots = 0;
    return Model(tiling, launched, narrowed).ms();
  } catch (const Error&) {
    return std::numeric_limits<double>::infinity();
  }
}

}  // namespace megaconv
