// SPDX-License-Identifier: Apache-2.0
// A process for work that may crash or hang: it ends, not the command. It gets lines of JSON, and
// answers each with lines of JSON or with bytes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tools/run/json_lines.hpp"

namespace megaconv::cli {

class ChildProcess {
 public:
  /// `command`: program and arguments.
  explicit ChildProcess(std::vector<std::string> command) : command_(std::move(command)) {}
  ~ChildProcess() { stop(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  enum class Outcome { answered, ended, late, interrupted };

  bool running() const { return process_ >= 0; }
  /// Starts it; returns its first line, null when interrupted (interrupt.hpp). Throws the Error
  /// that kept it from starting, its own or one of the system.
  Json start();
  /// Ends it; returns how it ended: "signal 11 (Segmentation fault)", "exit status 3".
  std::string stop();

  Outcome send(const Json& request);
  Outcome receive(Json& answer, std::chrono::duration<double> patience);
  /// All of `bytes`; the patience is for each part that arrives.
  Outcome receive(std::span<std::byte> bytes, std::chrono::duration<double> patience);

 private:
  /// Into `memory`, as many bytes as there are; their number in `count`.
  Outcome read_some(std::span<std::byte> memory, std::chrono::duration<double> patience,
                    std::size_t& count);

  std::vector<std::string> command_;
  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
  std::string received_;  // and not asked for yet
};

/// Writes all of `bytes`; false when nobody reads them any more.
bool write_all(int file, std::span<const std::byte> bytes);

}  // namespace megaconv::cli
