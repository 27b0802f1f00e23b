// SPDX-License-Identifier: Apache-2.0
// The verbs. Each add_... function adds one subcommand with its options; when that subcommand was
// chosen and its options are well formed, parsing sets `action` to what shall then be done.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "tools/verbs/exit_code.hpp"

namespace megaconv::cli {

using Action = std::function<ExitCode()>;

void add_info(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_verify(CLI::App& app, Action& action);
void add_map(CLI::App& app, Action& action);
void add_lab(CLI::App& app, Action& action);
void add_simulate(CLI::App& app, Action& action);
void add_net(CLI::App& app, Action& action);
// Verbs of `net`.
void add_net_compare(CLI::App& net, Action& action);
void add_net_tune(CLI::App& net, Action& action);
void add_trace(CLI::App& app, Action& action);
void add_tune(CLI::App& app, Action& action);
/// completion and manual: of all verbs that `app` has when they run.
void add_completion(CLI::App& app, Action& action);

}  // namespace megaconv::cli
