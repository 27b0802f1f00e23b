// SPDX-License-Identifier: Apache-2.0
// megaconv tune best, show, diff: what a plan database knows.
#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <map>
#include <memory>

#include "megaconv/error.hpp"
#include "tools/report/records.hpp"
#include "tools/report/summary.hpp"
#include "tools/report/table.hpp"
#include "tools/report/terminal.hpp"
#include "tools/tune/tune_commands.hpp"
#include "tools/tune/tune_json.hpp"
#include "tools/verbs/number.hpp"

namespace megaconv::cli {
namespace {

struct BestArguments {
  TuneArguments tune;
  OutputArguments output;
  std::uint64_t count = 1;
};

ExitCode best(const BestArguments& arguments) {
  check_output(arguments.output);
  const PlanDatabase database(arguments.tune.database_file(), PlanDatabase::Access::read);
  Table table;
  for (const char* title : {"layer", "ms", "median", "noise", "GFLOP/s", "workspace"}) {
    table.add_column(title);
  }
  std::vector<Record> records;
  std::string configurations;
  bool all_known = true;
  for (const NamedProblem& layer : arguments.tune.problems("tune best")) {
    const PlanKey key = plan_key(layer.problem, arguments.tune.plan.options);
    std::vector<Measurement> ranked = rank(database.tried(key));
    ranked.resize(std::min<std::size_t>(ranked.size(), arguments.count));
    if (ranked.empty()) {
      all_known = false;
      const std::uint64_t foreign = database.num_foreign(key);
      configurations += layer.name + ": not known";
      if (foreign != 0) {
        configurations += fmt::format(" ({} for other devices, drivers or builds, ignored)",
                                      count_text(foreign, "key"));
      }
      configurations += '\n';
    }
    for (const Measurement& m : ranked) {
      table.add_row({layer.name, format_ms(m.best_ms), format_ms(m.median_ms),
                     fmt::format("{:.0f}%", 100 * m.noise),
                     fmt::format("{:.1f}", layer.problem.flops() / m.best_ms * 1e-6),
                     format_bytes(m.workspace_bytes)});
      configurations += layer.name + ": " + to_string(m.configuration) + '\n';
      Record record = {{"schema_version", kSchemaVersion}, {"kind", "best"}, {"layer", layer.name}};
      record.update(to_json(key));
      record.update(to_json(m));
      record["samples_ms"] = m.samples_ms.size();
      records.push_back(std::move(record));
    }
  }
  if (!arguments.output.machine_stdout()) {
    std::fputs((table.str() + '\n' + configurations).c_str(), stdout);
  }
  write_records(records, arguments.output);
  return all_known ? ExitCode::ok : ExitCode::different;
}

std::string key_heading(const PlanKey& key) {
  return fmt::format("{}, {}, driver {}, build {}{}, {}, filters {}", key.backend, key.device,
                     key.driver, key.build, key.build == library_build() ? " (this one)" : "",
                     key.precision, key.filters);
}

/// Every key with the counts of its verdicts.
ExitCode show(const std::string& file) {
  const PlanDatabase database(file, PlanDatabase::Access::read);
  std::map<std::string, Table> tables;
  for (const PlanKey& key : database.keys()) {
    const auto [place, fresh] = tables.try_emplace(key_heading(key));
    Table& table = place->second;
    if (fresh) {
      for (const char* title :
           {"problem", "right", "wrong", "crashed", "hung", "refused", "rejected", "best ms"}) {
        table.add_column(title);
      }
    }
    const std::vector<Measurement> all = database.measurements(key);
    std::map<Verdict, std::uint64_t> counts;
    for (const Measurement& m : all) ++counts[m.verdict];
    std::vector<std::string> row = {is_of_network(key) ? key.problem
                                                       : short_name(parse_problem(key.problem))};
    for (const Verdict verdict : {Verdict::right, Verdict::wrong, Verdict::crashed, Verdict::hung,
                                  Verdict::refused, Verdict::rejected}) {
      row.push_back(std::to_string(counts[verdict]));
    }
    const std::vector<Measurement> ranked = rank(all);
    row.push_back(ranked.empty() ? "-" : format_ms(ranked.front().best_ms));
    table.add_row(std::move(row));
  }
  if (tables.empty()) fmt::print("{} is empty\n", file);
  for (const auto& [heading, table] : tables) fmt::print("{}\n{}\n", heading, table.str());
  return ExitCode::ok;
}

/// Best times of the keys that both files know. Other builds and drivers may be compared: that is
/// what the verb is for.
ExitCode diff_databases(const std::string& first, const std::string& second) {
  const PlanDatabase a(first, PlanDatabase::Access::read), b(second, PlanDatabase::Access::read);
  const auto best_of = [](const PlanDatabase& database) {
    std::map<std::string, Measurement> best;
    for (const PlanKey& key : database.keys()) {
      const std::vector<Measurement> ranked = rank(database.tried(key));
      const std::string name = key.problem + ", " + key.filters + ", " + key.device;
      if (ranked.empty()) continue;
      const auto [place, fresh] = best.try_emplace(name, ranked.front());
      if (!fresh && ranked.front().best_ms < place->second.best_ms) place->second = ranked.front();
    }
    return best;
  };
  const std::map<std::string, Measurement> left = best_of(a), right = best_of(b);
  Table table;
  for (const char* title :
       {"problem", "first ms", "second ms", "second / first", "configuration"}) {
    table.add_column(title);
  }
  bool differ = left.size() != right.size();
  std::string only;
  for (const auto& [name, m] : left) {
    const auto other = right.find(name);
    if (other == right.end()) {
      only += "only in " + first + ": " + name + '\n';
      differ = true;
      continue;
    }
    const bool same = m.configuration == other->second.configuration;
    differ = differ || !same;
    table.add_row({name, format_ms(m.best_ms), format_ms(other->second.best_ms),
                   fmt::format("{:.3f}", other->second.best_ms / m.best_ms),
                   same ? "same" : "differs"});
  }
  for (const auto& [name, m] : right) {
    if (left.count(name) == 0) only += "only in " + second + ": " + name + '\n';
  }
  std::fputs((table.str() + only).c_str(), stdout);
  return differ ? ExitCode::different : ExitCode::ok;
}

}  // namespace

void add_tune_data(CLI::App& tune, Action& action) {
  CLI::App* best_verb = tune.add_subcommand("best", "Print the fastest configurations known");
  best_verb->footer(
      "\nStatus 1 when a problem is not known for this device, driver and build.\n"
      "\nExamples:\n"
      "  megaconv tune best --network resnet50\n"
      "  megaconv tune best n1c64h56k64 --count 10 --csv");
  const auto best_arguments = std::make_shared<BestArguments>();
  add_tune_options(*best_verb, best_arguments->tune);
  best_verb->add_option("--count", best_arguments->count, "Configurations of each problem")
      ->check(number_from<std::uint64_t>(1))
      ->type_name("N")
      ->capture_default_str();
  add_output_options(*best_verb, best_arguments->output);
  best_verb->callback(
      [best_arguments, &action] { action = [best_arguments] { return best(*best_arguments); }; });

  CLI::App* show_verb = tune.add_subcommand("show", "Print what a plan database has");
  show_verb->footer("\nExamples:\n  megaconv tune show\n  megaconv tune show part2.db");
  const auto file = std::make_shared<std::string>();
  show_verb->add_option("file", *file, "Plan database; default: the user's")->type_name("FILE");
  show_verb->callback([file, &action] {
    action = [file] { return show(file->empty() ? user_database_file() : *file); };
  });

  CLI::App* diff_verb = tune.add_subcommand(
      "diff", "Compare the best of two plan databases; status 1 when they differ");
  diff_verb->footer("\nExample:\n  megaconv tune diff before.db after.db");
  const auto first = std::make_shared<std::string>(), second = std::make_shared<std::string>();
  diff_verb->add_option("first", *first, "Plan database")->type_name("FILE")->required();
  diff_verb->add_option("second", *second, "Plan database")->type_name("FILE")->required();
  diff_verb->callback([=, &action] { action = [=] { return diff_databases(*first, *second); }; });
}

}  // namespace megaconv::cli
