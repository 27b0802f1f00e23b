// SPDX-License-Identifier: Apache-2.0
// The process that measures. A candidate that crashes or hangs ends that process, not the sweep:
// it is started again for the next candidate.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "megaconv/plan_database.hpp"
#include "tools/run/child_process.hpp"

namespace megaconv::cli {

class MeasuringProcess {
 public:
  /// `command`: program and arguments; it speaks as `tune measure` does (docs/tuning.md).
  MeasuringProcess(std::vector<std::string> command, std::chrono::duration<double> patience)
      : process_(std::move(command)), patience_(patience) {}

  /// What it measures for; starts it. Throws the Error that kept it from starting.
  PlanKey key();
  /// nullopt: interrupted (interrupt.hpp); what was being measured is lost.
  std::optional<Measurement> measure(const Configuration& configuration, double best_ms);

 private:
  void start();

  ChildProcess process_;
  std::chrono::duration<double> patience_;
  PlanKey key_;
};

}  // namespace megaconv::cli
