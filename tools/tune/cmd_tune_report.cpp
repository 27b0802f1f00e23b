// SPDX-License-Identifier: Apache-2.0
// megaconv tune report: pictures of what was measured.
#include <spdlog/fmt/fmt.h>

#include <memory>

#include "megaconv/error.hpp"
#include "tasks/space.hpp"
#include "tools/run/file_io.hpp"
#include "tools/tune/tune_commands.hpp"
#include "tools/tune/tune_report.hpp"
#include "tools/verbs/number.hpp"

namespace megaconv::cli {
namespace {

struct ReportArguments {
  TuneArguments tune;
  std::string output = "tune.html", csv;
  std::size_t rows = 32;
};

ExitCode report(const ReportArguments& arguments) {
  const PlanOptions& options = arguments.tune.plan.options;
  const PlanDatabase database(arguments.tune.database_file(), PlanDatabase::Access::read);
  std::vector<ReportedProblem> problems;
  std::vector<KeyedMeasurements> all;
  std::string unknown;
  const Target target = target_of(options);
  for (const NamedProblem& layer : arguments.tune.problems("tune report")) {
    const PlanKey key = plan_key(layer.problem, options);
    KeyedMeasurements known{key, database.measurements(key)};
    if (known.measurements.empty()) {
      unknown += (unknown.empty() ? "" : ", ") + layer.name;
      continue;
    }
    all.push_back(known);
    problems.push_back(
        {layer.name, std::move(known), heuristic_configuration(layer.problem, options, target)});
  }
  if (problems.empty()) {
    throw Error(Status::invalid_argument,
                database.file() +
                    " knows none of these problems on this device, driver and build: " + unknown);
  }
  write_file(arguments.output, tune_report(problems, arguments.rows));
  fmt::print("written to {}\n", arguments.output);
  if (!arguments.csv.empty()) {
    write_file(arguments.csv, to_csv_table(all));
    fmt::print("written to {}\n", arguments.csv);
  }
  if (unknown.empty()) return ExitCode::ok;
  fmt::print("not known: {}\n", unknown);
  return ExitCode::different;
}

}  // namespace

void add_tune_report(CLI::App& tune, Action& action) {
  CLI::App* verb = tune.add_subcommand("report", "Write an HTML report with pictures, and CSV");
  verb->footer(
      "\nBest-so-far curve, sensitivity to every parameter, DIG by M groups, table of the best. "
      "Status 1\n"
      "when a problem is not known.\n"
      "\nExamples:\n"
      "  megaconv tune report --network resnet50 -o resnet50.html\n"
      "  megaconv tune report n1c64h56k64 --csv all.csv --rows 64");
  const auto arguments = std::make_shared<ReportArguments>();
  add_tune_options(*verb, arguments->tune);
  verb->add_option("-o,--output", arguments->output, "HTML file to write")
      ->type_name("FILE")
      ->capture_default_str();
  verb->add_option("--csv", arguments->csv, "Also all measurements as CSV")->type_name("FILE");
  verb->add_option("--rows", arguments->rows, "Rows of each table of the best")
      ->check(number_from<std::uint64_t>(1))
      ->type_name("N")
      ->capture_default_str();
  verb->callback([arguments, &action] { action = [arguments] { return report(*arguments); }; });
}

}  // namespace megaconv::cli
