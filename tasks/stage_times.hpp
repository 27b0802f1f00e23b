// SPDX-License-Identifier: Apache-2.0
// What algorithms estimate the time of a run with. A task takes the longer of its arithmetic and
// its memory traffic, plus a ticket; a stage that must be over before the next begins takes whole
// rounds of its tasks.
#pragma once

#include <cstdint>

#include "megaconv/tuning.hpp"

namespace megaconv {

class StageTimes {
 public:
  /// Rates of one worker. CPU: a Zen 4 core with AVX-512 (docs/performance.md); its cache is the
  /// L2, what is far comes from the L3. CUDA: its share of an H200's SM, with the L2 as the cache
  /// and HBM as what is far.
  struct Rates {
    double flops_per_us, transform_flops_per_us;
    double cache_bytes_per_us, far_bytes_per_us;
    double task_us;
    double register_rows;        // tiles or pixels of a register tile
    double least_register_rows;  // that multiply at the full rate
    std::uint64_t near_bytes;    // what a worker may keep in the cache
  };

  StageTimes(Arithmetic arithmetic, const PlanOptions& options, const Target& target);

  const Target& target() const { return target_; }
  const Rates& rates() const { return rates_; }
  /// Tasks run one stage after the other.
  bool staged() const { return staged_; }
  /// Nobody may make a window smaller than V and M.
  bool whole_tensors() const { return whole_tensors_; }
  /// All tasks run in one kernel.
  bool one_kernel() const { return one_kernel_; }

  /// Share of so many bytes that a worker finds in its cache.
  double share_in_cache(double bytes) const;
  /// Share of the full rate at which `rows` are multiplied, in register tiles of equally many.
  double register_fill(double rows) const;
  /// Useful share of tiles of `unit` when `count` are computed.
  static double fill(double count, double unit);

  /// Tasks of so many microseconds of arithmetic and so many bytes, a share of these in the cache.
  void add_stage(std::uint64_t tasks, double compute_us, double bytes, double share);
  /// A stage whose time is known.
  void add_stage_us(double us) { rounds_us_ += us; }

  /// Microseconds of all stages, one after the other.
  double rounds_us() const { return rounds_us_; }
  /// The same where tasks of all stages run side by side.
  double overlapped_us() const { return overlapped_us_ / target_.workers + longest_us_; }

 private:
  bool staged_, one_kernel_, whole_tensors_;
  const Target& target_;
  Rates rates_;
  double rounds_us_ = 0, overlapped_us_ = 0, longest_us_ = 0;
};

}  // namespace megaconv
