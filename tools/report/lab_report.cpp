// SPDX-License-Identifier: Apache-2.0
#include "tools/report/lab_report.hpp"

#include <spdlog/fmt/fmt.h>

#include <utility>

#include "tools/report/comparison.hpp"
#include "tools/report/html_report.hpp"
#include "tools/report/percent.hpp"
#include "tools/report/terminal.hpp"
#include "tools/report/trace_json.hpp"

namespace megaconv::cli {
namespace {

// The same cut, whatever its window.
bool same_tasks(Tiling a, Tiling b) {
  for (Tiling* const tiling : {&a, &b}) {
    if (Window* const window = tiling->window()) *window = {};
  }
  return a == b;
}

struct Shares {
  double wait = 0, idle = 0, infusible = 0;
};

Shares shares_of(const TraceAnalysis& analysis) {
  const double all_us = std::max(analysis.span_us * analysis.tracks, 1e-3);
  Shares shares{.idle = analysis.idle_us / all_us};
  double num = 0, infusible = 0;
  for (const KindTimes& kind : analysis.kinds) {
    shares.wait += kind.wait_us / all_us;
    num += static_cast<double>(kind.num);
    infusible += static_cast<double>(kind.infusible);
  }
  shares.infusible = num > 0 ? infusible / num : 0;
  return shares;
}

}  // namespace

void bound_orders(std::vector<LabResult>& results) {
  const auto lessen = [](std::vector<double>& least, const std::vector<double>& other) {
    std::transform(least.begin(), least.end(), other.begin(), least.begin(),
                   [](double a, double b) { return std::min(a, b); });
  };
  for (LabResult& result : results) {
    TaskTimes times = result.times;
    std::uint32_t workers = result.analysis.tracks;
    for (const LabResult& other : results) {
      if (!same_tasks(result.lowering.tiling(), other.lowering.tiling())) continue;
      lessen(times.typical_us, other.times.typical_us);
      lessen(times.least_us, other.times.least_us);
      workers = std::max(workers, other.analysis.tracks);
    }
    result.order_bound_us = order_bound(result.lowering.graph, times, workers).least_us();
  }
}

std::string lab_page(std::vector<LabResult> results) {
  std::vector<std::pair<std::string, std::vector<ComparedRun>>> groups;
  for (LabResult& result : results) {
    const std::string heading = fmt::format("{} on {}, {}", result.layer,
                                            to_string(result.site.backend), result.site.device);
    if (groups.empty() || groups.back().first != heading) groups.push_back({heading, {}});
    groups.back().second.push_back({result.policy, std::move(*result.run), result.order_bound_us});
  }
  return html_comparison(groups);
}

std::string lab_table(const std::vector<LabResult>& results) {
  std::string text;
  for (std::size_t begin = 0, end; begin < results.size(); begin = end) {
    end = begin;
    while (end < results.size() && results[end].layer == results[begin].layer &&
           results[end].site.backend == results[begin].site.backend) {
      ++end;
    }
    Table table = comparison_table("policy");
    table.add_column("machine", "above bound");
    table.add_column("tasks", "above bound");
    table.add_column("wait", "share of workers' time");
    table.add_column("idle", "share of workers' time");
    table.add_column("infusible");
    table.add_column("live");
    for (std::size_t i = begin; i < end; ++i) {
      const LabResult& result = results[i];
      const Shares shares = shares_of(result.analysis);
      std::vector<std::string> cells =
          comparison_cells(result.policy, result.time_us, result.against_first);
      cells.insert(
          cells.end(),
          {result.bound_us > 0 ? percent(result.time_us.median / result.bound_us - 1) : "-",
           percent(result.analysis.span_us / std::max(result.order_bound_us, 1e-3) - 1),
           percent(shares.wait), percent(shares.idle), percent(shares.infusible),
           format_bytes(result.analysis.peak_live_bytes)});
      table.add_row(std::move(cells));
    }
    text += fmt::format("{}{} on {}, {}\n", begin == 0 ? "" : "\n", results[begin].layer,
                        to_string(results[begin].site.backend), results[begin].site.device) +
            table.str();
  }
  return text;
}

std::vector<Record> lab_records(const std::vector<LabResult>& results, std::uint64_t seed) {
  std::vector<Record> records;
  for (const LabResult& result : results) {
    const Shares shares = shares_of(result.analysis);
    const MappingOptions& options = result.lowering.mapping.options;
    const auto optional = [](const std::optional<std::uint32_t>& value) {
      return value ? Record(*value) : Record();
    };
    Record record = record_head("lab", result.site, result.analysis.tracks, seed);
    record["layer"] = result.layer;
    record["problem"] = to_string(result.lowering.tiling().problem);
    record["policy"] = result.policy;
    record["dig"] = optional(options.dig);
    record["dgo"] = optional(options.dgo);
    record["m_groups"] = optional(options.m_groups);
    record["tasks"] = result.lowering.graph.tasks.size();
    record["turns"] = result.times_us.size();
    record["time_us"] = result.time_us.median;
    record["time_low_us"] = result.time_us.low;
    record["time_high_us"] = result.time_us.high;
    record["against_first"] = result.against_first.median;
    record["against_first_low"] = result.against_first.low;
    record["against_first_high"] = result.against_first.high;
    record["bound_us"] = result.bound_us > 0 ? Record(result.bound_us) : Record();
    record["span_us"] = result.analysis.span_us;
    record["order_bound_us"] = result.order_bound_us;
    record["wait_share"] = shares.wait;
    record["idle_share"] = shares.idle;
    record["infusible_share"] = shares.infusible;
    record["peak_live_bytes"] = result.analysis.peak_live_bytes;
    for (std::uint32_t k = 0; k < kNumTaskKinds; ++k) {
      const KindTimes& kind = result.analysis.kinds[k];
      const std::string name = to_string(static_cast<TaskKind>(k));
      const auto mean = [&](double us) {
        return kind.num > 0 ? Record(us / static_cast<double>(kind.num)) : Record();
      };
      record[name + "_work_us"] = mean(kind.work_us);
      record[name + "_wait_us"] = mean(kind.wait_us);
    }
    const auto rate = [&](const Reuse Simulation::*reuse) {
      return result.simulation ? Record(((*result.simulation).*reuse).hit_rate()) : Record();
    };
    record["reuse_a"] = rate(&Simulation::input_rows);
    record["reuse_b"] = rate(&Simulation::filters);
    record["reuse_c"] = rate(&Simulation::products);
    record["hbm_bytes"] = result.simulation ? Record(result.simulation->hbm_bytes) : Record();
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace megaconv::cli
