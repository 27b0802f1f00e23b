// SPDX-License-Identifier: Apache-2.0
// One case of `verify`: a problem and everything that decides how it is computed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/problem.hpp"
#include "tools/verbs/plan_arguments.hpp"

namespace megaconv::cli {

struct VerifyCase {
  ConvProblem problem;
  PlanArguments plan;
  bool integer = false;  ///< integers instead of random numbers: every bit must be right
};

/// The command that checks exactly this case.
std::string to_command(const VerifyCase& item);

/// What checking a case told.
struct CaseVerdict {
  std::string failure;          ///< empty: right
  std::optional<Status> error;  ///< of a failure that is an exception
  std::string refusal;          ///< why there is no such plan, when its options allow that
  std::string algorithm;        ///< algorithm_text()
  double share_of_bound = 0;    ///< error / bound; share_of_bound()

  bool failed() const { return !failure.empty(); }
  bool refused() const { return !refusal.empty(); }
};

/// Runs the case three times: in poisoned memory; again in the same workspace; and with another
/// number of workers. Compares with the double reference within both bounds, the three results with
/// each other bit for bit, and looks for writes outside of y and the workspace, and into inputs.
CaseVerdict check(const VerifyCase& item);

/// Largest values of random cases.
struct VerifyLimits {
  std::int64_t batch = 3, channels = 48, extent = 32, filter = 7;
  std::uint32_t threads = 4;
  bool tensor_cores = false;  ///< CUDA: the device runs tasks for tensor cores
};

/// The case that belongs to a seed, of any storage type or that one. Half of them are problems that
/// Winograd takes.
VerifyCase random_case(std::uint64_t seed, const VerifyLimits& limits, bool integer,
                       Backend backend = Backend::cpu, std::optional<DataType> dtype = {});

/// The case with an extent halved or a feature dropped, each of the valid ones.
std::vector<VerifyCase> simpler_cases(const VerifyCase& item);

/// Follows simpler cases as long as they fail too; `item` fails.
VerifyCase shrink(VerifyCase item, const std::function<bool(const VerifyCase&)>& fails);

}  // namespace megaconv::cli
