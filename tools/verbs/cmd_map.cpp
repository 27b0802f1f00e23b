// SPDX-License-Identifier: Apache-2.0
// megaconv map: look at a mapping, write it to a file, check a file, compare two.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "megaconv/error.hpp"
#include "megaconv/plan.hpp"
#include "tasks/launch.hpp"
#include "tasks/lower.hpp"
#include "tools/report/graph_dot.hpp"
#include "tools/report/map_picture.hpp"
#include "tools/report/mapping_diff.hpp"
#include "tools/report/summary.hpp"
#include "tools/report/terminal.hpp"
#include "tools/run/file_io.hpp"
#include "tools/verbs/commands.hpp"
#include "tools/verbs/plan_arguments.hpp"
#include "tools/verbs/problem_selection.hpp"

namespace megaconv::cli {
namespace {

struct MapArguments {
  ProblemArguments problem;
  PlanArguments plan;
  std::string output;
  std::string device;  ///< a GPU that need not be there
};

/// What is shown or written; its workspace is known where the device is.
struct Selected {
  Lowering lowering;
  std::optional<std::size_t> workspace_bytes{};
  explicit Selected(const Plan& plan)
      : lowering(plan.lowering()), workspace_bytes(plan.workspace_bytes()) {}
  explicit Selected(Lowering made) : lowering(std::move(made)) {}
};

/// As a plan for that GPU would have it.
Lowering lower_for_device(const ConvProblem& problem, const MapArguments& arguments) {
  PlanOptions options = arguments.plan.options;
  if (options.backend != Backend::cuda) {
    throw Error(Status::invalid_argument, "--device needs --backend cuda");
  }
  const MachineModel gpu = load_machine(arguments.device);
  Target target = target_of(gpu);
  if (target.backend != Backend::cuda) {
    throw Error(Status::invalid_argument,
                fmt::format("--device {}, must be a GPU: h200, h200_fma, h100, a100, v100 or a "
                            "file with a model",
                            arguments.device));
  }
  if (target.split_f16) target.multiprocessors = gpu.units;  // no model simulates implicit GEMM
  options.mapping.seed = arguments.plan.seed;
  const auto [launched, reason, tiling] = choose_launch(problem, options, target);
  return lower(tiling, launched.tiling, launched.mapping, target, launched.policy);
}

/// What the options ask for: of a problem, or the one in --mapping.
Selected selected_mapping(const MapArguments& arguments, const char* verb) {
  const std::vector<NamedProblem> selected = select_problems(arguments.problem);
  if (!selected.empty() && !arguments.device.empty()) {
    return Selected(lower_for_device(selected.front().problem, arguments));
  }
  if (!selected.empty()) return Selected(make_plan(selected.front().problem, arguments.plan));
  if (!arguments.plan.mapping_file.empty()) return Selected(make_plan_from_file(arguments.plan));
  throw Error(Status::invalid_argument,
              fmt::format("map {0} needs a PROBLEM or --mapping (see map {0} --help)", verb));
}

ExitCode show(const MapArguments& arguments) {
  const Selected selected = selected_mapping(arguments, "show");
  const Lowering& lowering = selected.lowering;
  const MappingStats found = stats(lowering.graph, lowering.mapping);
  for (const std::string& line : mapping_properties(lowering)) {
    const std::size_t colon = line.find(':');
    fmt::print("{:<16}{}\n", line.substr(0, colon), line.substr(std::min(colon + 2, line.size())));
  }
  if (selected.workspace_bytes) {
    fmt::print("{:<16}{}\n", "workspace", format_bytes(*selected.workspace_bytes));
  }
  std::fputs("\n", stdout);
  std::fputs(mapping_picture(lowering, terminal_width(), use_color()).c_str(), stdout);
  fmt::print(
      "\nrows: filter (F), input (I), output (O) transforms, GEMM (G), direct (D);\n"
      "columns: positions of the mapping, the darker the more tasks of that kind\n");
  if (lowering.tiling().algorithm() == Algorithm::winograd) {
    fmt::print("\nleast distance  input transform to GEMM {}, GEMM to output transform {}\n",
               found.least_dig, found.least_dgo);
    std::string live;
    for (std::size_t id = 0; id < lowering.graph.buffers.size(); ++id) {
      if (!lowering.graph.buffers[id].windowed) continue;
      live += lowering.graph.buffers[id].name + " of " +
              count_text(found.live_groups[id], "group") + ", ";
    }
    fmt::print("live at most    {}{} together\n", live, format_bytes(found.live_bytes));
  }
  return ExitCode::ok;
}

ExitCode export_file(const MapArguments& arguments) {
  if (!arguments.output.empty()) require_writable(arguments.output);
  const Lowering lowering = selected_mapping(arguments, "export").lowering;
  const std::string text = export_mapping(lowering);
  if (arguments.output.empty()) {
    std::fputs(text.c_str(), stdout);
  } else {
    write_file(arguments.output, text);
    fmt::print("{}: {}\n", arguments.output, count_text(lowering.mapping.order.size(), "task"));
  }
  return ExitCode::ok;
}

ExitCode graph(const MapArguments& arguments) {
  if (!arguments.output.empty()) require_writable(arguments.output);
  const std::string text = graph_dot(selected_mapping(arguments, "graph").lowering);
  if (arguments.output.empty()) {
    std::fputs(text.c_str(), stdout);
  } else {
    write_file(arguments.output, text);
  }
  return ExitCode::ok;
}

Lowering read_mapping(const std::string& file, const ConvProblem* expected = nullptr) {
  const std::string text = read_file(file);
  try {
    return import_mapping(text, expected);
  } catch (const Error& error) {
    throw Error(error.status(), file + ": " + error.what());
  }
}

ExitCode validate_file(const std::string& file, const std::string& problem_text) {
  ConvProblem expected;
  if (!problem_text.empty()) expected = parse_problem(problem_text);
  const Lowering lowering = read_mapping(file, problem_text.empty() ? nullptr : &expected);
  fmt::print(
      "{}: right\n"
      "  problem {}, {}, {} order, {}\n"
      "  every task exactly once, every wait complete, every producer before its consumers\n",
      file, to_string(lowering.tiling().problem), algorithm_text(lowering.tiling()),
      lowering.mapping.policy, count_text(lowering.mapping.order.size(), "task"));
  return ExitCode::ok;
}

ExitCode diff(const std::string& first, const std::string& second) {
  const std::string text = mapping_diff(read_mapping(first), read_mapping(second));
  std::fputs(text.c_str(), stdout);
  return text.empty() ? ExitCode::ok : ExitCode::different;
}

void add_show_or_export(CLI::App& map, Action& action, const char* name, const char* description,
                        ExitCode (*command)(const MapArguments&), bool with_output) {
  CLI::App* verb = map.add_subcommand(name, description);
  const auto arguments = std::make_shared<MapArguments>();
  add_problem_options(*verb, arguments->problem, Selection::one);
  if (with_output) {
    verb->add_option("-o,--output", arguments->output, "File to write instead of stdout")
        ->type_name("FILE");
  }
  add_plan_options(*verb, arguments->plan);
  verb->add_option("--device", arguments->device,
                   "With --backend cuda: the GPU to plan for, which need not be there: h200, ...")
      ->type_name("NAME|FILE")
      ->group("Plan")
      ->excludes(verb->get_option("--mapping"))
      ->excludes(verb->get_option("--config"));
  verb->callback([=, &action] { action = [=] { return command(*arguments); }; });
  verb->footer(with_output ? "\nExamples:\n"
                             "  megaconv map export n1c64h56k64 --algo winograd -o conv2.json\n"
                             "  megaconv map export n1c64h56k64 --policy depth_first | less\n"
                             "  megaconv map graph n1c16h16k32 | dot -Tsvg -o graph.svg"
                           : "\nExamples:\n"
                             "  megaconv map show n1c64h56k64 --algo winograd\n"
                             "  megaconv map show n64c128h28k128 --backend cuda --device h200\n"
                             "  megaconv map show n1c64h56k64 --policy staged --window whole\n"
                             "  megaconv map show --mapping conv2.json");
}

/// A subcommand with two positional arguments.
void add_file_verb(CLI::App& map, Action& action, const char* name, const char* description,
                   const char* second_name, bool second_required, const char* second_description,
                   const char* footer,
                   ExitCode (*command)(const std::string&, const std::string&)) {
  CLI::App* verb = map.add_subcommand(name, description);
  const auto first = std::make_shared<std::string>(), second = std::make_shared<std::string>();
  verb->add_option("file", *first, "Mapping file")->type_name("FILE")->required();
  verb->add_option(second_name, *second, second_description)
      ->type_name(second_required ? "FILE" : "PROBLEM")
      ->required(second_required);
  verb->callback([=, &action] { action = [=] { return command(*first, *second); }; });
  verb->footer(footer);
}

}  // namespace

void add_map(CLI::App& app, Action& action) {
  CLI::App* map = app.add_subcommand("map", "Show, export, validate and compare mappings");
  map->callback([map] {
    if (!map->get_subcommands().empty()) return;
    throw Error(Status::invalid_argument,
                "map needs one of show, export, graph, validate or diff (see map --help)");
  });
  map->footer(
      "\nExamples:\n"
      "  megaconv map show n1c64h56k64 --algo winograd\n"
      "  megaconv map export n1c64h56k64 --algo winograd -o conv2.json\n"
      "  megaconv map validate conv2.json\n"
      "  megaconv map diff conv2.json mine.json");
  add_show_or_export(*map, action, "show", "Picture and properties of a mapping", show, false);
  add_show_or_export(*map, action, "export", "Write a mapping file", export_file, true);
  add_show_or_export(*map, action, "graph", "A small task graph for Graphviz", graph, true);
  add_file_verb(*map, action, "validate", "Prove that a mapping file is right", "problem", false,
                "Problem that it must be for",
                "\nExamples:\n"
                "  megaconv map validate conv2.json\n"
                "  megaconv map validate conv2.json n1c64h56k64",
                validate_file);
  add_file_verb(*map, action, "diff", "Compare two mapping files; status 1 when they differ",
                "other", true, "Mapping file to compare with",
                "\nExample:\n  megaconv map diff conv2.json mine.json", diff);
}

}  // namespace megaconv::cli
