// SPDX-License-Identifier: Apache-2.0
// megaconv info: what this build is and what this machine gives it.
#include <spdlog/fmt/fmt.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "megaconv/plan.hpp"
#include "megaconv/plan_database.hpp"
#include "runtime/machine.hpp"
#include "runtime/worker_places.hpp"
#include "tasks/cpu/kernels.hpp"
#include "tools/peers/peer.hpp"
#include "tools/report/machine_info.hpp"
#include "tools/report/records.hpp"
#include "tools/report/terminal.hpp"
#include "tools/run/device.hpp"
#include "tools/verbs/commands.hpp"

namespace megaconv::cli {
namespace {

std::string join(const std::vector<std::string>& words, const char* when_empty) {
  return words.empty() ? when_empty : fmt::format("{}", fmt::join(words, ", "));
}

ExitCode info(bool json) {
  const std::uint32_t threads = resolve_workers(0);
  const char* const binding = to_string(resolve_binding());
  const std::vector<std::string> isas = cpu::available_isas();
  const char* const isa = cpu::kernels_for().isa;
  const std::string git = git_describe();
  if (json) {
    Record record = record_head("info", site_of(cpu_device()), threads, 0);
    record.erase("seed");
    record.update({{"compiler", compiler()},
                   {"available_isas", isas},
                   {"available_cpus", available_cpus()},
                   {"numa_nodes", numa_nodes().size()},
                   {"binding", binding},
                   {"caches", cpu_caches()},
                   {"backends", {{"cpu", "yes"}, {"cuda", cuda_availability()}, {"sim", "yes"}}},
                   {"plan_database", PlanDatabase::available() ? user_database_file() : ""},
                   {"peers", built_peers()}});
    std::fputs((record.dump(2) + '\n').c_str(), stdout);
    return ExitCode::ok;
  }
  const std::pair<const char*, std::string> lines[] = {
      {"version", std::string(version()) + (git.empty() ? "" : " (" + git + ")")},
      {"compiler", compiler()},
      {"cpu", cpu_name()},
      {"isa", fmt::format("{} (available: {}; MEGACONV_ISA chooses)", isa, join(isas, "none"))},
      {"threads", fmt::format("{} of {} CPUs (MEGACONV_NUM_THREADS or --threads choose)", threads,
                              available_cpus())},
      {"binding", fmt::format("{} (MEGACONV_BIND chooses none, node or cpu; NUMA nodes: {})",
                              binding, numa_nodes().size())},
      {"caches", join(cpu_caches(), "unknown")},
      {"backend cpu", "yes"},
      {"backend cuda", cuda_availability()},
      {"backend sim", "yes"},
      {"plan database", PlanDatabase::available()
                            ? "yes: " + user_database_file()
                            : "no (libsqlite3-dev was not found when building)"},
      {"peers", join(built_peers(), "none (libdnnl-dev was not found when building)")},
  };
  for (const auto& [name, value] : lines) fmt::print("{:<14}{}\n", name, value);
  return ExitCode::ok;
}

}  // namespace

void add_info(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("info", "Show what this build and this machine can do");
  verb->footer("\nExamples:\n  megaconv info\n  megaconv info --json");
  const auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "As JSON");
  verb->callback([json, &action] { action = [json] { return info(*json); }; });
}

}  // namespace megaconv::cli
