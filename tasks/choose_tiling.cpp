// SPDX-License-Identifier: Apache-2.0
// Which algorithm a tiling takes. How it is cut then, the algorithm chooses.
//
// These are heuristics and may change freely; derive_counts() in tiling.cpp checks what must hold.
#include "megaconv/error.hpp"
#include "tasks/cold_filters.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/direct/direct_shapes.hpp"
#include "tasks/error_budget.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"
#include "tasks/tiling.hpp"
#include "tasks/winograd/winograd.hpp"

namespace megaconv {
namespace {

// CUDA's direct tasks multiply in FP32, without tensor cores. On a GPU that has these, tensors of
// 16 bits take direct tasks only if no other algorithm has tasks for them.
bool avoids_direct(const ConvProblem& problem, const TilingOptions& options, const Target& target) {
  return target.split_f16 && target.multiprocessors != 0 &&
         (problem.dtype != DataType::f32 || options.arithmetic == Arithmetic::f16 ||
          options.arithmetic == Arithmetic::tf32);
}

// Whether there are options that only Winograd has.
bool asks_for_winograd(const TilingOptions& options) {
  return options.m != 0 || options.group_tiles != 0 || options.v_slots != 0 || options.m_slots != 0;
}

// Implicit GEMM needs tensor cores, a problem and an arithmetic that it has tasks for, and no
// option that only other algorithms have. `winograd`: whether Winograd competes with it.
bool takes_implicit_gemm(const ConvProblem& problem, const TilingOptions& options, bool winograd,
                         const Target& target) {
  const bool excluded = asks_for_winograd(options) || options.rows_per_group != 0;
  const Arithmetic arithmetic = implicit_gemm_arithmetic(problem, options);
  const bool possible = target.split_f16 && problem.layout != Layout::chwn &&
                        implicit_gemm_obstacle(problem).empty() &&
                        grouping_pays(problem, arithmetic) &&
                        implicit_gemm_arithmetic_need(problem, arithmetic).empty();
  // Under strides every tap has K blocks of its own, mostly zeros where there are few channels.
  const bool wastes = loads_by_taps(problem) && problem.c < std::int64_t{Tiling::kLaneBlock} &&
                      !has_space_to_depth(problem);
  const bool no_other = !winograd && !wastes && avoids_direct(problem, options, target);
  return possible && !excluded &&
         (no_other || implicit_gemm_pays(problem, options, winograd, target));
}

// Whether no option asks for what only one algorithm has.
bool leaves_the_choice(const TilingOptions& options) {
  return options.arithmetic == Arithmetic::automatic && !asks_for_winograd(options) &&
         options.places_per_group == 0 && options.cols_per_group == 0 &&
         options.filter_blocks_per_gemm_task == 0;
}

// Floats of so many filters that what counts is how fast they are stored, which TMA does. (H200,
// direct tasks and implicit GEMM: n3c8h72w277k528r1p0 52 us and 41, n107c24h11w100k296r1p0 54 and
// 48, but n4c4h76k944r1p0 30 and 36, n6c24h126k792r1p0 91 and 96.)
bool are_outputs_for_tma(const ConvProblem& a) {
  constexpr std::int64_t kOctet = 8, kManyFilters = 128, kVeryManyFilters = 512;
  constexpr std::int64_t kManyOutputs = 8'000'000;
  return a.dtype == DataType::f32 && a.c >= kOctet && a.k >= kManyFilters &&
         (a.c == kOctet || a.k <= kVeryManyFilters) && a.y_size() >= kManyOutputs;
}

// 1x1 filters on few channels, which wait for memory (H100, NHWC; 47 layers: with three products
// direct tasks are faster in 37, 1.8 times in the sum; the others are small, or have 26 channels or
// more. H200: tall tiles are faster of 24 channels, too: n26c24h123k184r1p0 143 us, by direct tasks
// 180. 39 layers in FP16 and TF32: faster for eight channels, up to three times; for 16 where
// filters are few, or neither x nor y can be moved by TMA.)
bool few_channels_are_direct(const ConvProblem& a, const TilingOptions& options,
                             const Target& target) {
  constexpr std::int64_t kMostSplit = 24, kLeastSplitFilters = 48;
  constexpr std::int64_t kMost = 16, kOctet = 8, kFewFilters = 16, kQuad = 4;
  if (!leaves_the_choice(options) || target.multiprocessors == 0 ||
      !has_few_channels_of_pixels(a)) {
    return false;
  }
  if (implicit_gemm_arithmetic(a, options) == Arithmetic::split_f16) {
    const bool splits =
        options.whole_tensors && converts_in_tall_tiles(a) && a.k >= kLeastSplitFilters;
    return a.c <= (splits ? kMost : kMostSplit);
  }
  const bool moved = a.k % kQuad == 0 && operands_in_wide_tiles(a);
  if (a.c <= kOctet) return !(moved && are_outputs_for_tma(a));
  return a.c <= kMost && (a.k <= kFewFilters || !moved);
}

// Direct tasks of few filters on tensor cores are faster, but for pixels that are many or long, and
// that TMA or other tasks load in vectors. (H100, 49 layers in FP16 and 35 at the precision of
// TF32, docs/results/few_filters_mma_h100.csv)
bool few_filters_pay(const ConvProblem& a) {
  constexpr std::int64_t kMostSteps = 5, kOctet = 8;
  if (a.r * a.s > 1) return true;
  if (few_filter_steps(a) > kMostSteps) return false;
  return !has_many_pixels(a) || (a.c > kOctet && !floats_can_be_brought(a));
}

// Whether direct tasks take less time for sums of few terms of 1x1 filters although TMA can load x,
// which is what implicit GEMM is made for: its tiles have 64 filters. (H200, 109 layers in FP16 and
// at the precision of TF32, docs/results/few_terms_of_pixels_h200.csv)
bool few_terms_of_pixels_pay(const ConvProblem& a) {
  constexpr std::int64_t kTile = 64, kMostChannels = 32;
  const bool in_tiles = a.k % kTile == 0;
  const std::int64_t pixels = a.n * a.p() * a.q();
  if (a.dtype == DataType::f32) {
    constexpr std::int64_t kFewOutputs = 4'100'000, kVeryFewOutputs = 300'000;
    constexpr std::int64_t kManyOutputs = 8'000'000, kFewFilters = 48;
    const std::int64_t few_channels = a.k <= kFewFilters ? 24 : 16;
    if (a.c <= few_channels && a.y_size() <= kFewOutputs) return true;
    const bool few = a.c <= 2 * kMostChannels && a.y_size() <= kVeryFewOutputs;
    return !in_tiles && (few || (a.c <= kMostChannels && a.y_size() >= kManyOutputs));
  }
  constexpr std::int64_t kFewChannels = 24, kManyPixels = 150'000;
  constexpr std::int64_t kFewPixels = 1'000, kPixelsOfFewFilters = 4'000;
  if (a.c <= kMostChannels) {
    return pixels < kManyPixels || (a.k > kTile && (a.c <= kFewChannels || !in_tiles));
  }
  return a.c <= 2 * kMostChannels && (pixels <= (a.k <= kTile ? kPixelsOfFewFilters : kFewPixels) ||
                                      (!in_tiles && a.k > kTile));
}

// Sums of few terms, which direct tasks multiply on tensor cores without passing x through shared
// memory. Implicit GEMM has K blocks of 32 or 64 channels of one tap. Where floats have many terms
// it is as fast. (H100, 55 layers in FP16 and 53 at the precision of TF32,
// docs/results/direct_mma_h100.csv)
bool few_terms_are_direct(const ConvProblem& a, const TilingOptions& options,
                          const Target& target) {
  constexpr std::int64_t kLeastFilters = 16, kSmallOutputs = 200'000;
  constexpr std::int64_t kSteps = 9, kFloatSteps = 5;
  if (!leaves_the_choice(options) || target.multiprocessors == 0 ||
      direct_arithmetic(a, options, target) == Arithmetic::fma) {
    return false;
  }
  if (streams_pixels(a)) return true;
  if (has_few_filters(a)) return few_filters_pay(a);
  const bool many = a.dtype == DataType::f32 && a.y_size() >= kSmallOutputs;
  if (mma_steps(a) > (many ? kFloatSteps : kSteps) || a.k < kLeastFilters) return false;
  const bool moved = a.r == 1 && a.s == 1 && operands_in_wide_tiles(a);
  return !moved || (!are_outputs_for_tma(a) && few_terms_of_pixels_pay(a));
}

Algorithm choose_algorithm(const ConvProblem& problem, const TilingOptions& options,
                           const Target& target) {
  if (options.algorithm != Algorithm::automatic) {
    const std::string obstacle =
        conv_algorithm(options.algorithm).obstacle(problem, options.arithmetic);
    if (!obstacle.empty()) throw Error(Status::unsupported, obstacle);
    return options.algorithm;
  }
  // On a GPU, Winograd multiplies tensors of 16 bits on tensor cores only.
  const bool has_tasks = target.backend != Backend::cuda || problem.dtype == DataType::f32 ||
                         (target.split_f16 && options.arithmetic != Arithmetic::fma);
  // Winograd multiplies floats, which AMX does not: a product takes 16 times as long.
  const bool narrow_products = target.amx && problem.dtype == DataType::bf16;
  const bool possible =
      has_tasks && !narrow_products && winograd_obstacle(Algorithm::winograd, problem).empty() &&
      options.arithmetic != Arithmetic::bf16 && options.arithmetic != Arithmetic::tf32 &&
      (options.points == Points::low_error || !avoids_direct(problem, options, target));
  const bool pays = possible && winograd_pays(problem, options, target);
  const bool competes = pays && !loses_accuracy(problem, options, target);
  if (few_channels_are_direct(problem, options, target) ||
      few_terms_are_direct(problem, options, target)) {
    return Algorithm::direct;
  }
  if (takes_implicit_gemm(problem, options, competes, target)) return Algorithm::implicit_gemm;
  const bool last_resort = possible && avoids_direct(problem, options, target);
  if (!pays && !last_resort) return Algorithm::direct;
  return fusing_pays(problem, options, target) ? Algorithm::fused_winograd : Algorithm::winograd;
}

void check_options(const ConvProblem& problem, const TilingOptions& options, const Target& target) {
  if (problem.layout == Layout::nchw16c && target.backend == Backend::cuda) {
    throw Error(Status::unsupported, "layout nchw16c: backend cuda, must be cpu");
  }
  if (options.m != 0) check_m(options.m);
  if (options.whole_tensors && (options.v_slots != 0 || options.m_slots != 0)) {
    throw Error(Status::invalid_argument, "v_slots = " + std::to_string(options.v_slots) +
                                              ", m_slots = " + std::to_string(options.m_slots) +
                                              ": must be 0 with whole_tensors");
  }
  if (target.workers == 0) {
    throw Error(Status::invalid_argument, "workers = 0: must be at least 1");
  }
}

}  // namespace

Tiling make_tiling(const ConvProblem& problem, const TilingOptions& asked, const Target& target) {
  validate(problem);
  check_options(problem, asked, target);
  if (asked.max_error) return tiling_within_budget(problem, asked, target);
  const TilingOptions options = options_behind_mesh(problem, asked, target);
  Tiling tiling;
  tiling.problem = problem;
  tiling.filters = options.filters;
  const ConvAlgorithm& algorithm = conv_algorithm(choose_algorithm(problem, options, target));
  tiling.cut = algorithm.empty_cut();
  algorithm.choose(tiling, options, target);
  if (options.arithmetic != Arithmetic::automatic && options.arithmetic != Arithmetic::fma) {
    if (!target.split_f16) {
      throw Error(Status::unsupported,
                  std::string("arithmetic ") + to_string(options.arithmetic) +
                      ": must be CUDA on tensor cores (compute capability 9.0; from 8.0 "
                      "with MEGACONV_CUDA_ISA=mma)");
    }
    tiling.arithmetic = options.arithmetic;
  }
  derive_counts(tiling);
  return tiling;
}

}  // namespace megaconv
