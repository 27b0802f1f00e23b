// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/tune_report.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "tools/report/svg_chart.hpp"
#include "tools/report/terminal.hpp"
#include "tools/tune/tune_chart.hpp"

namespace megaconv::cli {
namespace {

constexpr const char* kStyle = R"(
:root { --ink: #1b1f24; --soft: #5b6570; --line: #d9dee3; --accent: #1f6feb; --paper: #fff; --mark: #b35900; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --soft: #9aa4af; --line: #343b43; --accent: #6ea8ff; --paper: #14171a; --mark: #f0a35e; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 1080px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1.2rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .3rem; } p { margin: .3rem 0; } .soft { color: var(--soft); }
.wide { overflow-x: auto; } .charts { display: flex; flex-wrap: wrap; gap: .8rem 1.4rem; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
tr.heuristic td { color: var(--mark); } td.words { text-align: left; white-space: normal; }
svg .label { font: 11px system-ui, sans-serif; fill: var(--soft); } svg .label.on { fill: var(--paper); }
svg .title { font: 600 12px system-ui, sans-serif; fill: var(--ink); }
svg .grid { stroke: var(--line); } svg .dot { fill: var(--soft); fill-opacity: .45; }
svg .best { fill: none; stroke: var(--accent); stroke-width: 2; } svg .best.thin { stroke-width: 1; stroke-opacity: .6; }
svg .reference { stroke: var(--mark); stroke-dasharray: 5 4; } svg .range { stroke: var(--line); stroke-width: 6; }
svg .median { stroke: var(--soft); stroke-width: 2; } svg .top { fill: var(--accent); }
svg .cell { fill: var(--accent); } svg .none { fill: none; stroke: var(--soft); stroke-dasharray: 3 3; }
)";

using Row = std::vector<std::string>;

std::string cells(const char* tag, const Row& row) {
  std::string text;
  for (const std::string& cell : row) text += fmt::format("<{0}>{1}</{0}>", tag, escape_html(cell));
  return text;
}

std::string table_start(const Row& head) {
  return "<div class='wide'><table><thead><tr>" + cells("th", head) + "</tr></thead><tbody>\n";
}
constexpr const char* kTableEnd = "</tbody></table></div>\n";

/// One problem's measurements, looked at from all sides.
class ProblemReport {
 public:
  explicit ProblemReport(const ReportedProblem& item)
      : item_(item), ranked_(rank(item.known.measurements)) {
    flops_ = parse_problem(item.known.key.problem).flops();
    for (const Measurement& m : ranked_) {
      if (m.configuration == item.heuristic) heuristic_ms_ = m.best_ms;
    }
  }

  double best_ms() const { return ranked_.empty() ? 0 : ranked_.front().best_ms; }
  double heuristic_ms() const { return heuristic_ms_; }
  double rate(double ms) const { return flops_ / ms * 1e-6; }
  std::size_t candidates() const { return ranked_.size(); }

  std::string str(std::size_t table_rows) const {
    const PlanKey& key = item_.known.key;
    std::string text =
        "<h2>" + escape_html(item_.name) + "</h2>\n<p class='soft'>" +
        escape_html(fmt::format("{} on {}, driver {}, build {}, {}, filters {}", key.problem,
                                key.device, key.driver, key.build, key.precision, key.filters)) +
        "</p>\n";
    if (ranked_.empty()) return text + "<p>No candidate was right.</p>\n" + failures();
    text += "<h3>Best so far</h3>\n<div class='wide'>" + progress() + "</div>\n";
    text +=
        "<h3>Sensitivity to each parameter</h3>\n<p class='soft'>Speed by that of the best "
        "candidate. Dot: the best with this value; bar: the median; shadow: down to the worst. "
        "Candidates that were given up early count with what they showed.</p>\n<div "
        "class='charts'>" +
        sensitivity() + "</div>\n" + heat_map();
    return text + best_table(table_rows) + failures();
  }

 private:
  std::string progress() const {
    ProgressChart chart{.x_title = "measurements",
                        .y_title = "GFLOP/s, effective",
                        .values = {},
                        .reference = heuristic_ms_ > 0 ? rate(heuristic_ms_) : 0,
                        .reference_title = "heuristic"};
    for (const Measurement& m : item_.known.measurements) {
      if (m.verdict == Verdict::rejected || m.strategy == "final") continue;
      const bool right = m.verdict == Verdict::right;
      chart.values.push_back(right ? rate(m.best_ms) : std::numeric_limits<double>::quiet_NaN());
    }
    return svg(chart);
  }

  std::vector<Parameter> varied() const {
    std::vector<Parameter> parameters;
    for (std::size_t i = 0; i < kNumParameters; ++i) {
      const auto parameter = static_cast<Parameter>(i);
      if (values(parameter).size() > 1) parameters.push_back(parameter);
    }
    return parameters;
  }

  std::set<std::int64_t> values(Parameter parameter) const {
    std::set<std::int64_t> found;
    for (const Measurement& m : ranked_) {
      if (const auto value = m.configuration.get(parameter)) found.insert(*value);
    }
    return found;
  }

  std::string sensitivity() const {
    std::string text;
    for (const Parameter parameter : varied()) {
      ValueChart chart{to_string(parameter), {}};
      for (const std::int64_t value : values(parameter)) {
        std::vector<double> speeds;  // ranked: the best first
        for (const Measurement& m : ranked_) {
          if (m.configuration.get(parameter) == value) speeds.push_back(best_ms() / m.best_ms);
        }
        chart.columns.push_back({value_text(parameter, value), speeds.front(),
                                 speeds[speeds.size() / 2], speeds.back(), speeds.size()});
      }
      text += svg(chart);
    }
    return text;
  }

  std::string heat_map() const {
    const std::set<std::int64_t> digs = values(Parameter::dig),
                                 groups = values(Parameter::m_groups);
    if (digs.size() < 2 || groups.size() < 2) return {};
    HeatMap map{
        .x_title = "DIG", .y_title = "M groups", .x_labels = {}, .y_labels = {}, .cells = {}};
    for (const std::int64_t dig : digs) map.x_labels.push_back(std::to_string(dig));
    for (const std::int64_t group : groups) {
      map.y_labels.push_back(std::to_string(group));
      for (const std::int64_t dig : digs) {
        const auto found = std::find_if(ranked_.begin(), ranked_.end(), [&](const Measurement& m) {
          return m.configuration.get(Parameter::dig) == dig &&
                 m.configuration.get(Parameter::m_groups) == group;
        });
        map.cells.push_back(found == ranked_.end() ? std::nullopt
                                                   : std::optional(best_ms() / found->best_ms));
      }
    }
    return "<h3>DIG and M groups</h3>\n<p class='soft'>The best candidate of each pair, by the "
           "best "
           "of all. A dashed cell was not measured.</p>\n<div class='wide'>" +
           svg(map) + "</div>\n";
  }

  std::string best_table(std::size_t rows) const {
    const std::vector<Parameter> parameters = varied();
    // What was measured stands first: a table may have more parameters than a screen has room for.
    Row head = {"#", "ms", "GFLOP/s", "noise", "error / bound", "workspace"};
    for (const Parameter parameter : parameters) head.push_back(to_string(parameter));
    std::string text = fmt::format("<h3>The {} best of {} candidates</h3>\n",
                                   std::min(rows, ranked_.size()), ranked_.size()) +
                       table_start(head);
    for (std::size_t i = 0; i < ranked_.size(); ++i) {
      const Measurement& m = ranked_[i];
      const bool heuristic = m.configuration == item_.heuristic;
      if (i >= rows && !heuristic) continue;
      Row row = {fmt::format("{}{}", i + 1, heuristic ? " (heuristic)" : ""),
                 format_ms(m.best_ms),
                 fmt::format("{:.1f}", rate(m.best_ms)),
                 fmt::format("{:.0f}%", 100 * m.noise),
                 m.bound_l2 > 0 ? fmt::format("{:.0f}%", 100 * m.relative_l2 / m.bound_l2) : "-",
                 format_bytes(m.workspace_bytes)};
      for (const Parameter parameter : parameters) {
        const auto value = m.configuration.get(parameter);
        row.push_back(value ? value_text(parameter, *value) : "-");
      }
      text += (heuristic ? "<tr class='heuristic'>" : "<tr>") + cells("td", row) + "</tr>\n";
    }
    text += kTableEnd;
    // What is the same in all of them is said once.
    std::string fixed;
    for (std::size_t i = 0; i < kNumParameters; ++i) {
      const auto parameter = static_cast<Parameter>(i);
      const std::set<std::int64_t> found = values(parameter);
      if (found.size() == 1) {
        fixed += fmt::format("{}{} = {}", fixed.empty() ? "" : ", ", to_string(parameter),
                             value_text(parameter, *found.begin()));
      }
    }
    return fixed.empty() ? text : text + "<p class='soft'>In all: " + escape_html(fixed) + "</p>\n";
  }

  std::string failures() const {
    std::map<std::pair<std::string, std::string>, std::uint64_t> counts;
    for (const Measurement& m : item_.known.measurements) {
      if (m.verdict != Verdict::right) ++counts[{to_string(m.verdict), m.reason}];
    }
    if (counts.empty()) return {};
    std::string text =
        "<h3>Candidates without a time</h3>\n" + table_start({"verdict", "candidates", "reason"});
    for (const auto& [what, count] : counts) {
      text += fmt::format("<tr><td>{}</td><td>{}</td><td class='words'>{}</td></tr>\n",
                          escape_html(what.first), count, escape_html(what.second));
    }
    return text + kTableEnd;
  }

  const ReportedProblem& item_;
  std::vector<Measurement> ranked_;
  double flops_ = 0, heuristic_ms_ = 0;
};

}  // namespace

std::string tune_report(const std::vector<ReportedProblem>& problems, std::size_t table_rows) {
  std::string sections, summary;
  double log_sum = 0;
  std::size_t compared = 0;
  for (const ReportedProblem& item : problems) {
    const ProblemReport report(item);
    sections += report.str(table_rows);
    const double best = report.best_ms(), heuristic = report.heuristic_ms();
    const bool both = best > 0 && heuristic > 0;
    if (both) {
      log_sum += std::log(heuristic / best);
      ++compared;
    }
    summary +=
        "<tr>" +
        cells("td", {item.name, std::to_string(report.candidates()),
                     heuristic > 0 ? format_ms(heuristic) : "-", best > 0 ? format_ms(best) : "-",
                     best > 0 ? fmt::format("{:.1f}", report.rate(best)) : "-",
                     both ? fmt::format("{:.2f}x", heuristic / best) : "-"}) +
        "</tr>\n";
  }
  std::string text =
      "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
      "<meta name='viewport' content='width=device-width, initial-scale=1'>"
      "<title>megaconv tune report</title><style>" +
      std::string(kStyle) + "</style></head><body>\n<h1>megaconv tune report</h1>\n";
  text +=
      table_start({"layer", "right candidates", "heuristic ms", "best ms", "GFLOP/s", "speedup"}) +
      summary + kTableEnd;
  if (compared > 1) {
    text += fmt::format("<p>Geometric mean of {} speedups: {:.2f}x</p>\n", compared,
                        std::exp(log_sum / static_cast<double>(compared)));
  }
  text +=
      "<p class='soft'>GFLOP/s are those of direct convolution, 2 N K P Q C R S, by the least "
      "time measured. A time counts only when the output was within its error bound.</p>\n";
  return text + sections + "</body></html>\n";
}

}  // namespace megaconv::cli
