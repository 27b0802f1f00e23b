// SPDX-License-Identifier: Apache-2.0
#include "tools/report/network_timeline.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "megaconv/tiling.hpp"
#include "tools/report/percent.hpp"
#include "tools/report/svg_chart.hpp"
#include "tools/report/table.hpp"

namespace megaconv::cli {
namespace timeline {
namespace {

// Pixels.
constexpr double kNames = 190, kPlot = 820, kShare = 60, kTop = 64, kRow = 11, kBottom = 34;
constexpr std::size_t kBins = 410;  // of time
constexpr std::size_t kMostName = 34, kMostRows = 12;
constexpr const char* kChainColor = "#c0392b";

struct Family {
  const char* name;
  const char* color;
};
constexpr std::array<Family, 5> kFamilies = {{{"1x1 convolution", "#3b7dd8"},
                                              {"convolution", "#e0a030"},
                                              {"Winograd", "#3aa17e"},
                                              {"depthwise or in groups", "#9b59b6"},
                                              {"pooling and elementwise", "#7a6a2f"}}};

std::size_t family_of(const Cut& cut) {
  const auto* const tiling = std::get_if<Tiling>(&cut);
  const auto* const small = std::get_if<SmallGemmCut>(&cut);
  if (tiling == nullptr && small == nullptr) return 4;
  const ConvProblem& problem = tiling != nullptr ? tiling->problem : small->problem;
  if (problem.groups > 1) return 3;
  if (problem.r == 1 && problem.s == 1) return 0;
  return tiling != nullptr && tiling->tiles() != nullptr ? 2 : 1;
}

std::uint64_t begin_of(const Trace& trace) {
  std::uint64_t first = ~std::uint64_t{0};
  for (const TraceRecord& record : trace.records) first = std::min(first, record.fetch_ns);
  return trace.records.empty() ? 0 : first;
}

double us_of(std::uint64_t ns) { return static_cast<double>(ns) / 1000; }

const Task& task_of(const Lowering& lowering, std::uint32_t position) {
  return lowering.graph.tasks[lowering.mapping.order[position]];
}

std::string short_node(const std::string& name) {
  return name.size() <= kMostName ? name : name.substr(0, kMostName - 3) + "...";
}

class Picture {
 public:
  explicit Picture(const RecordedRun& run)
      : run_(run),
        analysis_(analyse(run.lowering, run.trace)),
        begin_ns_(begin_of(run.trace)),
        work_us_(run.lowering.graph.nodes.size()),
        busy_(run.lowering.graph.nodes.size(), std::vector<double>(kBins)) {
    for (const TraceRecord& record : run.trace.records) {
      const NodeId node = task_of(run.lowering, record.position).node;
      work_us_[node] += us_of(record.end_ns - record.ready_ns);
      count(busy_[node], bin(record.ready_ns), bin(record.end_ns));
    }
  }

  std::string text(const std::string& title) const {
    const double width = kNames + kPlot + kShare;
    const double height = kTop + kRow * static_cast<double>(busy_.size()) + kBottom;
    std::string svg = fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" )"
        R"(font-family="system-ui, sans-serif" font-size="8.5" fill="#333">)"
        "\n"
        R"(<rect width="{0}" height="{1}" fill="#ffffff"/>)"
        R"(<text x="{2}" y="20" font-size="15" fill="#111">{3}</text>)"
        "\n",
        width, height, kNames, escape_html(title));
    svg += legend() + axis();
    for (std::size_t node = 0; node < busy_.size(); ++node) svg += row(node);
    return svg + chain() + "</svg>\n";
  }

 private:
  double bin(std::uint64_t ns) const {
    return us_of(ns - begin_ns_) / std::max(analysis_.span_us, 1e-3) * double{kBins};
  }
  static double x_of(double bin) { return kNames + bin / double{kBins} * kPlot; }
  double y_of(double node) const { return kTop + kRow * node; }

  // Adds 1 from one place on the axis to the other.
  static void count(std::vector<double>& values, double from, double to) {
    for (auto b = static_cast<std::size_t>(from); b < kBins && static_cast<double>(b) < to; ++b) {
      values[b] +=
          std::min(to, static_cast<double>(b + 1)) - std::max(from, static_cast<double>(b));
    }
  }

  std::string legend() const {
    std::string svg;
    double x = kNames;
    for (const Family& family : kFamilies) {
      svg += fmt::format(R"(<rect x="{}" y="30" width="9" height="9" fill="{}"/>)"
                         R"(<text x="{}" y="38" font-size="10">{}</text>)",
                         x, family.color, x + 13, family.name);
      x += 30 + 5.6 * static_cast<double>(std::string_view(family.name).size());
    }
    return svg + fmt::format(R"(<path d="M{},35h14" stroke="{}" stroke-width="1.6"/>)"
                             R"(<text x="{}" y="38" font-size="10">longest chain, {:.0f} us</text>)"
                             "\n",
                             x, kChainColor, x + 18, chain_us());
  }

  std::string axis() const {
    const double bottom = y_of(static_cast<double>(busy_.size()));
    const double span = std::max(analysis_.span_us, 1e-3);
    const double step = nice_step(span);
    std::string svg;
    for (int i = 0; i * step <= span; ++i) {
      svg += fmt::format(
          R"(<path d="M{0:.1f},{1}V{2:.1f}" stroke="#ddd" stroke-width=".6"/>)"
          R"(<text x="{0:.1f}" y="{3:.1f}" text-anchor="middle" font-size="10">{4:g}</text>)",
          kNames + i * step / span * kPlot, kTop, bottom, bottom + 14, i * step);
    }
    return svg + fmt::format(R"(<text x="{}" y="{:.1f}" text-anchor="end" font-size="10">us</text>)"
                             R"(<text x="{}" y="{}" text-anchor="end">share of work</text>)"
                             "\n",
                             kNames + kPlot, bottom + 27, kNames + kPlot + kShare - 4, kTop - 6);
  }

