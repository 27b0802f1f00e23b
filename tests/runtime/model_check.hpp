// SPDX-License-Identifier: Apache-2.0
// What the programs that check models under Relacy have in common.
#pragma once

#include <cstdio>
#include <ostream>
#include <relacy/relacy.hpp>
#include <string>

/// Whether no execution of a model that the search meets breaks one of its assertions.
template <class Model>
bool holds(rl::scheduler_type_e search, rl::iteration_t executions, unsigned preemptions) {
  rl::test_params params;
  params.search_type = search;
  params.iteration_count = executions;
  params.context_bound = preemptions;
  std::ostream ignored(nullptr);
  params.output_stream = &ignored;
  params.progress_stream = &ignored;
  const bool ok = rl::simulate<Model>(params);
  std::printf("%llu executions, ", static_cast<unsigned long long>(params.stop_iteration));
  return ok;
}

inline int failures = 0;

inline void expect(bool condition, const std::string& what) {
  std::printf("%s: %s\n", what.c_str(), condition ? "ok" : "FAILED");
  if (!condition) ++failures;
}

/// Expects that a model holds in so many random executions, and in all with at most so many
/// preemptions.
template <class Model>
void expect_right(rl::iteration_t executions, unsigned preemptions) {
  constexpr rl::iteration_t kUnbounded = 1'000'000'000;
  expect(holds<Model>(rl::random_scheduler_type, executions, 0), "random executions");
  expect(holds<Model>(rl::fair_context_bound_scheduler_type, kUnbounded, preemptions),
         "every execution with at most " + std::to_string(preemptions) + " preemptions");
}

/// Expects that a weakened model breaks in one of so many random executions.
template <class Model>
void expect_caught(rl::iteration_t executions, const std::string& fault) {
  expect(!holds<Model>(rl::random_scheduler_type, executions, 0), fault + " is caught");
}
