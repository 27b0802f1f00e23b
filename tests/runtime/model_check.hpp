// SPDX-License-Identifier: Apache-2.0
// What the programs that check models under Relacy have in common.
#pragma once

#include <cstdio>
#include <ostream>
#include <relacy/relacy.hpp>

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

inline void expect(bool condition, const char* what) {
  std::printf("%s: %s\n", what, condition ? "ok" : "FAILED");
  if (!condition) ++failures;
}
