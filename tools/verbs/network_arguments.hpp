// SPDX-License-Identifier: Apache-2.0
// The options that all verbs of `megaconv net` share.
#pragma once

#include "tools/run/network_source.hpp"
#include "tools/verbs/plan_arguments.hpp"

namespace megaconv::cli {

/// Adds --batch, --image, --classes, --dtype and --layout. `network` must outlive the parsing.
void add_network_options(CLI::App& app, NetworkChoice& network);

/// Adds --algo, --backend, --launch, --precision, --threads and --seed. `plan` must outlive the
/// parsing.
void add_network_plan_options(CLI::App& app, PlanArguments& plan);

/// The network of that word.
Network network_of(const std::string& word, NetworkChoice choice, const PlanArguments& plan);

/// The options of its plan.
PlanOptions network_plan_options(const PlanArguments& plan);

}  // namespace megaconv::cli
