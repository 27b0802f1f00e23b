// SPDX-License-Identifier: Apache-2.0
// megaconv tune space, ask, tell: JSON lines, so that an optimiser of any language can drive the
// search.
#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <iostream>
#include <limits>
#include <memory>
#include <set>

#include "megaconv/error.hpp"
#include "runtime/tuning/search.hpp"
#include "tasks/cost_model.hpp"
#include "tools/report/records.hpp"
#include "tools/tune/tune_commands.hpp"
#include "tools/tune/tune_json.hpp"
#include "tools/verbs/number.hpp"

namespace megaconv::cli {
namespace {

constexpr double kNotTold = std::numeric_limits<double>::infinity();
// Points looked at to estimate how many of a space are candidates.
constexpr std::uint64_t kProbes = 20'000;

Json space_json(const NamedProblem& layer, const Space& space) {
  Json grids = Json::array();
  for (const Space::Grid& grid : space.grids()) {
    Json parameters = Json::object();
    for (const Axis& axis : grid) {
      Json& values = parameters[to_string(axis.parameter)] = Json::array();
      for (const std::int64_t value : axis.values) {
        const std::string text = value_text(axis.parameter, value);
        values.push_back(text == std::to_string(value) ? Json(value) : Json(text));
      }
    }
    grids.push_back(std::move(parameters));
  }
  const std::uint64_t stride = std::max<std::uint64_t>(1, space.size() / kProbes);
  std::map<std::string, std::uint64_t> rejected;
  std::uint64_t probes = 0, candidates = 0;
  for (std::uint64_t index = 0; index < space.size(); index += stride, ++probes) {
    const std::optional<Rejection> rejection = space.rejection(space.at(index));
    rejection ? void(++rejected[rejection->rule]) : void(++candidates);
  }
  Json shares = Json::object();
  for (const auto& [rule, count] : rejected) {
    shares[rule] = static_cast<double>(count) / static_cast<double>(probes);
  }
  return {{"problem", to_string(layer.problem)},
          {"points", space.size()},
          {"candidates_share", static_cast<double>(candidates) / static_cast<double>(probes)},
          {"rejected_share", shares},
          {"heuristic", to_string(space.heuristic())},
          {"grids", grids}};
}

ExitCode print_space(const TuneArguments& arguments) {
  const Target target = target_of(arguments.plan.options);
  for (const NamedProblem& layer : arguments.problems("tune space")) {
    const Space space = make_space(layer.problem, target, arguments.space_options());
    fmt::print("{}\n", space_json(layer, space).dump());
  }
  return ExitCode::ok;
}

struct AskArguments {
  TuneArguments tune;
  Strategy strategy = Strategy::random;
  std::uint64_t count = 1;
};

/// The strategy runs on what the database knows; the first points that it does not know are asked.
ExitCode ask(const AskArguments& arguments) {
  const PlanOptions& options = arguments.tune.plan.options;
  const Target target = target_of(options);
  const PlanDatabase database(arguments.tune.database_file(), PlanDatabase::Access::write);
  bool any = false;
  for (const NamedProblem& layer : arguments.tune.problems("tune ask")) {
    const Space space = make_space(layer.problem, target, arguments.tune.space_options());
    const std::vector<Measurement> all = database.measurements(plan_key(layer.problem, options));
    std::map<std::string, double> known;
    for (const Measurement& m : all) known[to_string(m.configuration)] = kNotTold;
    for (const Measurement& m : rank(all)) known[to_string(m.configuration)] = m.best_ms;
    std::set<std::string> asked;
    const auto estimate = [&](const Configuration& configuration) {
      return estimate_ms(layer.problem, apply(configuration, options), target);
    };
    const auto answer = [&](std::uint64_t index) -> std::optional<double> {
      const Configuration configuration = space.at(index);
      if (space.rejection(configuration)) return kNotTold;
      const std::string text = to_string(configuration);
      if (const auto found = known.find(text); found != known.end()) return found->second;
      if (asked.size() == arguments.count) return std::nullopt;
      if (asked.insert(text).second) {
        const Json line = {{"problem", to_string(layer.problem)}, {"configuration", text}};
        fmt::print("{}\n", line.dump());
        any = true;
      }
      return kNotTold;  // until it is told, not worth going near
    };
    run_search(arguments.strategy, {space, estimate, arguments.tune.plan.seed}, answer);
  }
  return any ? ExitCode::ok : ExitCode::different;
}

/// Every line is one measurement, with its "problem"; all of them are kept, or none of a bad line
/// on.
ExitCode tell(const TuneArguments& arguments) {
  PlanDatabase database(arguments.database_file(), PlanDatabase::Access::write);
  std::uint64_t lines = 0;
  std::string line;
  while (std::getline(std::cin, line)) {
    ++lines;
    if (line.empty()) continue;
    try {
      const Json json = parse_line(line);
      Measurement measurement = measurement_from_json(json);
      if (!json.contains("problem") || !json["problem"].is_string()) {
        throw Error(Status::invalid_argument, "key \"problem\" is missing or no text");
      }
      if (measurement.strategy.empty()) measurement.strategy = "told";
      measurement.id.clear();
      const ConvProblem problem = parse_problem(json["problem"].get<std::string>());
      database.add(plan_key(problem, arguments.plan.options), measurement);
    } catch (const Error& error) {
      throw Error(error.status(), fmt::format("line {}: {}", lines, error.what()));
    }
  }
  fmt::print("{} told to {}\n", lines, database.file());
  return ExitCode::ok;
}

}  // namespace

void add_tune_ask_tell(CLI::App& tune, Action& action) {
  CLI::App* space = tune.add_subcommand("space", "Print search spaces: parameters and values");
  space->footer("\nOne JSON object a problem.\n\nExample:\n  megaconv tune space n1c64h56k64");
  const auto space_arguments = std::make_shared<TuneArguments>();
  add_tune_options(*space, *space_arguments);
  space->callback([space_arguments, &action] {
    action = [space_arguments] { return print_space(*space_arguments); };
  });

  CLI::App* ask_verb =
      tune.add_subcommand("ask", "Print candidates to measure next, as JSON lines");
  ask_verb->footer(
      "\nThe strategy goes on from what the database knows. Status 1 when it has nothing left to "
      "ask.\n"
      "\nExamples:\n"
      "  megaconv tune ask n1c64h56k64 --strategy model --count 4\n"
      "  megaconv tune ask n1c64h56k64 | megaconv tune measure n1c64h56k64");
  const auto ask_arguments = std::make_shared<AskArguments>();
  add_tune_options(*ask_verb, ask_arguments->tune);
  ask_verb
      ->add_option_function<std::string>(
          "--strategy",
          [ask_arguments](const std::string& word) {
            ask_arguments->strategy = parse_strategy(word);
          },
          "random (default), model, exhaustive, coordinate or annealing")
      ->type_name("NAME")
      ->group("Search");
  ask_verb->add_option("--count", ask_arguments->count, "Candidates of each problem")
      ->type_name("N")
      ->check(number_from<std::uint64_t>(1))
      ->capture_default_str()
      ->group("Search");
  ask_verb->callback(
      [ask_arguments, &action] { action = [ask_arguments] { return ask(*ask_arguments); }; });

  CLI::App* tell_verb = tune.add_subcommand("tell", "Keep measurements: JSON lines on stdin");
  tell_verb->footer(
      "\nExample:\n"
      "  echo '{\"problem\": \"n1c64h56k64\", \"configuration\": \"tile=4\", \"samples_ms\": "
      "[0.41]}' |\n"
      "    megaconv tune tell");
  const auto tell_arguments = std::make_shared<TuneArguments>();
  tell_arguments->plan.options.tiling.filters = FilterMode::prepared;
  add_plan_options(*tell_verb, tell_arguments->plan);
  tell_verb->callback(
      [tell_arguments, &action] { action = [tell_arguments] { return tell(*tell_arguments); }; });
}

}  // namespace megaconv::cli
