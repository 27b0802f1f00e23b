// SPDX-License-Identifier: Apache-2.0
// The command's log: to stderr, silent below "warn" unless MEGACONV_LOG_LEVEL says otherwise.
#pragma once

#include <spdlog/spdlog.h>

namespace megaconv::cli {

/// Call once, first. Throws Error(invalid_argument) when MEGACONV_LOG_LEVEL is not a level.
void init_log();

spdlog::logger& log();

}  // namespace megaconv::cli
