// SPDX-License-Identifier: Apache-2.0
// The verbs below `tune`, a file for each group of them.
#pragma once

#include "tools/tune/tune_arguments.hpp"
#include "tools/verbs/commands.hpp"

namespace megaconv::cli {

void add_tune_ask_tell(CLI::App& tune, Action& action);  ///< space, ask, tell
void add_tune_data(CLI::App& tune, Action& action);      ///< best, show, diff
void add_tune_exchange(CLI::App& tune, Action& action);  ///< export, import, merge
void add_tune_report(CLI::App& tune, Action& action);

}  // namespace megaconv::cli
