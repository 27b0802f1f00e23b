// SPDX-License-Identifier: Apache-2.0
// Terminals: colour, width, progress, and numbers in a form people read.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace megaconv::cli {

/// stdout is a terminal that shows colours, and NO_COLOR is not set.
bool use_color();

/// Columns of the terminal on stdout; 100 when it is none.
int terminal_width();

/// Control characters (line breaks too) replaced by spaces; "?" for bytes that are not ASCII text.
std::string one_line(std::string_view text);

/// "1.5 KiB", "23.4 MiB"
std::string format_bytes(std::uint64_t bytes);
/// Three to four significant digits: "0.0123", "1.234", "123.4"
std::string format_ms(double milliseconds);

/// One line on stderr that is overwritten as work goes on; nothing when stderr is no terminal.
class Progress {
 public:
  Progress();
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// At most ten times a second.
  void show(const std::string& text);
  void clear();

 private:
  bool enabled_, shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace megaconv::cli
