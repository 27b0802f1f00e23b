// SPDX-License-Identifier: Apache-2.0
#include "tools/verbs/plan_arguments.hpp"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <string_view>

#include "megaconv/error.hpp"
#include "megaconv/tuning.hpp"
#include "tools/run/file_io.hpp"
#include "tools/verbs/choice.hpp"
#include "tools/verbs/number.hpp"
#include "tools/verbs/policy_spec.hpp"

namespace megaconv::cli {
namespace {

// Words are those of configurations (megaconv/tuning.hpp), and of what no configuration has.
template <class Value>
Choices<Value> words_of(Parameter parameter, std::initializer_list<Value> values,
                        Choices<Value> choices = {}) {
  for (const Value value : values) {
    choices.push_back({value_text(parameter, static_cast<std::int64_t>(value)), value});
  }
  return choices;
}

Choices<Algorithm> algorithms() {
  return words_of(Parameter::algo,
                  {Algorithm::direct, Algorithm::winograd, Algorithm::fused_winograd,
                   Algorithm::opencnn, Algorithm::implicit_gemm, Algorithm::small_gemm},
                  {{"auto", Algorithm::automatic}});
}
Choices<std::uint32_t> tiles() {
  return words_of<std::uint32_t>(Parameter::tile, {2, 4, kWideTile, 6});
}
Choices<Points> points() {
  return words_of(Parameter::points, {Points::low_error, Points::integer});
}
Choices<OutputLayout> output_layouts() {
  return words_of(Parameter::output_layout,
                  {OutputLayout::baseline, OutputLayout::optSTS64, OutputLayout::optSTS64_compact,
                   OutputLayout::optLDS64});
}
Choices<Arithmetic> arithmetics() {
  return words_of(
      Parameter::arithmetic,
      {Arithmetic::fma, Arithmetic::split_f16, Arithmetic::tf32, Arithmetic::f16, Arithmetic::bf16},
      {{"auto", Arithmetic::automatic}});
}
Choices<CudaLaunch> launches() {
  Choices<CudaLaunch> choices =
      words_of(Parameter::launch,
               {CudaLaunch::persistent, CudaLaunch::one_block_per_task, CudaLaunch::staged},
               {{"auto", CudaLaunch::automatic}});
  choices.push_back({"raw-block-index", CudaLaunch::raw_block_index});
  return choices;
}

const Choices<PlanSource> kSources =
    named({PlanSource::database, PlanSource::heuristic, PlanSource::measure});

template <class Value>
void add_choice(CLI::App& app, const char* name, Value& target, const Choices<Value>& choices,
                const char* type_name, const char* description) {
  app.add_option_function<std::string>(
         name,
         [name, &target, choices](const std::string& word) {
           target = choose<Value>(name, word, choices);
         },
         description)
      ->type_name(type_name)
      ->group("Plan");
}

void add_max_error_option(CLI::App& app, TilingOptions& tiling) {
  app.add_option("--max-error", tiling.max_error,
                 "Error budget: most relative L2 error that a convolution may have by its\n"
                 "bound; algorithm, tile and precision are chosen within it")
      ->type_name("E")
      ->group("Plan");
}

template <class Value>
void add_number(CLI::App& app, const char* name, Value& target, const char* description) {
  app.add_option(name, target, description)
      ->type_name("N")
      ->check(number_for(target))
      ->group("Plan");
}

}  // namespace

void parse_window(const std::string& text, TilingOptions& tiling) {
  tiling.whole_tensors = text == "whole";
  tiling.v_slots = tiling.m_slots = 0;
  if (text == "auto" || text == "whole") return;
  const char* const end = text.data() + text.size();
  const auto [comma, v_error] = std::from_chars(text.data(), end, tiling.v_slots);
  if (v_error == std::errc() && comma != end && *comma == ',') {
    const auto [stop, m_error] = std::from_chars(comma + 1, end, tiling.m_slots);
    if (m_error == std::errc() && stop == end && tiling.v_slots > 0 && tiling.m_slots > 0) return;
  }
  throw Error(Status::invalid_argument,
              "--window " + text +
                  ", must be auto, whole, or group slots of V and M, each at "
                  "least 1: 4,2");
}

MachineModel load_machine(const std::string& name_or_file) {
  const std::vector<std::string> names = machine_names();
  if (std::find(names.begin(), names.end(), name_or_file) != names.end()) {
    return machine_preset(name_or_file);
  }
  if (name_or_file.find_first_of("./") == std::string::npos) return machine_preset(name_or_file);
  const std::string text = read_file(name_or_file);
  try {
    return parse_machine(text);
  } catch (const Error& error) {
    throw Error(error.status(), name_or_file + ": " + error.what());
  }
}

MachineModel machine_of(const PlanArguments& arguments) {
  return arguments.options.machine ? *arguments.options.machine : machine_preset("h200");
}

void add_machine_option(CLI::App& app, PlanArguments& arguments) {
  app.add_option_function<std::string>(
         "--machine",
         [&arguments](const std::string& name) { arguments.options.machine = load_machine(name); },
         "Machine to simulate: h200 (default), h200_fma, h100, a100, v100, cpu, toy,\n"
         "or a file with a machine model")
      ->type_name("NAME|FILE")
      ->group("Plan");
}

void add_database_option(CLI::App& app, PlanOptions& options) {
  app.add_option("--database", options.database,
                 "Plan database; default: the user's, then the system's")
      ->type_name("FILE")
      ->group("Plan");
}

void add_what_if_options(CLI::App& app, std::vector<std::string>& set, std::string& vary,
                         int& turns) {
  app.add_option("--set", set, "Change a number of the machine: hbm_gbps=2000")
      ->type_name("KEY=N")
      ->group("Machine");
  app.add_option("--vary", vary, "Try values of one number: hop_us=0.2,0.4,0.8")
      ->type_name("KEY=LIST")
      ->group("Machine");
  app.add_option("--turns", turns, "Seeds of the noise to simulate")
      ->type_name("N")
      ->capture_default_str()
      ->check(number_from(1, 100000))
      ->group("Machine");
}

void add_network_device_options(CLI::App& app, PlanOptions& options) {
  add_choice<Backend>(app, "--backend", options.backend, named({Backend::cpu, Backend::cuda}),
                      "NAME", "cpu (default) or cuda");
  add_choice<CudaLaunch>(app, "--launch", options.cuda_launch,
                         {{"auto", CudaLaunch::automatic},
                          {"persistent", CudaLaunch::persistent},
                          {"staged", CudaLaunch::staged}},
                         "NAME", "CUDA: auto (default), persistent (one launch) or staged");
  add_choice<Precision>(app, "--precision", options.tiling.precision,
                        named({Precision::f32, Precision::tf32}), "NAME",
                        "CUDA: of products of f32 values, f32 (default) or tf32");
  add_choice<PlanSource>(app, "--plan", options.source,
                         named({PlanSource::database, PlanSource::heuristic}), "SOURCE",
                         "What is left to choice: from the plan database (default) where\n"
                         "it knows the network, or by heuristic");
  add_database_option(app, options);
  add_max_error_option(app, options.tiling);
}

void add_distance_options(CLI::App& app, MappingOptions& mapping) {
  add_number(app, "--dig", mapping.dig,
             "Least distance from input transform to GEMM; depth_first: from a layer to the next");
  add_number(app, "--dgo", mapping.dgo, "Least distance from GEMM to output transform");
  add_number(app, "--m-groups", mapping.m_groups,
             "Task groups that are interleaved; depth_first: of a layer at a time");
}

void add_plan_options(CLI::App& app, PlanArguments& arguments) {
  TilingOptions& tiling = arguments.options.tiling;
  MappingOptions& mapping = arguments.options.mapping;
  add_choice<Algorithm>(app, "--algo", tiling.algorithm, algorithms(), "NAME",
                        "auto (default), direct, winograd, fused-winograd (CPU), opencnn (CUDA),\n"
                        "implicit-gemm or small-gemm (CUDA on compute capability 9.0)");
  add_choice<std::uint32_t>(app, "--tile", tiling.m, tiles(), "m",
                            "Winograd output tile: 2, 4 or, on a CPU, 4x6 (rows, columns) or 6");
  add_choice<Points>(app, "--points", tiling.points, points(), "NAME",
                     "Winograd points: low-error (default) or integer");
  add_choice<Arithmetic>(app, "--arithmetic", tiling.arithmetic, arithmetics(), "NAME",
                         "Products: auto (default), fma, or on tensor cores (CUDA on compute\n"
                         "capability 9.0; Winograd from 8.0 on with MEGACONV_CUDA_ISA=mma)\n"
                         "split-f16, tf32, f16 or bf16");
  add_choice<Precision>(app, "--precision", tiling.precision,
                        named({Precision::f32, Precision::tf32, Precision::f16, Precision::bf16}),
                        "NAME",
                        "Least precision of products of f32 tensors: f32 (default), tf32, f16\n"
                        "or bf16");
  add_max_error_option(app, tiling);
  add_choice<OutputLayout>(app, "--output-layout", tiling.output_layout, output_layouts(), "NAME",
                           "openCNN's way through shared memory: optSTS64 (default),\n"
                           "baseline, optSTS64_compact or optLDS64");
  add_choice<FilterMode>(app, "--filters", tiling.filters,
                         {{"every-run", FilterMode::every_run}, {"prepared", FilterMode::prepared}},
                         "WHEN", "Transform filters in every-run, or have them prepared ahead");
  add_number(app, "--group-tiles", tiling.group_tiles, "Winograd tiles of one task group");
  app.add_option_function<std::string>(
         "--window", [&tiling](const std::string& text) { parse_window(text, tiling); },
         "Group slots of V and M: auto (default), whole, or V,M")
      ->type_name("SLOTS")
      ->group("Plan");
  add_policy_option(app, arguments.options, true);
  add_distance_options(app, mapping);
  app.add_option_function<std::string>(
         "--config",
         [&arguments](const std::string& text) {
           arguments.configuration = parse_configuration(text);
         },
         "A configuration as `megaconv tune` prints it: algo=winograd,tile=4,...")
      ->type_name("LIST")
      ->group("Plan");
  CLI::Option* file = app.add_option("--mapping", arguments.mapping_file,
                                     "Take tiling and order from a mapping file")
                          ->type_name("FILE")
                          ->group("Plan");
  for (const char* name : {"--algo", "--tile", "--points", "--precision", "--arithmetic",
                           "--output-layout", "--filters", "--group-tiles", "--window", "--policy",
                           "--dig", "--dgo", "--m-groups", "--config"}) {
    file->excludes(app.get_option(name));
  }
  add_choice<PlanSource>(app, "--plan", arguments.options.source, kSources, "SOURCE",
                         "What is left to choice: from the plan database (default) where\n"
                         "it knows the problem, by heuristic, or measure");
  add_database_option(app, arguments.options);
  add_number(app, "--measure-ms", arguments.options.measure_ms,
             "Time that --plan measure may take (1000)");
  app.add_option("--workspace-limit", arguments.options.workspace_limit,
                 "Bytes that a workspace chosen may have: 1000000, 64MiB")
      ->type_name("BYTES")
      ->transform(bytes())
      ->group("Plan");
  add_choice<Backend>(app, "--backend", arguments.options.backend,
                      named({Backend::cpu, Backend::cuda, Backend::sim}), "NAME",
                      "cpu (default), cuda or sim");
  add_machine_option(app, arguments);
  add_number(app, "--threads", arguments.options.num_threads,
             "Worker threads; 0 (default): MEGACONV_NUM_THREADS, else all CPUs");
  add_number(app, "--blocks", arguments.options.num_blocks,
             "CUDA: thread blocks; 0 (default): as many as fit at once");
  add_choice<CudaLaunch>(app, "--launch", arguments.options.cuda_launch, launches(), "NAME",
                         "CUDA: auto (default), persistent, one-block-per-task,\n"
                         "raw-block-index or staged");
  app.add_option("--wait-budget-ms", arguments.options.wait_budget_ms,
                 "A task that waits longer ends the run with status 5")
      ->type_name("MS")
      ->capture_default_str()
      ->check(number_for(arguments.options.wait_budget_ms))
      ->group("Plan");
  app.add_option("--seed", arguments.seed, "Seed of everything random")
      ->type_name("N")
      ->capture_default_str()
      ->check(number_for(arguments.seed))
      ->group("Plan");
}

namespace {

PlanOptions plan_options(const PlanArguments& arguments) {
  PlanOptions options = arguments.options;
  if (arguments.configuration != Configuration()) options = apply(arguments.configuration, options);
  options.mapping.seed = arguments.seed;
  return options;
}

Plan import_plan(const PlanArguments& arguments, const ConvProblem* expected) {
  const PlanOptions options = plan_options(arguments);
  const std::string text = read_file(arguments.mapping_file);
  try {
    return Plan::create(import_mapping(text, expected), options);
  } catch (const Error& error) {
    throw Error(error.status(), arguments.mapping_file + ": " + error.what());
  }
}

}  // namespace

Plan make_plan(const ConvProblem& problem, const PlanArguments& arguments) {
  if (!arguments.mapping_file.empty()) return import_plan(arguments, &problem);
  const std::string& database = arguments.options.database;
  if (!database.empty()) static_cast<void>(regular_file_bytes(database));
  return Plan::create(problem, plan_options(arguments));
}

Plan make_plan_from_file(const PlanArguments& arguments) { return import_plan(arguments, nullptr); }

std::string to_command_line(const PlanArguments& arguments) {
  const TilingOptions& tiling = arguments.options.tiling;
  const MappingOptions& mapping = arguments.options.mapping;
  std::string text;
  const auto put = [&](const char* option, const std::string& value) {
    text += std::string(text.empty() ? "" : " ") + option + ' ' + value;
  };
  // By its word, unless it is what one has without the option.
  const auto put_choice = [&](const char* option, const auto& choices, auto value, auto usual) {
    for (const auto& [word, choice] : choices) {
      if (choice == value && choice != usual) put(option, word);
    }
  };
  const auto put_number = [&](const char* option, auto value) {
    if (value) put(option, std::to_string(*value));
  };
  if (!arguments.mapping_file.empty()) put("--mapping", arguments.mapping_file);
  if (arguments.configuration != Configuration()) {
    put("--config", to_string(arguments.configuration));
  }
  put_choice("--algo", algorithms(), tiling.algorithm, TilingOptions{}.algorithm);
  if (tiling.m != 0) put("--tile", value_text(Parameter::tile, tiling.m));
  if (tiling.points == Points::integer) put("--points", "integer");
  put_choice("--arithmetic", arithmetics(), tiling.arithmetic, TilingOptions{}.arithmetic);
  if (tiling.precision != Precision::f32) put("--precision", to_string(tiling.precision));
  if (tiling.max_error) put("--max-error", fmt::format("{}", *tiling.max_error));
  put_choice("--output-layout", output_layouts(), tiling.output_layout,
             TilingOptions{}.output_layout);
  if (tiling.filters == FilterMode::prepared) put("--filters", "prepared");
  if (tiling.group_tiles != 0) put("--group-tiles", std::to_string(tiling.group_tiles));
  if (tiling.whole_tensors) put("--window", "whole");
  if (tiling.v_slots != 0) {
    put("--window", std::to_string(tiling.v_slots) + ',' + std::to_string(tiling.m_slots));
  }
  if (mapping.policy != MappingOptions{}.policy) put("--policy", mapping.policy);
  put_number("--dig", mapping.dig);
  put_number("--dgo", mapping.dgo);
  put_number("--m-groups", mapping.m_groups);
  if (arguments.options.backend == Backend::cuda) put("--backend", to_string(Backend::cuda));
  put_choice("--launch", launches(), arguments.options.cuda_launch, PlanOptions{}.cuda_launch);
  if (arguments.options.num_blocks != 0) {
    put("--blocks", std::to_string(arguments.options.num_blocks));
  }
  if (arguments.options.num_threads != 0) {
    put("--threads", std::to_string(arguments.options.num_threads));
  }
  if (arguments.options.wait_budget_ms != PlanOptions{}.wait_budget_ms) {
    put("--wait-budget-ms", std::to_string(arguments.options.wait_budget_ms));
  }
  put("--seed", std::to_string(arguments.seed));
  return text;
}

}  // namespace megaconv::cli
