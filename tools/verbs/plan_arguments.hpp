// SPDX-License-Identifier: Apache-2.0
// How a problem shall be computed: the plan options that all verbs share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megaconv/plan.hpp"
#include "megaconv/tuning.hpp"

namespace CLI {
class App;
}

namespace megaconv::cli {

struct PlanArguments {
  PlanOptions options;
  std::string mapping_file;
  Configuration configuration;  ///< of --config; takes the place of the options it names
  std::uint64_t seed = 1;       ///< of everything random: data, orders, problems
};

/// Adds --algo, --tile, --points, --policy, ... `arguments` must outlive the parsing.
void add_plan_options(CLI::App& app, PlanArguments& arguments);

/// Adds --machine alone.
void add_machine_option(CLI::App& app, PlanArguments& arguments);

/// Adds --set, --vary and --turns, which tools/report/what_if.hpp takes.
void add_what_if_options(CLI::App& app, std::vector<std::string>& set, std::string& vary,
                         int& turns);

/// Adds --dig, --dgo and --m-groups.
void add_distance_options(CLI::App& app, MappingOptions& mapping);

/// Adds --database.
void add_database_option(CLI::App& app, PlanOptions& options);

/// Adds --backend, --launch, --precision, --plan and --database as networks have them.
void add_network_device_options(CLI::App& app, PlanOptions& options);

/// Reads "auto", "whole" or "4,2", slots of V and M. Throws Error(invalid_argument).
void parse_window(const std::string& text, TilingOptions& tiling);

/// A preset's name, or a file with a machine model. Throws Error(invalid_argument),
/// Error(device_error) for an unreadable file.
MachineModel load_machine(const std::string& name_or_file);

/// The machine that the arguments simulate.
MachineModel machine_of(const PlanArguments& arguments);

/// The plan. With --mapping the file decides everything but the threads, and must be for `problem`.
/// Throws what Plan::create and import_mapping throw, Error(device_error) for an unreadable file.
Plan make_plan(const ConvProblem& problem, const PlanArguments& arguments);

/// The plan of --mapping, for the problem in the file.
Plan make_plan_from_file(const PlanArguments& arguments);

/// The options that make these arguments, without those that have their default: part of a command
/// that does the same again.
std::string to_command_line(const PlanArguments& arguments);

}  // namespace megaconv::cli
