// SPDX-License-Identifier: Apache-2.0
// What a simulation or a calibration found, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "tools/report/what_if.hpp"

namespace megaconv::cli {

std::string simulation_text(const Lowering& lowering, const MachineModel& machine,
                            const WhatIfResult& result, const Bounds& bounds);
std::string simulation_json(const Lowering& lowering, const MachineModel& machine,
                            const WhatIfResult& result, const Bounds& bounds);
/// `names`: of the runs, in their order.
std::string calibration_table(const std::vector<std::string>& names,
                              const Calibration& calibration);

}  // namespace megaconv::cli
