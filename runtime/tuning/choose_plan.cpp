// SPDX-License-Identifier: Apache-2.0
#include "runtime/tuning/choose_plan.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include "megaconv/error.hpp"
#include "megaconv/plan_database.hpp"
#include "runtime/machine.hpp"

namespace megaconv {
namespace {

// A tuned configuration must not undo what the caller fixed, nor be less exact than what the
// library chooses unasked.
bool agrees(const Configuration& configuration, const PlanOptions& options) {
  for (std::size_t i = 0; i < kNumParameters; ++i) {
    const auto parameter = static_cast<Parameter>(i);
    const std::optional<std::int64_t> fixed = fixed_value(parameter, options);
    if (fixed && configuration.get(parameter) != fixed) return false;
  }
  // The key says how many threads there are, and a search tries no more.
  if (options.backend == Backend::cpu &&
      configuration.get(Parameter::workers).value_or(0) > resolve_workers(options.num_threads)) {
    return false;
  }
  const bool whole = configuration.get(Parameter::window) == 1;
  if ((options.tiling.v_slots != 0 || options.tiling.m_slots != 0) && whole) return false;
  const auto less_exact = [&](Parameter parameter, std::int64_t value) {
    return configuration.get(parameter) == value && !fixed_value(parameter, options);
  };
  return options.tiling.max_error ||
         (!less_exact(Parameter::tile, 6) &&
          !less_exact(Parameter::points, static_cast<std::int64_t>(Points::integer)));
}

// What is planned, as far as the database is concerned.
struct Wanted {
  std::function<std::vector<PlanKey>()> keys;
  std::function<bool(const PlanOptions& chosen)> within_budget;
};

// Whether a tuned configuration is within the error budget, if there is one.
bool within_budget(const ConvProblem& problem, const PlanOptions& chosen) {
  if (!chosen.tiling.max_error) return true;
  try {
    make_tiling(problem, chosen.tiling, target_of(chosen));
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool fits(std::size_t bytes, const PlanOptions& options) {
  return options.workspace_limit == 0 || bytes <= options.workspace_limit;
}

std::string origin_of(const Measurement& measurement, const std::string& file) {
  char time[32];
  std::snprintf(time, sizeof time, "%.4g ms", measurement.best_ms);
  return "database " + file + ", " + time + " when measured " + measurement.measured_at;
}

/// A database decides what runs. One that nobody named must be this user's or root's.
void require_trusted(const std::string& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return;  // opening it says why
  const bool ours = status.st_uid == geteuid() || status.st_uid == 0;
  if (ours && (status.st_mode & S_IWOTH) == 0) return;
  throw Error(Status::device_error,
              "plan database " + file + ": it is not used, because " +
                  (ours ? "everybody may write it" : "it belongs to another user"));
}

// What was searched for within the error budget, then what was searched for without one.
template <class Problem>
std::vector<PlanKey> keys_of(const Problem& problem, PlanOptions options) {
  std::vector<PlanKey> keys = {plan_key(problem, options)};
  if (options.tiling.max_error) {
    options.tiling.max_error.reset();
    keys.push_back(plan_key(problem, options));
  }
  return keys;
}

/// The fastest row that can be used; nullopt with the reason in `note`.
std::optional<Choice> choose_from_file(const std::string& file, const Wanted& wanted,
                                       const PlanOptions& options, const WorkspaceOf& workspace_of,
                                       std::string& note) {
  try {
    if (options.database.empty()) require_trusted(file);
    const PlanDatabase database(file, PlanDatabase::Access::read);
    std::uint64_t known = 0, foreign = 0, over_budget = 0;
    for (const PlanKey& key : wanted.keys()) {
      for (const Measurement& measurement : rank(database.tried(key))) {
        ++known;
        if (!agrees(measurement.configuration, options)) continue;
        PlanOptions chosen = apply(measurement.configuration, options);
        if (!wanted.within_budget(chosen)) {
          ++over_budget;
        } else if (fits(workspace_of(chosen), options)) {
          return Choice{chosen, origin_of(measurement, file), true};
        }
      }
      foreign += database.num_foreign(key);
    }
    note = known == 0 ? "does not know this problem" : "has nothing that fits what is fixed";
    if (over_budget != 0) {
      note += "; " + std::to_string(over_budget) + " plans exceed the error budget";
    }
    if (known == 0 && foreign != 0) {
      note += "; measurements for " + std::to_string(foreign) +
              " other devices, drivers or builds are ignored";
    }
    note = file + ' ' + note;
  } catch (const Error& error) {
    note = error.what();
  }
  return std::nullopt;
}

// The fastest first, as a rule: a launch that takes a window; on tensor cores, no V and M at all;
// shorter distances; one group after the other; direct convolution.
std::vector<PlanOptions> thriftier(const PlanOptions& options) {
  std::vector<PlanOptions> tries(5, options);
  tries[0].cuda_launch = CudaLaunch::persistent;
  tries[1].tiling.algorithm = Algorithm::implicit_gemm;
  tries[2].mapping.dig = tries[2].mapping.dgo = tries[2].mapping.m_groups = 1;
  tries[3].mapping.policy = "depth_first";
  tries[3].tiling.group_tiles = 14;
  tries[4].tiling.algorithm = Algorithm::direct;
  if (options.backend != Backend::cuda) tries.erase(tries.begin(), tries.begin() + 2);
  std::erase_if(tries, [&](const PlanOptions& attempt) {
    for (std::size_t i = 0; i < kNumParameters; ++i) {
      const auto parameter = static_cast<Parameter>(i);
      const std::optional<std::int64_t> fixed = fixed_value(parameter, options);
      if (fixed && fixed_value(parameter, attempt) != fixed) return true;
    }
    return options.tiling.whole_tensors;
  });
  return tries;
}

Choice choose_by_heuristic(const PlanOptions& options, const WorkspaceOf& workspace_of) {
  if (options.workspace_limit == 0) return {options, "heuristic"};
  std::size_t least = workspace_of(options);
  if (fits(least, options)) return {options, "heuristic", true};
  for (const PlanOptions& attempt : thriftier(options)) {
    try {
      const std::size_t bytes = workspace_of(attempt);
      if (fits(bytes, options)) return {attempt, "heuristic, for the workspace limit", true};
      least = std::min(least, bytes);
    } catch (const Error&) {  // not for this problem or back end
    }
  }
  throw Error(Status::out_of_memory, "workspace limit " + std::to_string(options.workspace_limit) +
                                         " bytes, must be at least " + std::to_string(least));
}

// From the files that the options say, else by the heuristics.
Choice choose_known(const Wanted& wanted, const PlanOptions& options,
                    const WorkspaceOf& workspace_of) {
  std::string notes;
  if (options.source == PlanSource::database) {
    const std::vector<std::string> files = database_files(options);
    if (files.empty()) notes = "no plan database";
    for (const std::string& file : files) {
      std::string note;
      if (std::optional<Choice> choice =
              choose_from_file(file, wanted, options, workspace_of, note)) {
        return *choice;
      }
      notes += (notes.empty() ? "" : "; ") + note;
    }
  }
  Choice choice = choose_by_heuristic(options, workspace_of);
  if (!notes.empty()) choice.origin += " (" + notes + ')';
  return choice;
}

constexpr const char* kOwnPolicy = "the caller's policy";

}  // namespace

Choice choose_plan(const ConvProblem& problem, const PlanOptions& options,
                   const WorkspaceOf& workspace_of) {
  if (options.policy) return {options, kOwnPolicy};
  if (options.source == PlanSource::measure) return choose_by_measuring(problem, options);
  const Wanted wanted{[&] { return keys_of(problem, options); },
                      [&](const PlanOptions& chosen) { return within_budget(problem, chosen); }};
  return choose_known(wanted, options, workspace_of);
}

Choice choose_plan(const Network& network, const PlanOptions& options,
                   const WorkspaceOf& workspace_of) {
  if (options.policy) return {options, kOwnPolicy};
  // Planning holds every convolution to the budget.
  const Wanted wanted{[&] { return keys_of(network, options); },
                      [](const PlanOptions&) { return true; }};
  return choose_known(wanted, options, workspace_of);
}

}  // namespace megaconv
