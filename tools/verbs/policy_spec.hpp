// SPDX-License-Identifier: Apache-2.0
// A policy in one word: "staged", "interleaved:dig=264:m=2", "./mine.so", "order.json".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/verbs/plan_arguments.hpp"

namespace megaconv::cli {

/// Of lists with commas; parts of a policy follow after colons: dig, dgo, m, seed, and window
/// (whole or auto, or slots of V and M: window=4x2). A word with a slash or a known ending is a
/// file: a shared object (.so) with a policy, or a mapping file (.json).
struct PolicySpec {
  std::string text;
  PlanArguments apply(PlanArguments plan) const;

  MappingOptions mapping;
  std::string window, library, mapping_file;
  bool paced = false;
};

/// Throws Error(invalid_argument) naming the word that is wrong.
std::vector<PolicySpec> parse_policies(std::string_view list);

/// Adds --policy: a name, or a shared object (.so) with a policy. `launch`: an order that is named
/// is asked for, and CUDA then launches a persistent kernel.
void add_policy_option(CLI::App& app, PlanOptions& options, bool launch);

}  // namespace megaconv::cli
