// SPDX-License-Identifier: Apache-2.0
// Changes of one number: of a machine model, or of the distances of Algorithm 1.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "megaconv/simulation.hpp"
#include "tools/report/confidence.hpp"
#include "tools/verbs/plan_arguments.hpp"

namespace megaconv::cli {

/// The machine with "hbm_gbps=2000" or "kinds.gemm.unit_gflops=400". Throws Error(invalid_argument)
/// for an unknown key or a value out of range.
MachineModel with_value(const MachineModel& machine, const std::string& assignment);

/// The machine of the plan's arguments, with all of these changes.
MachineModel machine_with(const PlanArguments& plan, const std::vector<std::string>& assignments);

/// One case: "hop_us=0.4", or "dig=264".
struct WhatIf {
  std::string text;
  /// Changes the machine of the plan (which must be set), or its mapping options.
  void apply(PlanArguments& plan) const;
};

/// "hop_us=0.2,0.4" as two cases. Throws Error(invalid_argument).
std::vector<WhatIf> parse_what_if(std::string_view text);

struct WhatIfResult {
  std::string text;
  Simulation first;  ///< of seed 1
  Estimate time_us;
  double bound_us = 0;
};

/// `turns` seeds from 1.
WhatIfResult simulate_turns(const std::string& text, const Lowering& lowering,
                            const MachineModel& machine, SimulationOptions options, int turns);

/// The same of every case of parse_what_if(text). `plan` has a machine; lowering_of() is given it
/// as the case changes it, and says what is simulated.
std::vector<WhatIfResult> simulate_cases(
    const std::string& text, const PlanArguments& plan, int turns,
    const std::function<Lowering(const PlanArguments&)>& lowering_of);

/// What the plan's arguments say of how tasks come to workers.
SimulationOptions simulation_options(const PlanArguments& plan);

std::string what_if_table(const std::vector<WhatIfResult>& results);
std::string what_if_json(const std::vector<WhatIfResult>& results);

}  // namespace megaconv::cli
