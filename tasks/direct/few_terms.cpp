// SPDX-License-Identifier: Apache-2.0
// Numbers are fitted to 107 layers of 14 sizes of tasks each, FP16 and TF32, on an H200: 25 % off,
// root mean square. Of these the chosen sizes take 3 % more time than the best.
#include "tasks/direct/few_terms.hpp"

#include <algorithm>
#include <cmath>

#include "tasks/direct/direct_shapes.hpp"
#include "tasks/gpu_memory.hpp"
#include "tasks/tiling.hpp"

namespace megaconv {
namespace {

// Microseconds of a run; of a block, on a multiprocessor; of a task; of 8 pixels that a warp has,
// and of every step of their sums; of the same by a part of the filters, of 16 bits and of floats.
constexpr double kFewTermsRunUs = 0.6, kFewTermsBlockUs = 0.3, kFewTermsTaskUs = 0.3;
constexpr double kPixelsUs = 0.155, kPixelsStepUs = 0.08;
constexpr double kPartUs = 0.22, kPartStepUs = 0.02;
constexpr double kFloatPartUs = 0.075, kFloatPartStepUs = 0.05;
// A last wave of few blocks takes this share of a whole one, at least.
constexpr double kLastWave = 0.45;
// Of what takes less time, products or memory, this is beside nothing.
constexpr double kAlone = 0.3;
// Bytes of y that are written in one. Where y passes through memory, blocks that run at a time
// should write what lies side by side: for every doubling of a task's outputs it takes so much
// longer, from so many bytes on; from fewer, where pixels begin amid sectors.
constexpr double kBytesPerUs = 3e6, kDoublingMore = 0.25;
constexpr double kTaskBytes = 128 * 1024, kFloatTaskBytes = 64 * 1024;
constexpr double kUnevenTaskBytes = 16 * 1024;
constexpr std::int64_t kSector = 32;

double memory_us(const ConvProblem& a, double task_outputs) {
  const std::size_t number_bytes = size_of(a.dtype);
  const double bytes = static_cast<double>(a.y_size()) * static_cast<double>(number_bytes);
  if (bytes < kBytesInL2) return bytes / kBytesPerUs;
  const bool is_even = a.k * static_cast<std::int64_t>(number_bytes) % kSector == 0;
  const double from = !is_even                   ? kUnevenTaskBytes
                      : a.dtype == DataType::f32 ? kFloatTaskBytes
                                                 : kTaskBytes;
  const double doublings = std::log2(task_outputs * static_cast<double>(number_bytes) / from);
  return bytes / kBytesPerUs * (1 + kDoublingMore * std::max(0.0, doublings));
}

// Of a task.
double task_us(const ConvProblem& a, std::uint64_t pixels, std::uint64_t parts) {
  constexpr std::uint64_t kWarps = kMmaThreads / 32;
  const std::uint64_t tiles = u64(mma_tiles(size_of(a.dtype), mma_steps(a)));
  const std::uint64_t turns = ceil_div(pixels, 8 * tiles);  // of warps
  // Of few pixels warps share the filters.
  const std::uint64_t shares = turns >= kWarps ? 1 : std::min(parts, kWarps / turns);
  const auto steps = static_cast<double>(mma_steps(a));
  const double part_us = a.dtype == DataType::f32 ? kFloatPartUs + kFloatPartStepUs * steps
                                                  : kPartUs + kPartStepUs * steps;
  const double tile_us =
      kPixelsUs + kPixelsStepUs * steps + static_cast<double>(ceil_div(parts, shares)) * part_us;
  return kFewTermsTaskUs + static_cast<double>(ceil_div(turns * shares, kWarps) * tiles) * tile_us;
}

}  // namespace

double few_terms_us(const ConvProblem& a, const DirectCut& cut, const Target& target) {
  const std::uint64_t filters = u64(mma_filter_parts(a).filters);
  const std::uint64_t parts =
      ceil_div(std::uint64_t{cut.filter_blocks_per_gemm_task} * Tiling::kLaneBlock, filters);
  const std::uint64_t pixels = std::uint64_t{cut.rows_per_group} * cut.cols_per_group;
  const std::uint64_t tasks = u64(a.n) * ceil_div(u64(a.p()), std::uint64_t{cut.rows_per_group}) *
                              ceil_div(u64(a.q()), std::uint64_t{cut.cols_per_group}) *
                              ceil_div(ceil_div(u64(a.k), filters), parts);
  const std::uint64_t multiprocessors = std::max(1u, target.multiprocessors);
  const std::uint64_t blocks = u64(mma_blocks(size_of(a.dtype))),
                      at_once = blocks * multiprocessors;
  const std::uint64_t rest = tasks % at_once;
  const double of_last =
      static_cast<double>(ceil_div(rest, multiprocessors)) / static_cast<double>(blocks);
  const double waves = static_cast<double>(tasks / at_once) +
                       (rest == 0 ? 0 : kLastWave + (1 - kLastWave) * of_last);
  const double tasks_us = waves * task_us(a, pixels, parts);
  const double stored_us =
      memory_us(a, static_cast<double>(pixels * std::min(u64(a.k), parts * filters)));
  return kFewTermsRunUs +
         kFewTermsBlockUs * static_cast<double>(tasks) / static_cast<double>(multiprocessors) +
         std::max(tasks_us, stored_us) + kAlone * std::min(tasks_us, stored_us);
}

}  // namespace megaconv