  // Bins next to each other with about as many workers are one rectangle.
  std::string row(std::size_t node) const {
    constexpr double kShades = 8;
    const std::string& name = run_.lowering.graph.nodes[node];
    const double y = y_of(static_cast<double>(node));
    const double all = std::max(1e-3, std::accumulate(work_us_.begin(), work_us_.end(), 0.0));
    std::string svg =
        fmt::format(R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)"
                    R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)",
                    kNames - 6, y + kRow - 3, escape_html(short_node(name)),
                    kNames + kPlot + kShare - 4, y + kRow - 3, percent(work_us_[node] / all));
    const auto shade = [&](std::size_t b) {
      return std::ceil(kShades * busy_[node][b] / std::max(1u, analysis_.tracks) - 1e-6);
    };
    for (std::size_t b = 0, end; b < kBins; b = end) {
      end = b + 1;
      const double here = shade(b);
      while (end < kBins && shade(end) == here) ++end;
      if (here <= 0) continue;
      svg += fmt::format(
          R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}" fill="{}" opacity="{:.2f}"/>)",
          x_of(static_cast<double>(b)), y + 0.5, static_cast<double>(end - b) * kPlot / kBins,
          kRow - 1, kFamilies[family_of(run_.lowering.nodes[node].cut)].color,
          0.2 + 0.8 * std::min(1.0, here / kShades));
    }
    return svg + "\n";
  }

  double chain_us() const {
    double us = 0;
    for (const std::uint32_t position : longest_chain(run_.lowering, run_.trace)) {
      const TraceRecord& record = run_.trace.records[position];
      us += us_of(record.end_ns - record.ready_ns);
    }
    return us;
  }

  std::string chain() const {
    std::string path;
    for (const std::uint32_t position : longest_chain(run_.lowering, run_.trace)) {
      const TraceRecord& record = run_.trace.records[position];
      const double y = y_of(task_of(run_.lowering, position).node) + kRow / 2;
      path += fmt::format("{}{:.1f},{:.1f}L{:.1f},{:.1f}", path.empty() ? "M" : "L",
                          x_of(bin(record.ready_ns)), y, x_of(bin(record.end_ns)), y);
    }
    return fmt::format(R"(<path d="{}" fill="none" stroke="{}" stroke-width="1"/>)"
                       "\n",
                       path, kChainColor);
  }

  const RecordedRun& run_;
  const TraceAnalysis analysis_;
  const std::uint64_t begin_ns_;
  std::vector<double> work_us_;            // by node
  std::vector<std::vector<double>> busy_;  // workers, by node and bin
};

std::string chain_table(const RecordedRun& run, double span_us) {
  struct Step {
    std::uint64_t tasks = 0;
    double us = 0;
  };
  const std::vector<std::string>& nodes = run.lowering.graph.nodes;
  std::vector<Step> steps(nodes.size());
  double all_us = 0;
  for (const std::uint32_t position : longest_chain(run.lowering, run.trace)) {
    const TraceRecord& record = run.trace.records[position];
    Step& step = steps[task_of(run.lowering, position).node];
    step.us += us_of(record.end_ns - record.ready_ns);
    ++step.tasks;
    all_us += us_of(record.end_ns - record.ready_ns);
  }
  std::vector<std::size_t> order(steps.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return steps[a].us > steps[b].us; });
  Table table;
  for (const char* title : {"on the chain", "tasks", "us", "share"}) table.add_column(title);
  std::size_t through = 0;
  for (const Step& step : steps) through += step.tasks > 0;
  for (std::size_t i = 0; i < std::min(kMostRows, through); ++i) {
    const Step& step = steps[order[i]];
    table.add_row({nodes[order[i]], std::to_string(step.tasks), fmt::format("{:.1f}", step.us),
                   percent(step.us / std::max(all_us, 1e-3))});
  }
  return fmt::format("longest chain: {:.1f} us, {} of the run, through {} of {} nodes\n", all_us,
                     percent(all_us / std::max(span_us, 1e-3)), through, nodes.size()) +
         table.str();
}

std::string waits_table(const RecordedRun& run, double all_us) {
  const std::vector<NodeWait> waits = waits_between_nodes(run.lowering, run.trace);
  if (waits.empty()) return {};
  Table table;
  for (const char* title : {"waits", "for", "tasks", "mean, us", "share of time"}) {
    table.add_column(title);
  }
  const std::vector<std::string>& nodes = run.lowering.graph.nodes;
  for (std::size_t i = 0; i < std::min(kMostRows, waits.size()); ++i) {
    const NodeWait& wait = waits[i];
    table.add_row({nodes[wait.to], nodes[wait.from] + (wait.slot ? " (memory)" : ""),
                   std::to_string(wait.num),
                   fmt::format("{:.1f}", wait.us / static_cast<double>(wait.num)),
                   percent(wait.us / all_us)});
  }
  return table.str();
}

}  // namespace
}  // namespace timeline

std::string network_timeline(const RecordedRun& run, const std::string& title) {
  return timeline::Picture(run).text(title);
}

std::string network_waits(const RecordedRun& run) {
  const TraceAnalysis analysis = analyse(run.lowering, run.trace);
  return timeline::chain_table(run, analysis.span_us) +
         timeline::waits_table(run, std::max(analysis.span_us * analysis.tracks, 1e-3));
}

}  // namespace megaconv::cli
