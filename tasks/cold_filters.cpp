// SPDX-License-Identifier: Apache-2.0
// Winograd's transformed filters are 4 times as large as filters (F(4x4, 3x3)), or 1.8 times
// (F(2x2)). Where they serve few tiles, reading them takes longer than the multiplications that
// they save. A convolution that runs again and again finds them in a cache; in a network it does
// not. Sapphire Rapids, two workers, all their time in a run of ResNet-50: n1c512h7w7k512 3.11 ms
// by F(4x4), 2.11 direct; in one of DenseNet-121: n1c128h7w7k32 0.077 and 0.033, n1c128h14w14k32
// 0.113 and 0.098.
#include "tasks/cold_filters.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "tasks/tiling.hpp"
#include "tasks/winograd/winograd.hpp"

namespace megaconv {
namespace {

// Of one worker.
struct FilterRates {
  double products_per_us, transforms_per_us;  // operations
  double bytes_per_us;                        // of filters that were read before
  double cold_bytes_per_us;                   // of others; 0: there are none
  double serial;                              // share of memory or products that is not hidden
  double stages_us = 0;  // of workers that wait for each other between stages; 0: not counted
};
// Zen 4; rates of tasks/cost_model.cpp.
constexpr FilterRates kCold{113'000, 60'000, 12'000, 12'000, 0.5};
// Sapphire Rapids. From the L3 a worker reads 22 to 28 GB/s, a quarter of what Zen 4 does for each
// multiplication. Two workers, estimates and times: n1c256h26k512 fused F(4x4) 1.30, 1.27 ms;
// n1c512h14k512 in stages 1.02, 1.02; n1c256h14k256 fused F(2x2) 0.28, 0.27; n1c512h7k512 F(2x2) in
// stages 0.47, 0.49, direct 0.74, 0.62.
// Emerald Rapids at a clock that allows 178 GFLOP/s, not 240: n1c256h14k256 fused F(2x2) 0.34,
// F(4x4) in stages 0.29. So the rate of products lies between the two.
constexpr FilterRates kHotBehindMesh{200'000, 90'000, 25'000, 0, 0.2, 60};
constexpr FilterRates kColdBehindMesh{230'000, 90'000, 25'000, 12'000, 0.5, 60};
// A larger share of the L3 does not stay there, beside what others have. n1c512h13k1024 by F(4x4),
// 75 MB of U, L3 of about 100 MiB: 2.3 to 3.5 ms; by F(2x2), 34 MB, 2.5. L3 of 260 MiB: 1.9 and
// 2.7.
constexpr double kCachedShare = 0.5, kFarBytesPerUs = 12'000;
constexpr double kFullRows = 7;  // tiles or pixels that are multiplied at the full rate
// Winograd, which errs by more, must take less than this share of the time of direct sums; not so
// under stride 2, where its transforms only add.
constexpr double kGain = 0.9;
// The same of F(4x6), whose error is twice that of F(4x4): its share of the time of F(4x4).
constexpr double kWideGain = 0.98;
constexpr std::int64_t kLeastWideChannels = 32;
// Its U must not take more of the L3. Two workers, 260 MiB of L3, n4c512h13k1024: 7.5 ms with 96
// MiB of U; by F(4x4), with 72 MiB, 6.7.
constexpr double kWideShare = 1.0 / 3;
// Direct sums under stride 2, which use half of each cache line of x at a time. Two workers, times
// of direct sums and of fused F(2x2): n1c32h416k64u2 4.8, 4.2 ms; n1c64h208k128u2 4.4, 3.5;
// n1c128h56k128u2 0.64, 0.49; n1c512h26k1024u2 4.4, 4.4; n1c512h14k512u2 0.73, 0.92.
constexpr double kStridedDirect = 1.25;

bool behind_mesh(const Target& target) { return target.mesh_cache_bytes != 0; }

// Microseconds of all workers together, roughly.
double estimate_us(const Tiling& tiling, const Target& target, const FilterRates& rates) {
  const ConvProblem& a = tiling.problem;
  const auto c = static_cast<double>(a.c), k = static_cast<double>(a.k);
  // Pixels of a row that have all taps; the others are multiplied by themselves.
  const auto alike = static_cast<double>(std::max<std::int64_t>(1, a.q() - 2 * a.pad_w));
  double compute_us = a.flops() / (rates.products_per_us * std::min(1.0, alike / kFullRows));
  if (a.stride_w == 2) compute_us *= kStridedDirect;
  if (const WinogradTiles* const tiles = tiling.tiles()) {
    const double values = needed_positions(a, *tiles);
    const double full = std::min(1.0, tiles->group_tiles / kFullRows);
    // Those under stride 2 take the time of storing V and M, whatever the tile.
    const bool strided = tiles->stride == 2;
    const double inputs = strided ? 5 : (tiles->alpha_h() + tiles->alpha_w()) / 2.0;
    const double outputs = strided ? 2 : (tiles->rows() + tiles->cols()) / 2.0;
    compute_us = 2 * values * c * k / (rates.products_per_us * full) +
                 4 * values * (inputs * c + outputs * k) / rates.transforms_per_us;
  }
  // Every group reads the filters; those that a worker keeps, only its first one.
  const bool cold = rates.cold_bytes_per_us != 0;
  const bool keeps = tiling.u_bytes() <= target.cache_bytes_per_worker / 2;
  const std::uint32_t first_reads = cold ? std::min(tiling.num_groups, target.workers) : 0;
  const std::uint32_t reads = keeps ? first_reads : tiling.num_groups;
  const auto bytes = static_cast<double>(tiling.u_bytes());
  const auto mesh_bytes = static_cast<double>(target.mesh_cache_bytes);
  const double bytes_per_us = bytes > kCachedShare * mesh_bytes
                                  ? std::min(kFarBytesPerUs, rates.bytes_per_us)
                                  : rates.bytes_per_us;
  const double memory_us =
      cold ? bytes / rates.cold_bytes_per_us + (reads - 1) * bytes / bytes_per_us
           : reads * bytes / bytes_per_us;
  double stages_us = 0;
  if (tiling.algorithm() == Algorithm::winograd && rates.stages_us != 0) {
    const WinogradTiles& tiles = *tiling.tiles();
    const double values = needed_positions(a, tiles);
    // V and M leave a worker's cache.
    stages_us = rates.stages_us + 2 * values * (c + k) * sizeof(float) / rates.bytes_per_us;
  }
  return std::max(compute_us, memory_us) + rates.serial * std::min(compute_us, memory_us) +
         stages_us;
}

struct WinogradChoice {
  Algorithm algorithm;
  std::uint32_t m;
};
constexpr WinogradChoice kUsual[] = {{Algorithm::automatic, 0}};
constexpr WinogradChoice kBehindMesh[] = {
    {Algorithm::fused_winograd, 4}, {Algorithm::fused_winograd, kWideTile},
    {Algorithm::winograd, 4},       {Algorithm::winograd, kWideTile},
    {Algorithm::fused_winograd, 2}, {Algorithm::winograd, 2}};

constexpr WinogradChoice kStridedBehindMesh[] = {{Algorithm::fused_winograd, 2},
                                                 {Algorithm::fused_winograd, 4}};
// Channels and filters from which its transforms cost less than the products that they save.
constexpr std::int64_t kLeastStrided = 32;

bool takes_strides(const ConvProblem& a) {
  return a.stride_w == 2 && a.c >= kLeastStrided && a.k >= kLeastStrided &&
         winograd_obstacle(Algorithm::fused_winograd, a).empty();
}

bool may_be_wide(const Tiling& tiling, const Target& target) {
  return tiling.problem.c >= kLeastWideChannels &&
         static_cast<double>(tiling.u_bytes()) <=
             kWideShare * static_cast<double>(target.mesh_cache_bytes);
}

// With the fastest of Winograd's candidates and direct sums, if Winograd pays at all.
TilingOptions fastest(const ConvProblem& problem, const TilingOptions& options,
                      std::span<const WinogradChoice> candidates, const Target& target,
                      const FilterRates& rates) {
  TilingOptions usual = options;
  usual.m = candidates.front().m;
  if (make_tiling(problem, usual, target).tiles() == nullptr && !takes_strides(problem)) {
    return options;
  }
  TilingOptions best = options;
  double best_us = std::numeric_limits<double>::infinity();
  for (const WinogradChoice& candidate : candidates) {
    TilingOptions winograd = options;
    winograd.algorithm = candidate.algorithm;
    winograd.m = candidate.m;
    const Tiling tiling = make_tiling(problem, winograd, target);
    const bool wide = candidate.m == kWideTile;
    if (wide && !may_be_wide(tiling, target)) continue;
    const double us = estimate_us(tiling, target, rates) / (wide ? kWideGain : 1);
    if (us >= best_us) continue;
    best = winograd;
    best_us = us;
  }
  TilingOptions direct = options;
  direct.algorithm = Algorithm::direct;
  const double direct_us = estimate_us(make_tiling(problem, direct, target), target, rates);
  return best_us < (takes_strides(problem) ? 1 : kGain) * direct_us ? best : direct;
}

std::span<const WinogradChoice> behind_mesh_of(const ConvProblem& problem) {
  if (takes_strides(problem)) return kStridedBehindMesh;
  return kBehindMesh;
}

bool is_free(const TilingOptions& options, const Target& target) {
  return target.backend == Backend::cpu && options.algorithm == Algorithm::automatic &&
         options.m == 0 && !options.max_error;
}

}  // namespace

Tiling make_tiling_in_network(const ConvProblem& problem, const TilingOptions& options,
                              const Target& target) {
  if (!is_free(options, target)) return make_tiling(problem, options, target);
  const TilingOptions chosen =
      behind_mesh(target)
          ? fastest(problem, options, behind_mesh_of(problem), target, kColdBehindMesh)
          : fastest(problem, options, kUsual, target, kCold);
  return make_tiling(problem, chosen, target);
}

TilingOptions options_behind_mesh(const ConvProblem& problem, const TilingOptions& options,
                                  const Target& target) {
  // Options about groups or a window ask for tasks of stages.
  const bool staged = options.group_tiles != 0 || options.v_slots != 0 || options.m_slots != 0 ||
                      options.whole_tensors;
  if (!behind_mesh(target) || !is_free(options, target) || staged ||
      problem.dtype != DataType::f32) {
    return options;
  }
  Target two = target;
  two.workers = 2;
  return fastest(problem, options, behind_mesh_of(problem), two, kHotBehindMesh);
}

}  // namespace megaconv
