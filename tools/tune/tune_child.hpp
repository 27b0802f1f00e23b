// SPDX-License-Identifier: Apache-2.0
// The process that measures. A candidate that crashes or hangs ends that process, not the sweep:
// it is started again for the next candidate.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "megaconv/plan_database.hpp"

namespace megaconv::cli {

class MeasuringProcess {
 public:
  /// `command`: program and arguments; it speaks as `tune measure` does (docs/tuning.md).
  MeasuringProcess(std::vector<std::string> command, std::chrono::duration<double> patience);
  ~MeasuringProcess() { stop(); }
  MeasuringProcess(const MeasuringProcess&) = delete;
  MeasuringProcess& operator=(const MeasuringProcess&) = delete;

  /// What it measures for; starts it. Throws the Error that kept it from starting.
  PlanKey key();
  /// nullopt: interrupted (interrupt.hpp); what was being measured is lost.
  std::optional<Measurement> measure(const Configuration& configuration, double best_ms);

 private:
  void start();
  /// Ends it; returns how it ended: "signal 11 (Segmentation fault)", "exit status 3".
  std::string stop();
  bool send(const std::string& line);
  enum class Outcome { line, ended, late, interrupted };
  Outcome receive(std::string& line, std::chrono::duration<double> patience);

  std::vector<std::string> command_;
  std::chrono::duration<double> patience_;
  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
  std::string received_;
  PlanKey key_;
};

}  // namespace megaconv::cli
