// SPDX-License-Identifier: Apache-2.0
// megaconv tune: searches configurations of problems, measures them in a process of their own, and
// keeps every measurement in the plan database.
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "megaconv/error.hpp"
#include "runtime/tuning/sweep.hpp"
#include "tasks/cost_model.hpp"
#include "tools/report/records.hpp"
#include "tools/report/summary.hpp"
#include "tools/report/table.hpp"
#include "tools/report/terminal.hpp"
#include "tools/tune/tune_bench.hpp"
#include "tools/tune/tune_child.hpp"
#include "tools/tune/tune_commands.hpp"
#include "tools/tune/tune_json.hpp"
#include "tools/verbs/commands.hpp"
#include "tools/verbs/interrupt.hpp"
#include "tools/verbs/log.hpp"
#include "tools/verbs/number.hpp"

namespace megaconv::cli {
namespace {

constexpr const char* kTuneFooter = R"(
Candidates are measured in a process of their own, so that one that crashes or hangs is recorded and
the search goes on. A time counts only when the output was within its error bound. Every measurement
is on disk before the next begins: Ctrl-C or a power cut loses nothing, and --resume goes on.

Examples:
  megaconv tune --network resnet50
  megaconv tune n4c64h56k64 --strategy exhaustive --values dig=1,2,4,8 --values m-groups=1,2,4 --tile 4
  megaconv tune --layers mine.csv --evaluations 0 --seconds 3600 --resume
  megaconv tune --network vgg16 --backend cuda --shard 2/8 --database part2.db
  megaconv tune best --network resnet50
  megaconv tune report --network resnet50 -o report.html)";

struct TuneRunArguments {
  TuneArguments tune;
  SweepOptions sweep;
  SampleOptions samples;
  OutputArguments output;
  std::string measurer;
  double timeout_s = 60;
  bool resume = false;
};

// "2/8". Throws Error(invalid_argument).
Shard parse_shard(const std::string& text) {
  Shard shard;
  char slash = 0, rest = 0;
  unsigned long long index = 0, count = 0;
  const int fields = std::sscanf(text.c_str(), "%llu%c%llu%c", &index, &slash, &count, &rest);
  if (fields != 3 || slash != '/' || index < 1 || index > count || text[0] == '-') {
    throw Error(Status::invalid_argument,
                "--shard " + text + ", must be i/n with i from 1 to n: 2/8");
  }
  shard.index = index;
  shard.count = count;
  return shard;
}

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  while ((begin = text.find_first_not_of(' ', begin)) != std::string::npos) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return words;
}

std::vector<std::string> measuring_command(const TuneRunArguments& arguments,
                                           const ConvProblem& problem) {
  std::vector<std::string> command = split_words(arguments.measurer);
  if (command.empty()) command = {"/proc/self/exe"};
  command.insert(command.end(), {"tune", "measure"});
  for (std::string& word : measure_options(arguments.tune, problem)) {
    command.push_back(std::move(word));
  }
  command.insert(command.end(), {"--samples", std::to_string(arguments.samples.samples), "--min-ms",
                                 fmt::format("{}", arguments.samples.min_ms)});
  return command;
}

/// What became of one problem.
struct TunedLayer {
  NamedProblem layer;
  PlanKey key;
  SweepState state;
  SweepEnd end = SweepEnd::exhausted;
};

const char* to_string(SweepEnd end) {
  switch (end) {
    case SweepEnd::exhausted:
      return "exhausted";
    case SweepEnd::evaluations:
      return "evaluations";
    case SweepEnd::seconds:
      return "seconds";
    case SweepEnd::interrupted:
      break;
  }
  return "interrupted";
}

std::string progress_text(const SweepState& state, const SweepOptions& options) {
  const double rate = static_cast<double>(state.measured) / std::max(state.elapsed_s, 1e-9);
  std::string text = fmt::format("{} measured", state.measured);
  if (options.evaluations != 0) text += fmt::format(" of {}", options.evaluations);
  text += fmt::format(", {:.1f}/s, best {} ms", rate, format_ms(state.best_ms));
  if (state.heuristic_ms > 0) text += fmt::format(" ({:.2f}x)", state.heuristic_ms / state.best_ms);
  double left_s = options.seconds != 0 ? options.seconds - state.elapsed_s : INFINITY;
  if (options.evaluations != 0) {
    left_s = std::min(left_s, static_cast<double>(options.evaluations - state.measured) / rate);
  }
  return std::isfinite(left_s) ? text + fmt::format(", {:.0f} s left", std::max(left_s, 0.0))
                               : text;
}

