// SPDX-License-Identifier: Apache-2.0
#include "tools/report/html_report.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "megaconv/simulation.hpp"
#include "runtime/sim/cache.hpp"
#include "runtime/sim/demands.hpp"
#include "tools/report/summary.hpp"
#include "tools/report/svg_chart.hpp"
#include "tools/report/terminal.hpp"
#include "tools/report/trace_tracks.hpp"

namespace megaconv::cli {
namespace {

constexpr std::size_t kBins = 220;
constexpr std::uint32_t kMostTracks = 32;  // of the timeline
constexpr double kMiB = 1 << 20;

// By TaskKind; readable next to each other also without seeing red and green apart.
constexpr std::array<const char*, kNumTaskKinds> kKindColors = {
    "#8c8c8c", "#3b7dd8", "#e0a030", "#3aa17e", "#9b59b6", "#c0504d", "#7a6a2f"};
constexpr const char* kWaitColor = "#e6e6e6";
constexpr std::array<const char*, 6> kWaitColors = {"#3b7dd8", "#e0a030", "#3aa17e",
                                                    "#9b59b6", "#c0504d", "#8c8c8c"};

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>megaconv: {title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; margin-bottom: 0; }} h2 {{ font-size: 1.1rem; margin: 2rem 0 0; }}
p {{ margin: .3rem 0; }} .sub, .legend {{ color: #555; }}
svg {{ width: 100%; height: auto; display: block; }}
.grid {{ stroke: #ddd; stroke-width: .6; }} .tick {{ font-size: 11px; fill: #666; }}
.limit {{ stroke: #c0392b; stroke-width: 1.4; stroke-dasharray: 6 4; }}
.legend span {{ margin-right: 1.2em; white-space: nowrap; }}
.legend i {{ display: inline-block; width: .9em; height: .9em; margin-right: .4em; vertical-align: -.1em; }}
.legend i.dash {{ height: 0; border-top: 2px dashed #c0392b; vertical-align: .25em; }}
table {{ border-collapse: collapse; margin: .6rem 0; }}
td, th {{ padding: .15rem .9rem .15rem 0; text-align: right; font-variant-numeric: tabular-nums; }}
td:first-child, th:first-child {{ text-align: left; }} th {{ color: #555; font-weight: 500; border-bottom: 1px solid #ccc; }}
</style></head><body>
)";

std::uint64_t first_ns(const Trace& trace) {
  std::uint64_t first = trace.records.empty() ? 0 : ~std::uint64_t{0};
  for (const TraceRecord& record : trace.records) first = std::min(first, record.fetch_ns);
  return first;
}

// Tasks and waits of kMostTracks tracks, from all over the machine.
std::vector<Bar> timeline_bars(const RecordedRun& run) {
  const Tracks tracks(run.trace);
  const std::uint64_t begin_ns = first_ns(run.trace);
  const auto us = [&](std::uint64_t ns) { return static_cast<double>(ns - begin_ns) / 1000; };
  std::vector<Bar> bars;
  for (const TraceRecord& record : run.trace.records) {
    const auto& all = tracks.all();
    const auto track = static_cast<std::size_t>(
        std::lower_bound(all.begin(), all.end(), tracks.of(record.position)) - all.begin());
    const std::size_t shown = std::min<std::size_t>(all.size(), kMostTracks);
    const auto row = static_cast<std::uint32_t>(track * shown / all.size());
    if (track != (row * all.size() + shown - 1) / shown) continue;  // another has this row
    const TaskGraph& graph = run.lowering.graph;
    const Task& task = graph.tasks[run.lowering.mapping.order[record.position]];
    const double fetch_us = us(record.fetch_ns), ready_us = us(record.ready_ns);
    const double end_us = us(record.end_ns);
    if (record.ready_ns > record.fetch_ns) {
      bars.push_back({row, fetch_us, ready_us, kWaitColor, "wait for " + name(graph, task)});
    }
    bars.push_back({row, ready_us, end_us, kKindColors[task.kind],
                    fmt::format("{}: {:.1f} us", name(graph, task), end_us - ready_us)});
  }
  return bars;
}

// Time cut into bins of equal length.
class Bins {
 public:
  Bins(std::uint64_t begin_ns, std::uint64_t end_ns)
      : begin_ns_(static_cast<double>(begin_ns)),
        bin_ns_(std::max(1.0, static_cast<double>(end_ns - begin_ns) / kBins)) {}

  /// Adds `amount`, spread evenly over the interval; values are then amounts a ns.
  void add(std::vector<double>& values, std::uint64_t from_ns, std::uint64_t to_ns,
           double amount) const {
    if (to_ns <= from_ns) return;
    const double from = (static_cast<double>(from_ns) - begin_ns_) / bin_ns_;
    const double to = (static_cast<double>(to_ns) - begin_ns_) / bin_ns_;
    for (auto b = static_cast<std::size_t>(from); b < kBins && static_cast<double>(b) < to; ++b) {
      const double overlap =
          std::min(to, static_cast<double>(b + 1)) - std::max(from, static_cast<double>(b));
      values[b] += amount * overlap / (to - from) / bin_ns_;
    }
  }
  /// Adds 1 during the interval.
  void count(std::vector<double>& values, std::uint64_t from_ns, std::uint64_t to_ns) const {
    add(values, from_ns, to_ns, static_cast<double>(to_ns - from_ns));
  }

 private:
  double begin_ns_, bin_ns_;
};

class Report {
 public:
  Report(const RecordedRun& run, const MachineModel& machine)
      : run_(run),
        machine_(machine),
        analysis_(analyse(run.lowering, run.trace)),
        bins_(first_ns(run.trace), last_ns(run.trace)) {}

  std::string text(const std::string& origin, bool simulated) const {
    const Tiling& tiling = run_.lowering.tiling();
    const std::string problem = to_string(tiling.problem);
    std::string page = fmt::format(kHead, fmt::arg("title", problem));
    page += fmt::format(
        "<h1>{}</h1>\n<p class=\"sub\">{}, {} order, {}: {:.1f} us on {} tracks</p>\n", problem,
        escape_html(algorithm_text(tiling)), escape_html(run_.lowering.mapping.policy),
        escape_html(origin), analysis_.span_us, analysis_.tracks);
    page += kinds_table();
    page += "<h2>Tasks at work, by kind</h2>\n" + to_svg(kinds_chart());
    page +=
        "<h2>Use of the machine</h2>\n<p class=\"sub\">Each task's operations and bytes, spread "
        "evenly over its time; HBM traffic from the cache model. " +
        std::string(simulated
                        ? "The simulator exceeds no rate: where a curve is above 100 %, tasks "
                          "had their share at another part of their time"
                        : "More than 100 % says that the model's rate is too low") +
        "</p>\n" + to_svg(use_chart());
    page += "<h2>Tasks that wait, by what they wait for</h2>\n" + waits_section();
    page += "<h2>V and M in use</h2>\n" + footprint_section();
    page +=
        fmt::format("<h2>Timeline of {} of {} tracks</h2>\n", shown_tracks(), analysis_.tracks) +
        timeline();
    return page + "</body></html>\n";
  }

 private:
  static std::uint64_t last_ns(const Trace& trace) {
    std::uint64_t last = 1;
    for (const TraceRecord& record : trace.records) last = std::max(last, record.end_ns);
    return last;
  }
  const Task& task_at(std::uint32_t position) const {
    return run_.lowering.graph.tasks[run_.lowering.mapping.order[position]];
  }
  std::uint32_t shown_tracks() const { return std::min(analysis_.tracks, kMostTracks); }

  Chart chart(const char* unit) const { return {.unit = unit, .span_us = analysis_.span_us}; }

  std::string kinds_table() const {
    std::string text =
        "<table><tr><th>task kind</th><th>tasks</th><th>work, mean us</th><th>wait, mean us</th>"
        "<th>work, share</th><th>wait, share</th><th>infusible</th></tr>\n";
    const double all_us = std::max(1e-3, analysis_.span_us * analysis_.tracks);
    for (std::uint32_t k = 0; k < kNumTaskKinds; ++k) {
      const KindTimes& kind = analysis_.kinds[k];
      if (kind.num == 0) continue;
      const auto num = static_cast<double>(kind.num);
      text += fmt::format(
          "<tr><td>{}</td><td>{}</td><td>{:.1f}</td><td>{:.1f}</td><td>{:.1f}%</td>"
          "<td>{:.1f}%</td><td>{}</td></tr>\n",
          to_string(static_cast<TaskKind>(k)), kind.num, kind.work_us / num, kind.wait_us / num,
          100 * kind.work_us / all_us, 100 * kind.wait_us / all_us, kind.infusible);
    }
    return text + fmt::format(
                      "<tr><td>idle</td><td></td><td></td><td></td><td>{:.1f}%</td><td></td>"
                      "<td></td></tr></table>\n",
                      100 * analysis_.idle_us / all_us);
  }

  Chart kinds_chart() const {
    Chart result = chart("tasks");
    result.stacked = true;
    result.least_top = analysis_.tracks;
    for (std::uint32_t k = 0; k < kNumTaskKinds; ++k) {
      if (analysis_.kinds[k].num == 0) continue;
      Series series{to_string(static_cast<TaskKind>(k)), kKindColors[k],
                    std::vector<double>(kBins)};
      for (const TraceRecord& record : run_.trace.records) {
        if (static_cast<std::uint32_t>(task_at(record.position).kind) != k) continue;
        bins_.count(series.values, record.ready_ns, record.end_ns);
      }
      result.series.push_back(std::move(series));
    }
    Series waiting{"waiting", kWaitColor, std::vector<double>(kBins)};
    for (const TraceRecord& record : run_.trace.records) {
      bins_.count(waiting.values, record.fetch_ns, record.ready_ns);
    }
    result.series.push_back(std::move(waiting));
    return result;
  }

  Chart use_chart() const {
    const sim::Demands demands(run_.lowering.graph);
    sim::Cache cache(static_cast<double>(machine_.l2_bytes), demands.piece_bytes());
    std::vector<double> compute(kBins), l2(kBins), hbm(kBins);
    std::vector<std::uint32_t> by_time(run_.trace.records.size());
    std::iota(by_time.begin(), by_time.end(), 0u);
    std::stable_sort(by_time.begin(), by_time.end(), [&](std::uint32_t a, std::uint32_t b) {
      return run_.trace.records[a].ready_ns < run_.trace.records[b].ready_ns;
    });
    std::vector<sim::Touch> touches;
    for (const std::uint32_t position : by_time) {
      const TraceRecord& record = run_.trace.records[position];
      const std::uint32_t id = run_.lowering.mapping.order[position];
      demands.list_touches(id, touches);
      double misses = 0;
      for (const sim::Touch& touch : touches) {
        misses += cache.touch(touch.piece, touch.bytes, touch.write).hbm_bytes;
      }
      const double unit_ns = demands.work(id, machine_).unit_ns;
      bins_.add(compute, record.ready_ns, record.end_ns, 100 * unit_ns / machine_.units);
      bins_.add(l2, record.ready_ns, record.end_ns, 100 * demands.l2_bytes(id) / machine_.l2_gbps);
      bins_.add(hbm, record.ready_ns, record.end_ns, 100 * misses / machine_.hbm_gbps);
    }
    Chart result = chart("% of the most");
    result.least_top = 100;
    result.series = {{"compute", kKindColors[2], std::move(compute)},
                     {"L2", kKindColors[1], std::move(l2)},
                     {"HBM", kKindColors[3], std::move(hbm)}};
    return result;
  }

  std::string waits_section() const {
    if (analysis_.waits.empty()) return "<p>None waited.</p>\n";
    const std::vector<std::uint32_t> last = last_producers(run_.lowering, run_.trace);
    Chart result = chart("tasks");
    result.stacked = true;
    std::string rows;
    const double all_us = std::max(1e-3, analysis_.span_us * analysis_.tracks);
    for (const EdgeWait& wait : analysis_.waits) {
      Series series{edge_name(wait), kWaitColors[result.series.size() % kWaitColors.size()],
                    std::vector<double>(kBins)};
      for (const TraceRecord& record : run_.trace.records) {
        const Task& task = task_at(record.position);
        if (kind_of(task) != wait.to || task.wait_counter == kNoCounter) continue;
        const std::uint32_t producer = last[task.wait_counter];
        if (producer >= run_.trace.records.size()) continue;
        const bool slot = frees_memory(run_.lowering, producer, record.position);
        if (kind_of(task_at(producer)) != wait.from || slot != wait.slot) continue;
        bins_.count(series.values, record.fetch_ns, record.ready_ns);
      }
      rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{:.1f}</td><td>{:.1f}%</td></tr>\n",
                          edge_name(wait), wait.num, wait.us / static_cast<double>(wait.num),
                          100 * wait.us / all_us);
      result.series.push_back(std::move(series));
    }
    return to_svg(result) +
           "<table><tr><th>waits</th><th>tasks</th><th>mean, us</th><th>share of time</th></tr>\n" +
           rows + "</table>\n";
  }

  std::string footprint_section() const {
    const std::vector<LiveBytes> live = live_bytes(run_.lowering, run_.trace);
    if (live.empty()) return "<p>This algorithm has no V and M.</p>\n";
    Chart result = chart("MiB");
    Series series{fmt::format("V and M, at most {}", format_bytes(analysis_.peak_live_bytes)),
                  kKindColors[1], std::vector<double>(kBins)};
    for (std::size_t i = 0; i + 1 < live.size(); ++i) {
      bins_.add(series.values, live[i].ns, live[i + 1].ns,
                static_cast<double>(live[i].bytes) / kMiB *
                    static_cast<double>(live[i + 1].ns - live[i].ns));
    }
    result.series = {std::move(series)};
    result.limit = static_cast<double>(machine_.l2_bytes) / kMiB;
    result.limit_name = fmt::format("what the cache keeps, {}", format_bytes(machine_.l2_bytes));
    return to_svg(result);
  }

  std::string timeline() const {
    return to_svg(timeline_bars(run_), shown_tracks(), analysis_.span_us);
  }

  const RecordedRun& run_;
  const MachineModel& machine_;
  const TraceAnalysis analysis_;
  const Bins bins_;
};

}  // namespace

std::string html_report(const RecordedRun& run, const MachineModel& machine,
                        const std::string& origin, bool simulated) {
  return Report(run, machine).text(origin, simulated);
}

std::string html_comparison(
    const std::vector<std::pair<std::string, std::vector<ComparedRun>>>& groups) {
  std::string page = fmt::format(kHead, fmt::arg("title", "policies"));
  page += "<h1>Policies on one time axis</h1>\n<p class=\"legend\">";
  for (std::uint32_t k = 0; k < kNumTaskKinds; ++k) {
    page += fmt::format(R"(<span><i style="background:{}"></i>{}</span> )", kKindColors[k],
                        to_string(static_cast<TaskKind>(k)));
  }
  page += fmt::format(
      "<span><i style=\"background:{}\"></i>waiting</span> <span><i class=\"dash\"></i>what no "
      "order "
      "of these tasks beats</span></p>\n",
      kWaitColor);
  for (const auto& [heading, runs] : groups) {
    page += "<h2>" + escape_html(heading) + "</h2>\n";
    std::vector<TraceAnalysis> analyses;
    double span_us = 0;
    for (const ComparedRun& compared : runs) {
      analyses.push_back(analyse(compared.run.lowering, compared.run.trace));
      span_us = std::max(span_us, analyses.back().span_us);
    }
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const std::uint32_t tracks = std::min(analyses[i].tracks, kMostTracks);
      page +=
          fmt::format(
              "<p class=\"sub\">{}: {:.1f} us on {} tracks, {} of them here; bound {:.1f} us</p>\n",
              escape_html(runs[i].heading), analyses[i].span_us, analyses[i].tracks, tracks,
              runs[i].bound_us) +
          to_svg(timeline_bars(runs[i].run), tracks, span_us, runs[i].bound_us);
    }
  }
  return page + "</body></html>\n";
}

}  // namespace megaconv::cli
