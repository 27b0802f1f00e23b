// SPDX-License-Identifier: Apache-2.0
#include "tasks/error_budget.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

#include "megaconv/error.hpp"
#include "tasks/conv_algorithm.hpp"
#include "tasks/error_bound.hpp"

namespace megaconv {
namespace {

std::string number_text(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", number);
  return text;
}

// Two digits, rounded up.
std::string bound_text(double error) {
  if (error == 0) return "0";
  const double digit = std::pow(10, std::floor(std::log10(error)) - 1);
  return number_text(std::ceil(error / digit) * digit);
}

// First what is chosen with products of rounded numbers, and with exact ones. Then tiles of
// Winograd that err less. At last every algorithm in its most exact form, even where another one is
// faster. F(6x6) is not tried unasked: whether it is faster, only a search can say.
std::vector<TilingOptions> attempts(const TilingOptions& options, const Target& target) {
  std::vector<TilingOptions> attempts;
  const auto add = [&](Precision precision, Algorithm algorithm, std::uint32_t m) {
    TilingOptions attempt = options;
    attempt.max_error.reset();
    attempt.precision = precision;
    attempt.algorithm = algorithm;
    attempt.m = m;
    attempts.push_back(attempt);
  };
  const bool any_algorithm = options.algorithm == Algorithm::automatic && options.m == 0;
  for (const Precision precision : {Precision::f16, Precision::f32}) {
    add(precision, options.algorithm, options.m);
    if (any_algorithm && target.split_f16) add(precision, Algorithm::implicit_gemm, 0);
  }
  if (options.m == 0) {
    for (const std::uint32_t m : {4u, 2u}) add(Precision::f32, options.algorithm, m);
  }
  if (any_algorithm) {
    for (const ConvAlgorithm* const algorithm : conv_algorithms()) {
      const bool on_tensor_cores =
          algorithm->id() == Algorithm::implicit_gemm || algorithm->id() == Algorithm::small_gemm;
      if (algorithm->runs_on(target.backend) && !on_tensor_cores) {
        add(Precision::f32, algorithm->id(), 2);
      }
    }
  }
  return attempts;
}

struct Candidate {
  Tiling tiling;
  double error = 0;
  std::string name() const { return algorithm_of(tiling).name(tiling); }
};

// Up to the first within the budget, which is the last then; not the same twice.
struct Search {
  std::vector<Candidate> candidates;
  std::optional<Error> obstacle;  // to the first attempt that is none

  Search(const ConvProblem& problem, const TilingOptions& options, const Target& target) {
    for (const TilingOptions& attempt : attempts(options, target)) {
      try {
        const Tiling tiling = make_tiling(problem, attempt, target);
        if (!algorithm_of(tiling).runs_on(target.backend)) continue;
        candidates.push_back({tiling, error_bound(tiling).relative_l2});
        if (candidates.back().error <= *options.max_error) return;
      } catch (const Error& error) {  // not for this problem or target
        if (!obstacle) obstacle = error;
      }
    }
  }
};

}  // namespace

void check_error_budget(const TilingOptions& options) {
  if (!options.max_error) return;
  if (!(*options.max_error > 0) || std::isinf(*options.max_error)) {
    throw Error(Status::invalid_argument, "max_error = " + number_text(*options.max_error) +
                                              ": must be a number greater than 0");
  }
  if (options.precision != Precision::f32) {
    throw Error(Status::invalid_argument,
                std::string("precision ") + to_string(options.precision) +
                    ": must be left out with max_error, within which it is chosen");
  }
}

Tiling tiling_within_budget(const ConvProblem& problem, const TilingOptions& options,
                            const Target& target) {
  check_error_budget(options);
  const Search search(problem, options, target);
  if (search.candidates.empty()) throw *search.obstacle;
  const Candidate& last = search.candidates.back();
  if (last.error <= *options.max_error) return last.tiling;
  const auto least =
      std::min_element(search.candidates.begin(), search.candidates.end(),
                       [](const auto& a, const auto& b) { return a.error < b.error; });
  throw Error(Status::unsupported,
              over_budget_text(*options.max_error, least->error, least->name()) +
                  ", the least error that is possible");
}

void require_within_budget(const Tiling& tiling, const TilingOptions& options) {
  check_error_budget(options);
  if (!options.max_error) return;
  const double error = error_bound(tiling).relative_l2;
  if (error <= *options.max_error) return;
  throw Error(Status::unsupported,
              over_budget_text(*options.max_error, error, algorithm_of(tiling).name(tiling)));
}

std::string over_budget_text(double max_error, double error, const std::string& name) {
  return "max_error = " + number_text(max_error) + ": must be at least " + bound_text(error) +
         ", the bound of " + name;
}

std::string budget_text(const ConvProblem& problem, const TilingOptions& options,
                        const Target& target) {
  if (!options.max_error) return "";
  const Search search(problem, options, target);
  std::string text, rejected;
  for (const Candidate& candidate : search.candidates) {
    if (candidate.error <= *options.max_error) {
      text = "error: at most " + bound_text(candidate.error) +
             ", within max_error = " + number_text(*options.max_error) + '\n';
      continue;
    }
    const std::string line =
        "rejected: " + candidate.name() + ": error " + bound_text(candidate.error) + '\n';
    if (rejected.find(line) == std::string::npos) rejected += line;
  }
  return text + rejected;
}

}  // namespace megaconv