// `database`: null: nothing is known, and nothing kept.
TunedLayer tune_layer(const NamedProblem& layer, const TuneRunArguments& arguments,
                      PlanDatabase* database, const std::function<void(const std::string&)>& show) {
  const PlanOptions& options = arguments.tune.plan.options;
  show("making tensors and the reference");
  MeasuringProcess process(measuring_command(arguments, layer.problem),
                           std::chrono::duration<double>(arguments.timeout_s));
  // A simulation neither crashes nor hangs, and needs no process of its own.
  std::optional<CandidateBench> simulator;
  if (options.backend == Backend::sim)
    simulator.emplace(layer.problem, options, arguments.tune.plan.seed);
  TunedLayer result{layer,
                    simulator ? plan_key(layer.problem, options) : process.key(),
                    {},
                    SweepEnd::interrupted};
  if (interrupted()) return result;

  const Target target = target_of(options);
  const Space space = make_space(layer.problem, target, arguments.tune.space_options());
  const Search search{space,
                      [&](const Configuration& configuration) {
                        return estimate_ms(layer.problem, apply(configuration, options), target);
                      },
                      arguments.sweep.seed};
  const std::vector<Measurement> before =
      database != nullptr ? database->measurements(result.key) : std::vector<Measurement>();
  if (!arguments.resume && !before.empty()) {
    log().info("{}: {} earlier measurements; --resume would use them", layer.name, before.size());
  }
  const auto known = arguments.resume ? before : std::vector<Measurement>();
  Sweep sweep(
      search, result.key, database, known, arguments.sweep,
      [&](const Configuration& configuration, double best_ms) {
        return simulator ? simulator->measure(configuration, arguments.samples, best_ms)
                         : process.measure(configuration, best_ms);
      },
      [&](const SweepState& state, const Measurement& last) {
        log().debug("{}: kept {}: {} {} ms, {} {}", layer.name, last.id,
                    megaconv::to_string(last.verdict), last.best_ms,
                    megaconv::to_string(last.configuration), last.reason);
        show(progress_text(state, arguments.sweep));
      });
  result.end = sweep.run();
  result.state = sweep.state();
  return result;
}

std::string table_of(const std::vector<TunedLayer>& layers) {
  Table table;
  table.add_column("layer");
  for (const char* title : {"measured", "known", "failed", "rejected"}) {
    table.add_column(title, "candidates");
  }
  for (const char* title : {"heuristic", "best"}) table.add_column(title, "ms");
  table.add_column("speedup");
  std::string configurations;
  for (const TunedLayer& item : layers) {
    const SweepState& state = item.state;
    const bool found = state.best_ms > 0;
    table.add_row({item.layer.name, std::to_string(state.measured), std::to_string(state.known),
                   std::to_string(state.failed), std::to_string(state.rejected),
                   state.heuristic_ms > 0 ? format_ms(state.heuristic_ms) : "-",
                   found ? format_ms(state.best_ms) : "-",
                   found && state.heuristic_ms > 0
                       ? fmt::format("{:.2f}x", state.heuristic_ms / state.best_ms)
                       : "-"});
    configurations += item.layer.name + ": " +
                      (found ? megaconv::to_string(state.best) : "no candidate was right") + '\n';
  }
  return table.str() + '\n' + configurations;
}

Record record_of(const TunedLayer& item, const TuneRunArguments& arguments) {
  Record record = {
      {"schema_version", kSchemaVersion}, {"kind", "tune"}, {"layer", item.layer.name}};
  record.update(to_json(item.key));
  record.update(Record{{"strategy", megaconv::to_string(arguments.sweep.strategy)},
                       {"seed", arguments.tune.plan.seed},
                       {"measured", item.state.measured},
                       {"known", item.state.known},
                       {"failed", item.state.failed},
                       {"rejected", item.state.rejected},
                       {"seconds", item.state.elapsed_s},
                       {"ended_by", to_string(item.end)},
                       {"heuristic_ms", item.state.heuristic_ms},
                       {"best_ms", item.state.best_ms},
                       {"configuration", megaconv::to_string(item.state.best)}});
  return record;
}

void check_arguments(const TuneRunArguments& arguments) {
  if (arguments.sweep.evaluations == 0 && arguments.sweep.seconds == 0 &&
      arguments.sweep.strategy != Strategy::exhaustive) {
    throw Error(Status::invalid_argument,
                "--evaluations 0 and --seconds 0: a budget of nothing; one of them must be greater "
                "than 0, or the strategy exhaustive");
  }
  if (!arguments.tune.plan.mapping_file.empty() ||
      arguments.tune.plan.configuration != Configuration()) {
    throw Error(Status::invalid_argument,
                "tune: --mapping and --config leave nothing to search, must be absent");
  }
  check_output(arguments.output);
}

