// SPDX-License-Identifier: Apache-2.0
#include "tools/report/what_if.hpp"

#include <spdlog/fmt/fmt.h>

#include <nlohmann/json.hpp>

#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "tools/report/comparison.hpp"
#include "tools/report/percent.hpp"
#include "tools/report/terminal.hpp"

namespace megaconv::cli {
namespace {

using nlohmann::ordered_json;

[[noreturn]] void reject_assignment(const std::string& text) {
  throw Error(Status::invalid_argument,
              "\"" + excerpt(text) +
                  "\": must be KEY=NUMBER, where KEY is one of `simulate --show-machine`, or dig, "
                  "dgo or m_groups");
}

std::pair<std::string, std::string> split(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) reject_assignment(assignment);
  return {assignment.substr(0, equals), assignment.substr(equals + 1)};
}

std::optional<std::uint32_t>* mapping_option(const std::string& key, MappingOptions& options) {
  return key == "dig"        ? &options.dig
         : key == "dgo"      ? &options.dgo
         : key == "m_groups" ? &options.m_groups
                             : nullptr;
}

}  // namespace

MachineModel with_value(const MachineModel& machine, const std::string& assignment) {
  const auto [key, value] = split(assignment);
  const ordered_json number = ordered_json::parse(value, nullptr, false);
  ordered_json file = ordered_json::parse(to_json(machine));
  ordered_json* place = &file;
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('.', begin), key.size());
    const auto found =
        place->is_object() ? place->find(key.substr(begin, end - begin)) : place->end();
    if (!place->is_object() || found == place->end()) reject_assignment(assignment);
    place = &*found;
    begin = end + 1;
  }
  if (!place->is_number() || !number.is_number()) reject_assignment(assignment);
  *place = number;
  return parse_machine(file.dump());
}

void WhatIf::apply(PlanArguments& plan) const {
  const auto [key, value] = split(text);
  if (auto* const option = mapping_option(key, plan.options.mapping)) {
    const ordered_json number = ordered_json::parse(value, nullptr, false);
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() > 0xffffffffu)
      reject_assignment(text);
    *option = number.get<std::uint32_t>();
  } else {
    plan.options.machine = with_value(*plan.options.machine, text);
  }
}

std::vector<WhatIf> parse_what_if(std::string_view text) {
  const auto [key, list] = split(std::string(text));
  std::vector<WhatIf> cases;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    cases.push_back({key + '=' + list.substr(begin, end - begin)});
    begin = end + 1;
  }
  return cases;
}

SimulationOptions simulation_options(const PlanArguments& plan) {
  return {.launch = plan.options.cuda_launch, .num_workers = plan.options.num_blocks};
}

MachineModel machine_with(const PlanArguments& plan, const std::vector<std::string>& assignments) {
  MachineModel machine = machine_of(plan);
  for (const std::string& assignment : assignments) machine = with_value(machine, assignment);
  return machine;
}

WhatIfResult simulate_turns(const std::string& text, const Lowering& lowering,
                            const MachineModel& machine, SimulationOptions options, int turns) {
  WhatIfResult result{.text = text, .first = simulate(lowering, machine, options), .time_us = {}};
  std::vector<double> times_us = {result.first.time_us};
  for (int turn = 2; turn <= turns; ++turn) {
    options.seed = static_cast<std::uint64_t>(turn);
    times_us.push_back(simulate(lowering, machine, options).time_us);
  }
  result.time_us = estimate_median(std::move(times_us));
  result.bound_us = lower_bounds(lowering.graph, machine).least_us();
  return result;
}

std::vector<WhatIfResult> simulate_cases(
    const std::string& text, const PlanArguments& plan, int turns,
    const std::function<Lowering(const PlanArguments&)>& lowering_of) {
  std::vector<WhatIfResult> results;
  for (const WhatIf& one : parse_what_if(text)) {
    PlanArguments changed = plan;
    one.apply(changed);
    results.push_back(simulate_turns(one.text, lowering_of(changed), *changed.options.machine,
                                     simulation_options(changed), turns));
  }
  return results;
}

std::string what_if_table(const std::vector<WhatIfResult>& results) {
  Table table = comparison_table("what if");
  table.add_column("above bound");
  table.add_column("compute", "used");
  table.add_column("L2", "used");
  table.add_column("HBM", "used");
  table.add_column("live");
  for (const WhatIfResult& result : results) {
    const Utilisation& used = result.first.utilisation;
    table.add_row({result.text, fmt::format("{:.1f}", result.time_us.median),
                   fmt::format("{:.1f} .. {:.1f}", result.time_us.low, result.time_us.high),
                   fmt::format("{:.3f}", result.time_us.median / results.front().time_us.median),
                   percent(result.time_us.median / result.bound_us - 1), percent(used.compute),
                   percent(used.l2), percent(used.hbm),
                   format_bytes(result.first.analysis.peak_live_bytes)});
  }
  return table.str();
}

std::string what_if_json(const std::vector<WhatIfResult>& results) {
  ordered_json records = ordered_json::array();
  for (const WhatIfResult& result : results) {
    records.push_back({{"what_if", result.text},
                       {"time_us", result.time_us.median},
                       {"time_low_us", result.time_us.low},
                       {"time_high_us", result.time_us.high},
                       {"bound_us", result.bound_us}});
  }
  return records.dump(2) + '\n';
}

}  // namespace megaconv::cli
