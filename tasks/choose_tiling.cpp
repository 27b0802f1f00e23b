// SPDX-License-Identifier: Apache-2.0
// Which algorithm a tiling takes. How it is cut then, the algorithm chooses.
//
// These are heuristics and may change freely; derive_counts() in tiling.cpp checks what must hold.
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/error_bound.hpp"
#include "tasks/implicit_gemm/implicit_gemm.hpp"
#include "tasks/tiling.hpp"
#include "tasks/winograd/winograd.hpp"

namespace megaconv {
namespace {

// CUDA's direct tasks multiply in FP32, without tensor cores: for 16 bits they are the last resort.
bool avoids_direct(const ConvProblem& problem, const TilingOptions& options, const Target& target) {
  return target.split_f16 && target.multiprocessors != 0 &&
         (problem.dtype != DataType::f32 || options.arithmetic == Arithmetic::f16 ||
          options.arithmetic == Arithmetic::tf32);
}

// Whoever says how groups or a window shall be, means one of the others; who names an arithmetic,
// an algorithm that has it.
bool takes_implicit_gemm(const ConvProblem& problem, const TilingOptions& options, bool winograd,
                         const Target& target) {
  const bool asked = options.m != 0 || options.group_tiles != 0 || options.v_slots != 0 ||
                     options.m_slots != 0 || options.rows_per_group != 0;
  const Arithmetic arithmetic = implicit_gemm_arithmetic(problem, options);
  const bool possible = target.split_f16 && problem.layout != Layout::chwn &&
                        implicit_gemm_obstacle(problem).empty() &&
                        implicit_gemm_arithmetic_need(problem, arithmetic).empty();
  // Under strides every tap has K blocks of its own, mostly zeros where there are few channels.
  const bool wastes = has_strides(problem) && problem.c < std::int64_t{Tiling::kLaneBlock} &&
                      !folding_pays(problem);
  const bool no_other = !winograd && !wastes && avoids_direct(problem, options, target);
  return possible && !asked && (no_other || implicit_gemm_pays(problem, options, winograd, target));
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
  const bool possible =
      has_tasks && winograd_obstacle(Algorithm::winograd, problem).empty() &&
      options.arithmetic != Arithmetic::bf16 && options.arithmetic != Arithmetic::tf32 &&
      (options.points == Points::low_error || !avoids_direct(problem, options, target));
  const bool pays = possible && winograd_pays(problem, options, target);
  const bool competes = pays && !loses_accuracy(problem, options, target);
  if (takes_implicit_gemm(problem, options, competes, target)) return Algorithm::implicit_gemm;
  const bool last_resort = possible && avoids_direct(problem, options, target);
  if (!pays && !last_resort) return Algorithm::direct;
  return fusing_pays(problem, options, target) ? Algorithm::fused_winograd : Algorithm::winograd;
}

void check_options(const TilingOptions& options, const Target& target) {
  if (options.m != 0) check_m(options.m);
  if (!(options.max_error >= 0) || std::isinf(options.max_error)) {
    throw Error(Status::invalid_argument,
                "max_error = " + error_text(options.max_error) + ": must be a number, at least 0");
  }
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

namespace {

Tiling make_unbounded(const ConvProblem& problem, const TilingOptions& options,
                      const Target& target) {
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

// What may be tried within an error budget, as a rule the fastest first: what is chosen for the
// least precision that is permitted, then fewer multiplications before more.
std::vector<TilingOptions> attempts_within(const ConvProblem& problem, const TilingOptions& options,
                                           const Target& target) {
  std::vector<TilingOptions> attempts;
  const auto add = [&](Precision precision, Algorithm algorithm, std::uint32_t m) {
    if (options.algorithm != Algorithm::automatic && options.algorithm != algorithm) return;
    if (options.m != 0 && options.m != m) return;
    TilingOptions attempt = options;
    attempt.precision = precision;
    attempt.algorithm = algorithm;
    attempt.m = m;
    attempts.push_back(attempt);
  };
  for (const Precision precision : {Precision::f16, Precision::tf32, Precision::f32}) {
    add(precision, options.algorithm, options.m);
  }
  // A GPU has Winograd of multiply-adds for f32 tensors alone.
  if (target.backend != Backend::cuda || problem.dtype == DataType::f32) {
    for (const std::uint32_t m : {4u, 2u}) {
      add(Precision::f32, Algorithm::fused_winograd, m);
      add(Precision::f32, Algorithm::winograd, m);
    }
  }
  add(Precision::f32, Algorithm::implicit_gemm, options.m);
  add(Precision::f32, Algorithm::direct, options.m);
  return attempts;
}

}  // namespace

std::string error_text(double error) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", error);
  return text;
}

Tiling make_tiling(const ConvProblem& problem, const TilingOptions& options, const Target& target) {
  validate(problem);
  check_options(options, target);
  if (options.max_error == 0) return make_unbounded(problem, options, target);
  double least = std::numeric_limits<double>::infinity();
  std::string obstacle, name;
  for (const TilingOptions& attempt : attempts_within(problem, options, target)) {
    try {
      const Tiling tiling = make_unbounded(problem, attempt, target);
      if (!algorithm_of(tiling).runs_on(target.backend)) continue;
      const double error = error_bound(tiling).relative_l2;
      if (error <= options.max_error) return tiling;
      if (error < least) least = error, name = algorithm_of(tiling).name(tiling);
    } catch (const Error& error) {  // not for this problem or target
      if (obstacle.empty()) obstacle = error.what();
    }
  }
  if (name.empty()) throw Error(Status::unsupported, obstacle);
  throw Error(Status::unsupported, "max_error = " + error_text(options.max_error) +
                                       ": must be at least " + error_text(least) +
                                       ", the least error that is possible, of " + name);
}

}  // namespace megaconv
