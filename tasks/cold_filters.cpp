// SPDX-License-Identifier: Apache-2.0
// Winograd's transformed filters are 4 times as large as filters (F(4x4, 3x3)). Where they serve
// few tiles, reading them takes longer than the multiplications that they save. A convolution that
// runs again and again finds them in a cache; in a network it does not. Sapphire Rapids, two
// workers, all their time in a run of ResNet-50: n1c512h7w7k512 3.11 ms by F(4x4), 2.11 direct; in
// one of DenseNet-121: n1c128h7w7k32 0.077 and 0.033, n1c128h14w14k32 0.113 and 0.098.
#include "tasks/cold_filters.hpp"

#include <algorithm>

#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// Of one worker; those of tasks/cost_model.cpp.
constexpr double kProductsPerUs = 113'000, kTransformsPerUs = 60'000, kColdBytesPerUs = 12'000;
constexpr double kFullRows = 7;  // tiles that are multiplied at the full rate
// Winograd errs by more, and so must take less than this share of the time.
constexpr double kGain = 0.9;

// Microseconds of all workers together, roughly.
double us_with_cold_filters(const Tiling& tiling, const Target& target) {
  const ConvProblem& a = tiling.problem;
  const auto c = static_cast<double>(a.c), k = static_cast<double>(a.k);
  double compute_us = a.flops() / kProductsPerUs;
  if (const WinogradTiles* const tiles = tiling.tiles()) {
    const double values = static_cast<double>(tiles->num_tiles) * tiles->num_positions();
    const double full = std::min(1.0, tiles->group_tiles / kFullRows);
    compute_us = 2 * values * c * k / (kProductsPerUs * full) +
                 4 * values * (tiles->alpha() * c + tiles->m * k) / kTransformsPerUs;
  }
  // Every group reads the filters, of those that a worker keeps only its first one.
  const bool keeps = tiling.u_bytes() <= target.cache_bytes_per_worker / 2;
  const std::uint32_t reads =
      keeps ? std::min(tiling.num_groups, target.workers) : tiling.num_groups;
  const double memory_us = static_cast<double>(reads * tiling.u_bytes()) / kColdBytesPerUs;
  return std::max(compute_us, memory_us) + 0.5 * std::min(compute_us, memory_us);
}

}  // namespace

Tiling make_tiling_in_network(const ConvProblem& problem, const TilingOptions& options,
                              const Target& target) {
  const Tiling tiling = make_tiling(problem, options, target);
  const bool free = target.backend == Backend::cpu && options.algorithm == Algorithm::automatic &&
                    options.m == 0 && !options.max_error;
  if (!free || tiling.tiles() == nullptr) return tiling;
  TilingOptions direct_options = options;
  direct_options.algorithm = Algorithm::direct;
  const Tiling direct = make_tiling(problem, direct_options, target);
  const double direct_us = us_with_cold_filters(direct, target);
  return us_with_cold_filters(tiling, target) < kGain * direct_us ? tiling : direct;
}

}  // namespace megaconv
