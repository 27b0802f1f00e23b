// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>
#include <string>

#include "megaconv/error.hpp"

namespace megaconv::cli {

void init_log() {
  log().set_pattern("megaconv: %^%l%$: %v");
  log().set_level(spdlog::level::warn);
  const char* variable = std::getenv("MEGACONV_LOG_LEVEL");
  if (variable == nullptr || *variable == '\0') return;
  const std::string name = variable;
  const auto level = spdlog::level::from_str(name);
  if (level == spdlog::level::off && name != "off") {  // from_str's answer to what it does not know
    throw Error(Status::invalid_argument,
                "MEGACONV_LOG_LEVEL=" + name +
                    ", must be trace, debug, info, warn, error, critical or off");
  }
  log().set_level(level);
}

// A logger of our own: the default one belongs to a program that embeds spdlog.
spdlog::logger& log() {
  static const auto logger = spdlog::stderr_color_mt("megaconv");
  return *logger;
}

}  // namespace megaconv::cli
