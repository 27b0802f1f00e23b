// SPDX-License-Identifier: Apache-2.0
#include "tools/report/simulation_report.hpp"

#include <spdlog/fmt/fmt.h>

#include <nlohmann/json.hpp>

#include "tools/report/percent.hpp"
#include "tools/report/table.hpp"
#include "tools/report/terminal.hpp"
#include "tools/report/trace_json.hpp"

namespace megaconv::cli {
namespace {

using nlohmann::ordered_json;

struct NamedBound {
  const char* name;
  double us;
};

std::vector<NamedBound> list_bounds(const Bounds& bounds) {
  return {{"critical path", bounds.critical_path_us},
          {"work", bounds.work_us},
          {"stage", bounds.stage_us},
          {"compute", bounds.compute_us},
          {"L2", bounds.l2_us},
          {"HBM", bounds.hbm_us}};
}

std::string reuse_text(const char* name, const Reuse& reuse) {
  return fmt::format("{} {} of {}", name, percent(reuse.hit_rate()),
                     format_bytes(static_cast<std::uint64_t>(reuse.bytes)));
}

}  // namespace

std::string simulation_text(const Lowering& lowering, const MachineModel& machine,
                            const WhatIfResult& result, const Bounds& bounds) {
  const Simulation& first = result.first;
  const double seconds = result.time_us.median / 1e6;
  std::string text = fmt::format(
      "problem    {}\norder      {}, {} tasks\nmachine    {}, {} units of {} workers\n"
      "time       {:.1f} us ({:.1f} .. {:.1f}), {:.1f} GFLOP/s effective\n"
      "bound      {:.1f} us: the time is {} above it; ",
      to_string(lowering.tiling().problem), lowering.mapping.policy, lowering.mapping.order.size(),
      machine.name, machine.units, machine.workers_per_unit, result.time_us.median,
      result.time_us.low, result.time_us.high, lowering.tiling().problem.flops() / seconds / 1e9,
      bounds.least_us(), percent(result.time_us.median / bounds.least_us() - 1));
  const char* separator = "";
  for (const NamedBound& bound : list_bounds(bounds)) {
    text += fmt::format("{}{} {:.1f}", separator, bound.name, bound.us);
    separator = ", ";
  }
  const Utilisation& used = first.utilisation;
  text += fmt::format("\nused       workers {}, compute {}, L2 {}, HBM {}\n", percent(used.workers),
                      percent(used.compute), percent(used.l2), percent(used.hbm));
  text += fmt::format("traffic    L2 {}, HBM {}\n",
                      format_bytes(static_cast<std::uint64_t>(first.l2_bytes)),
                      format_bytes(static_cast<std::uint64_t>(first.hbm_bytes)));
  text += "L2 hits    " + reuse_text("(a) rows of x", first.input_rows) + "; " +
          reuse_text("(b) U", first.filters) + "; " + reuse_text("(c) V and M", first.products) +
          '\n';
  return text + trace_table(first.analysis);
}

std::string simulation_json(const Lowering& lowering, const MachineModel& machine,
                            const WhatIfResult& result, const Bounds& bounds) {
  const Simulation& first = result.first;
  ordered_json file = {{"problem", to_string(lowering.tiling().problem)},
                       {"policy", lowering.mapping.policy},
                       {"machine", machine.name},
                       {"tasks", lowering.mapping.order.size()},
                       {"time_us", result.time_us.median},
                       {"time_low_us", result.time_us.low},
                       {"time_high_us", result.time_us.high},
                       {"bound_us", bounds.least_us()}};
  for (const NamedBound& bound : list_bounds(bounds)) file["bounds_us"][bound.name] = bound.us;
  const Utilisation& used = first.utilisation;
  file["used"] = {
      {"workers", used.workers}, {"compute", used.compute}, {"l2", used.l2}, {"hbm", used.hbm}};
  file["l2_bytes"] = first.l2_bytes;
  file["hbm_bytes"] = first.hbm_bytes;
  file["reuse_hit_rate"] = {{"a", first.input_rows.hit_rate()},
                            {"b", first.filters.hit_rate()},
                            {"c", first.products.hit_rate()}};
  file["peak_live_bytes"] = first.analysis.peak_live_bytes;
  for (std::uint32_t k = 0; k < kNumTaskKinds; ++k) {
    const KindTimes& kind = first.analysis.kinds[k];
    if (kind.num == 0) continue;
    file["kinds"][to_string(static_cast<TaskKind>(k))] = {{"tasks", kind.num},
                                                          {"work_us", kind.work_us},
                                                          {"wait_us", kind.wait_us},
                                                          {"infusible", kind.infusible}};
  }
  file["waits"] = ordered_json::array();
  for (const EdgeWait& wait : first.analysis.waits) {
    file["waits"].push_back({{"edge", edge_name(wait)}, {"tasks", wait.num}, {"us", wait.us}});
  }
  return file.dump(2) + '\n';
}

std::string calibration_table(const std::vector<std::string>& names,
                              const Calibration& calibration) {
  Table table;
  table.add_column("run");
  table.add_column("measured", "time, us");
  table.add_column("predicted", "time, us");
  table.add_column("error");
  for (std::size_t i = 0; i < names.size(); ++i) {
    const CalibrationError& error = calibration.errors[i];
    table.add_row({names[i], fmt::format("{:.1f}", error.measured_us),
                   fmt::format("{:.1f}", error.predicted_us), percent(error.relative())});
  }
  return table.str() +
         fmt::format("median of the errors without sign: {}\n", percent(calibration.median_error));
}

}  // namespace megaconv::cli
