// SPDX-License-Identifier: Apache-2.0
// megaconv tune export, import, merge: measurements out of a plan database and into it.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>

#include "megaconv/error.hpp"
#include "tools/run/file_io.hpp"
#include "tools/tune/tune_commands.hpp"
#include "tools/tune/tune_export.hpp"
#include "tools/tune/tune_json.hpp"
#include "tools/verbs/choice.hpp"

namespace megaconv::cli {
namespace {

enum class Format { jsonl, csv, sqlite, kerneltuner, t4 };
const Choices<Format> kFormats = {{"jsonl", Format::jsonl},
                                  {"csv", Format::csv},
                                  {"sqlite", Format::sqlite},
                                  {"kerneltuner", Format::kerneltuner},
                                  {"t4", Format::t4}};

struct ExportArguments {
  ProblemArguments problem;
  std::string database, output;
  Format format = Format::jsonl;
  bool best = false;
};

std::string file_or_default(const std::string& file) {
  return file.empty() ? user_database_file() : file;
}

std::vector<KeyedMeasurements> selected(const PlanDatabase& database,
                                        const ExportArguments& arguments) {
  std::vector<std::string> problems;
  for (const NamedProblem& layer : select_problems(arguments.problem)) {
    problems.push_back(to_string(layer.problem));
  }
  std::vector<KeyedMeasurements> all;
  for (const PlanKey& key : database.keys()) {
    const bool wanted = problems.empty() ||
                        std::find(problems.begin(), problems.end(), key.problem) != problems.end();
    if (!wanted) continue;
    std::vector<Measurement> measurements = database.measurements(key);
    if (arguments.best) {
      measurements = rank(measurements);
      measurements.resize(std::min<std::size_t>(measurements.size(), 1));
    }
    if (!measurements.empty()) all.push_back({key, std::move(measurements)});
  }
  return all;
}

// A file without a write-ahead log, so that it is complete in itself and may lie in a read-only
// folder.
void export_database(const std::vector<KeyedMeasurements>& all, const std::string& file) {
  require_writable(file);
  const TemporaryFolder folder;
  PlanDatabase filled(folder.path("filled.db"), PlanDatabase::Access::write);
  for (const auto& [key, measurements] : all) filled.add(key, measurements);
  filled.copy_to(folder.path("whole.db"));
  write_file(file, read_file(folder.path("whole.db")));
}

ExitCode export_measurements(const ExportArguments& arguments) {
  if (arguments.format == Format::sqlite && arguments.output.empty()) {
    throw Error(Status::invalid_argument, "tune export --format sqlite needs -o FILE");
  }
  const PlanDatabase database(file_or_default(arguments.database), PlanDatabase::Access::read);
  const std::vector<KeyedMeasurements> all = selected(database, arguments);
  if (all.empty()) {
    throw Error(Status::invalid_argument,
                database.file() + " has no such measurement: nothing to export");
  }
  std::string text;
  switch (arguments.format) {
    case Format::sqlite:
      export_database(all, arguments.output);
      return ExitCode::ok;
    case Format::jsonl:
      text = to_json_lines(all);
      break;
    case Format::csv:
      text = to_csv_table(all);
      break;
    case Format::kerneltuner:
      text = to_kernel_tuner_cache(all);
      break;
    case Format::t4:
      text = to_t4(all);
      break;
  }
  if (arguments.output.empty()) {
    std::fputs(text.c_str(), stdout);
  } else {
    write_file(arguments.output, text);
  }
  return ExitCode::ok;
}

/// All lines or none.
ExitCode import_lines(const std::string& file, const std::string& database_file) {
  std::istringstream lines(read_file(file));
  std::vector<KeyedMeasurements> all;
  std::string line;
  for (std::uint64_t number = 1; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    try {
      const Json json = parse_line(line);
      PlanKey key = key_from_json(json);
      if (!is_of_network(key)) key.problem = to_string(parse_problem(key.problem));
      if (all.empty() || all.back().key != key) all.push_back({std::move(key), {}});
      all.back().measurements.push_back(measurement_from_json(json));
    } catch (const Error& error) {
      throw Error(error.status(), fmt::format("{}:{}: {}", file, number, error.what()));
    }
  }
  const TemporaryFolder folder;
  const std::string staged = folder.path("staged.db");
  PlanDatabase source(staged, PlanDatabase::Access::write);
  for (const auto& [key, measurements] : all) source.add(key, measurements);
  PlanDatabase target(database_file, PlanDatabase::Access::write);
  const std::uint64_t added = target.merge(staged);
  fmt::print("{} new measurements in {}\n", added, database_file);
  return ExitCode::ok;
}

ExitCode merge(const std::string& target_file, const std::vector<std::string>& sources) {
  for (const std::string& source : sources) PlanDatabase(source, PlanDatabase::Access::read);
  PlanDatabase target(target_file, PlanDatabase::Access::write);
  for (const std::string& source : sources) {
    fmt::print("{}: {} new measurements\n", source, target.merge(source));
  }
  return ExitCode::ok;
}

}  // namespace

void add_tune_exchange(CLI::App& tune, Action& action) {
  CLI::App* export_verb = tune.add_subcommand("export", "Write measurements for others");
  export_verb->footer(
      "\nFormats: jsonl (default; what `tune import` reads), csv, sqlite (a plan database to "
      "ship),\n"
      "kerneltuner (cache file of Kernel Tuner, one problem), t4 (T4 results).\n"
      "\nExamples:\n"
      "  megaconv tune export --best --format sqlite -o plans.db\n"
      "  megaconv tune export n1c64h56k64 --format kerneltuner -o cache.json\n"
      "  megaconv tune export --network resnet50 --format csv");
  const auto arguments = std::make_shared<ExportArguments>();
  add_problem_options(*export_verb, arguments->problem, Selection::many);
  export_verb->add_option("--database", arguments->database, "Plan database; default: the user's")
      ->type_name("FILE");
  export_verb
      ->add_option_function<std::string>(
          "--format",
          [arguments](const std::string& word) {
            arguments->format = choose<Format>("--format", word, kFormats);
          },
          "jsonl, csv, sqlite, kerneltuner or t4")
      ->type_name("NAME");
  export_verb->add_flag("--best", arguments->best, "Only the fastest right one of each problem");
  export_verb->add_option("-o,--output", arguments->output, "File; without it stdout")
      ->type_name("FILE");
  export_verb->callback(
      [arguments, &action] { action = [arguments] { return export_measurements(*arguments); }; });

  CLI::App* import_verb =
      tune.add_subcommand("import", "Add measurements that were exported as jsonl");
  import_verb->footer("\nExample:\n  megaconv tune import measurements.jsonl");
  const auto file = std::make_shared<std::string>(), database = std::make_shared<std::string>();
  import_verb->add_option("file", *file, "JSON lines")->type_name("FILE")->required();
  import_verb->add_option("--database", *database, "Plan database; default: the user's")
      ->type_name("FILE");
  import_verb->callback(
      [=, &action] { action = [=] { return import_lines(*file, file_or_default(*database)); }; });

  CLI::App* merge_verb =
      tune.add_subcommand("merge", "Add the measurements of other plan databases");
  merge_verb->footer(
      "\nWhat is there already is not added again.\n"
      "\nExample:\n  megaconv tune merge all.db part1.db part2.db");
  const auto target = std::make_shared<std::string>();
  const auto sources = std::make_shared<std::vector<std::string>>();
  merge_verb->add_option("target", *target, "Plan database to add to")
      ->type_name("FILE")
      ->required();
  merge_verb->add_option("sources", *sources, "Plan databases")->type_name("FILE")->required();
  merge_verb->callback([=, &action] { action = [=] { return merge(*target, *sources); }; });
}

}  // namespace megaconv::cli
