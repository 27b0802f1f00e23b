// SPDX-License-Identifier: Apache-2.0
#include "tools/report/svg_chart.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

namespace megaconv::cli {
namespace {

// Pixels: the plot's corner and size inside the picture.
constexpr double kLeft = 64, kTop = 10, kWidth = 880, kHeight = 220;
constexpr double kTrackHeight = 9, kAxisHeight = 34;

std::string tick_text(double value, double step) {
  return step >= 1 ? fmt::format("{:.0f}", value)
                   : fmt::format("{:.{}f}", value, static_cast<int>(std::ceil(-std::log10(step))));
}

std::string time_axis(double span_us, double height) {
  std::string svg;
  const double step = nice_step(span_us);
  for (int i = 0; i * step <= span_us; ++i) {
    const double x = kLeft + i * step / span_us * kWidth;
    svg += fmt::format(R"(<line x1="{0:.1f}" y1="{1}" x2="{0:.1f}" y2="{2}" class="grid"/>)"
                       R"(<text x="{0:.1f}" y="{3}" class="tick" text-anchor="middle">{4}</text>)",
                       x, kTop, kTop + height, kTop + height + 14, tick_text(i * step, step));
  }
  return svg + fmt::format(R"(<text x="{}" y="{}" class="tick" text-anchor="end">time, us</text>)",
                           kLeft + kWidth, kTop + height + 28);
}

std::string open_svg(double height) {
  return fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" xmlns="http://www.w3.org/2000/svg">)",
                     kLeft + kWidth + 16, kTop + height + kAxisHeight);
}

}  // namespace

double nice_step(double most) {
  const double power = std::pow(10.0, std::floor(std::log10(most / 4)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (most / (factor * power) <= 10) return factor * power;
  }
  return 10 * power;
}

std::string escape_html(const std::string& text) {
  std::string escaped;
  for (const char ch : text) {
    escaped += ch == '<' ? "&lt;" : ch == '>' ? "&gt;" : ch == '&' ? "&amp;" : std::string(1, ch);
  }
  return escaped;
}

std::string to_svg(const Chart& chart) {
  const std::size_t bins = chart.series.empty() ? 0 : chart.series.front().values.size();
  std::vector<double> base(bins);
  double top = std::max(chart.least_top, chart.limit);
  for (const Series& series : chart.series) {
    for (std::size_t b = 0; b < bins; ++b) {
      base[b] = (chart.stacked ? base[b] : 0) + series.values[b];
      top = std::max(top, base[b]);
    }
  }
  if (top <= 0) top = 1;
  const double span_us = std::max(chart.span_us, 1e-3);
  const auto x_of = [&](double bin) { return kLeft + bin / static_cast<double>(bins) * kWidth; };
  const auto y_of = [&](double value) { return kTop + kHeight * (1 - value / (1.04 * top)); };

  std::string svg = open_svg(kHeight) + time_axis(span_us, kHeight);
  const double step = nice_step(top);
  for (int i = 0; i * step <= 1.04 * top; ++i) {
    svg += fmt::format(R"(<line x1="{0}" y1="{1:.1f}" x2="{2}" y2="{1:.1f}" class="grid"/>)"
                       R"(<text x="{3}" y="{4:.1f}" class="tick" text-anchor="end">{5}</text>)",
                       kLeft, y_of(i * step), kLeft + kWidth, kLeft - 6, y_of(i * step) + 4,
                       tick_text(i * step, step));
  }
  svg += fmt::format(
      R"svg(<text x="14" y="{0}" class="tick" transform="rotate(-90 14 {0})" text-anchor="middle">)svg"
      "{1}</text>",
      kTop + kHeight / 2, escape_html(chart.unit));
  std::fill(base.begin(), base.end(), 0.0);
  for (const Series& series : chart.series) {
    std::string path;
    for (std::size_t b = 0; b < bins; ++b) {
      const double value = base[b] + series.values[b];
      path += fmt::format("{}{:.1f},{:.1f}L{:.1f},{:.1f}", b == 0 ? "M" : "L",
                          x_of(static_cast<double>(b)), y_of(value),
                          x_of(static_cast<double>(b) + 1), y_of(value));
    }
    if (chart.stacked) {
      for (std::size_t b = bins; b-- > 0;) {
        path += fmt::format("L{:.1f},{:.1f}L{:.1f},{:.1f}", x_of(static_cast<double>(b) + 1),
                            y_of(base[b]), x_of(static_cast<double>(b)), y_of(base[b]));
        base[b] += series.values[b];
      }
      svg += fmt::format(R"(<path d="{}Z" fill="{}"/>)", path, series.color);
    } else {
      svg += fmt::format(R"(<path d="{}" fill="none" stroke="{}" stroke-width="1.6"/>)", path,
                         series.color);
    }
  }
  if (chart.limit > 0) {
    svg += fmt::format(R"(<line x1="{0}" y1="{1:.1f}" x2="{2}" y2="{1:.1f}" class="limit"/>)",
                       kLeft, y_of(chart.limit), kLeft + kWidth);
  }
  svg += "</svg>\n<p class=\"legend\">";
  for (const Series& series : chart.series) {
    svg += fmt::format(R"(<span><i style="background:{}"></i>{}</span> )", series.color,
                       escape_html(series.name));
  }
  if (chart.limit > 0) {
    svg += fmt::format("<span><i class=\"dash\"></i>{}</span>", escape_html(chart.limit_name));
  }
  return svg + "</p>\n";
}

std::string to_svg(const std::vector<Bar>& bars, std::uint32_t num_tracks, double span_us,
                   double limit_us) {
  const double height = kTrackHeight * num_tracks;
  span_us = std::max(span_us, 1e-3);
  std::string svg = open_svg(height) + time_axis(span_us, height);
  for (const Bar& bar : bars) {
    const double x = kLeft + bar.begin_us / span_us * kWidth;
    const double width = std::max(0.2, (bar.end_us - bar.begin_us) / span_us * kWidth - 0.2);
    svg += fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}" fill="{}">)"
                       "<title>{}</title></rect>",
                       x, kTop + bar.track * kTrackHeight, width, kTrackHeight - 1, bar.color,
                       escape_html(bar.title));
  }
  if (limit_us > 0) {
    svg += fmt::format(R"(<line x1="{0:.1f}" y1="{1}" x2="{0:.1f}" y2="{2}" class="limit"/>)",
                       kLeft + limit_us / span_us * kWidth, kTop, kTop + height);
  }
  return svg + "</svg>\n";
}

}  // namespace megaconv::cli
