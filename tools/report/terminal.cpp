// SPDX-License-Identifier: Apache-2.0
#include "tools/report/terminal.hpp"

#include <spdlog/fmt/fmt.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace megaconv::cli {

bool use_color() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || *no_color == '\0') &&
         term != nullptr && std::string_view(term) != "dumb";
}

int terminal_width() {
  constexpr int kDefault = 100, kLeast = 40, kMost = 240;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefault;
  return std::clamp<int>(size.ws_col, kLeast, kMost);
}

std::string one_line(std::string_view text) {
  std::string line;
  for (const char ch : text) {
    const auto byte = static_cast<unsigned char>(ch);
    line += byte < 0x20 || byte == 0x7f ? ' ' : byte >= 0x80 ? '?' : ch;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_ms(double milliseconds) {
  if (milliseconds < 0.1) return fmt::format("{:.4f}", milliseconds);
  if (milliseconds < 10) return fmt::format("{:.3f}", milliseconds);
  return fmt::format("{:.{}f}", milliseconds, milliseconds < 100 ? 2 : 1);
}

Progress::Progress() : enabled_(isatty(STDERR_FILENO) != 0) {}

void Progress::show(const std::string& text) {
  if (!enabled_) return;
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  shown_ = true;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
}

void Progress::clear() {
  if (!shown_) return;
  shown_ = false;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

}  // namespace megaconv::cli