ExitCode tune(const TuneRunArguments& arguments) {
  check_arguments(arguments);
  const std::vector<NamedProblem> layers = arguments.tune.problems("tune");
  // Contradictions and problems that cannot be tuned end the command before anything is measured.
  const Target target = target_of(arguments.tune.plan.options);
  for (const NamedProblem& layer : layers) {
    make_space(layer.problem, target, arguments.tune.space_options());
  }
  // Plans that look into a database could not find a policy's file.
  const PlanOptions& options = arguments.tune.plan.options;
  std::optional<PlanDatabase> database;
  if (!options.policy) {
    database.emplace(arguments.tune.database_file(), PlanDatabase::Access::write);
  } else if (arguments.resume || !options.database.empty()) {
    throw Error(Status::invalid_argument,
                (arguments.resume ? "--resume" : "--database " + options.database) +
                    " with --policy " + options.mapping.policy +
                    ", must be absent: plans could not find that file");
  }

  const InterruptGuard guard;
  Progress progress;
  std::vector<TunedLayer> results;
  for (const NamedProblem& layer : layers) {
    const std::string place =
        fmt::format("[{}/{}] {}: ", results.size() + 1, layers.size(), layer.name);
    results.push_back(tune_layer(layer, arguments, database ? &*database : nullptr,
                                 [&](const std::string& text) { progress.show(place + text); }));
    if (results.back().end == SweepEnd::interrupted) break;
  }
  progress.clear();

  std::vector<Record> records;
  bool all_found = true;
  for (const TunedLayer& item : results) {
    records.push_back(record_of(item, arguments));
    all_found = all_found && item.state.best_ms > 0;
  }
  if (!arguments.output.machine_stdout()) {
    std::fputs(table_of(results).c_str(), stdout);
    fmt::print("{}\n", database ? "kept in " + database->file()
                                : "not kept: plans could not find " + options.mapping.policy);
  }
  write_records(records, arguments.output);
  if (interrupted()) {
    log().warn("interrupted after {} of {} problems{}", results.size(), layers.size(),
               database ? "; all measurements are kept, --resume goes on" : "");
    return ExitCode::interrupted;
  }
  return all_found ? ExitCode::ok : ExitCode::different;
}

void add_search_options(CLI::App& app, TuneRunArguments& arguments) {
  const auto number = [&](const char* name, auto& target, const char* type,
                          const char* description) {
    return app.add_option(name, target, description)
        ->type_name(type)
        ->capture_default_str()
        ->group("Search");
  };
  app.add_option_function<std::string>(
         "--strategy",
         [&](const std::string& word) { arguments.sweep.strategy = parse_strategy(word); },
         "model (default), exhaustive, random, coordinate or annealing")
      ->type_name("NAME")
      ->group("Search");
  number("--evaluations", arguments.sweep.evaluations, "N", "Measurements a problem; 0: no limit")
      ->check(number_for(arguments.sweep.evaluations));
  number("--seconds", arguments.sweep.seconds, "S", "Time a problem; 0: no limit")
      ->check(number_from(0.0, 1e9));
  add_sweep_options(app, arguments.sweep, arguments.resume);
  add_sample_options(app, arguments.samples);
  app.add_option_function<std::string>(
         "--shard", [&](const std::string& text) { arguments.sweep.shard = parse_shard(text); },
         "Part i of n of every space: 2/8")
      ->type_name("i/n")
      ->group("Search");
  number("--timeout", arguments.timeout_s, "S", "A candidate that takes longer has hung")
      ->check(number_from(0.001, 1e6));
  app.add_option("--measurer", arguments.measurer,
                 "Command in place of `megaconv` that runs `tune measure`")
      ->type_name("COMMAND")
      ->group("Search");
}

void add_measure(CLI::App& tune_app, Action& action) {
  CLI::App* verb = tune_app.add_subcommand(
      "measure", "Measure configurations: JSON lines on stdin, answers on stdout");
  verb->footer(
      "\nThe first line says what is measured on. A request is {\"configuration\": "
      "\"tile=4,...\"}.\n"
      "\nExample:\n"
      "  echo '{\"configuration\": \"algo=direct\"}' | megaconv tune measure n1c64h56k64");
  const auto arguments = std::make_shared<TuneArguments>();
  const auto samples = std::make_shared<SampleOptions>();
  add_tune_options(*verb, *arguments);
  add_sample_options(*verb, *samples);
  verb->callback([arguments, samples, &action] {
    action = [arguments, samples] {
      const std::vector<NamedProblem> problems = arguments->problems("tune measure");
      try {
        serve_measurements(problems.front().problem, arguments->plan.options, arguments->plan.seed,
                           *samples);
      } catch (const Error& error) {
        fmt::print("{}\n", error_line(error).dump());
        return exit_code(error.status());
      }
      return ExitCode::ok;
    };
  });
}

}  // namespace

void add_tune(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("tune", "Search the fastest plans, and keep them for later");
  verb->footer(kTuneFooter);
  const auto arguments = std::make_shared<TuneRunArguments>();
  add_tune_options(*verb, arguments->tune);
  add_search_options(*verb, *arguments);
  add_output_options(*verb, arguments->output);
  verb->callback([arguments, verb, &action] {
    if (!verb->get_subcommands().empty()) return;
    arguments->sweep.seed = arguments->tune.plan.seed;
    arguments->sweep.interrupted = interrupted;
    action = [arguments] { return tune(*arguments); };
  });
  add_measure(*verb, action);
  add_tune_ask_tell(*verb, action);
  add_tune_data(*verb, action);
  add_tune_exchange(*verb, action);
  add_tune_report(*verb, action);
}

}  // namespace megaconv::cli
