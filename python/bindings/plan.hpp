// SPDX-License-Identifier: Apache-2.0
// The parts of megaconv.Plan.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include <optional>
#include <string>
#include <variant>

#include "python/bindings/bindings.hpp"

namespace megaconv::python {

// Options that plans of a convolution and of a network share, as Python has them.
using MaybeNumber = std::optional<std::int64_t>;
/// A name, a function of a graph, or the order that it would return.
using OrderArray = nb::ndarray<nb::numpy, nb::ndim<1>>;
using Policy = std::optional<std::variant<std::string, nb::callable, OrderArray>>;
using MaybeError = std::optional<double>;
PlanOptions base_options(const std::string& backend, const std::string& algorithm,
                         const std::string& precision, const MaybeError& max_error);
/// Returns the policy if it is a function, for PythonPolicy::rethrow().
std::optional<PythonPolicy> set_policy(PlanOptions& options, const Policy& policy);
void set_order(PlanOptions& options, const MaybeNumber& dig, const MaybeNumber& dgo,
               const MaybeNumber& m_groups, std::int64_t seed);

/// Threads of the caller's own: a function run(count, body) that calls body(i) for every i below
/// count, and returns when all have returned. None: megaconv's pool. It must outlive the plan.
using RunWorkers = std::optional<nb::callable>;
WorkerThreads threads_of(const RunWorkers& run);

/// Memory for a run: `given`, or on a CPU the thread's own. Throws Error(out_of_memory).
void* workspace_of(nb::handle given, const Plan& plan);
void* stream_of(std::uintptr_t stream);

/// execute() and prepare_filters().
void bind_execute(nb::class_<Plan>& type);

}  // namespace megaconv::python
