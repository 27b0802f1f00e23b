// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/tune_chart.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "tools/report/svg_chart.hpp"

namespace megaconv::cli {
namespace {

std::string text_at(double x, double y, const char* anchor, const std::string& text,
                    const char* style = "label") {
  return fmt::format("<text class='{}' x='{:.1f}' y='{:.1f}' text-anchor='{}'>{}</text>", style, x,
                     y, anchor, escape_html(text));
}

std::string line(double x1, double y1, double x2, double y2, const char* style) {
  return fmt::format("<line class='{}' x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}'/>", style,
                     x1, y1, x2, y2);
}

std::string open_svg(double width, double height, const std::string& title) {
  return fmt::format(
      "<svg viewBox='0 0 {0:.0f} {1:.0f}' width='{0:.0f}' height='{1:.0f}' role='img' "
      "aria-label='{2}'>",
      width, height, escape_html(title));
}

/// 1, 2 or 5 times a power of ten, so that at most six of it fill `range`.
double tick_step(double range) {
  const double rough = range / 5, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

std::string number(double value) { return fmt::format("{:.4g}", value); }

}  // namespace

std::string svg(const ProgressChart& chart) {
  constexpr double kWidth = 760, kHeight = 260, kLeft = 64, kRight = 16, kTop = 30, kBottom = 44;
  double most = chart.reference;
  for (const double value : chart.values) {
    if (!std::isnan(value)) most = std::max(most, value);
  }
  if (most <= 0) return {};
  const double step = tick_step(most);
  const double high = std::ceil(most / step) * step;
  const double last = static_cast<double>(std::max<std::size_t>(chart.values.size(), 2));
  const auto x_of = [&](double i) {
    return kLeft + (i - 1) / (last - 1) * (kWidth - kLeft - kRight);
  };
  const auto y_of = [&](double value) {
    return kTop + (1 - value / high) * (kHeight - kTop - kBottom);
  };
  std::string text = open_svg(kWidth, kHeight, chart.y_title + " over " + chart.x_title);
  for (double tick = 0; tick <= high + step / 2; tick += step) {
    text += line(kLeft, y_of(tick), kWidth - kRight, y_of(tick), "grid");
    text += text_at(kLeft - 8, y_of(tick) + 4, "end", number(tick));
  }
  const double x_step = std::max(1.0, tick_step(last));
  for (double tick = x_step; tick <= last; tick += x_step) {
    text += text_at(x_of(tick), kHeight - kBottom + 18, "middle", number(tick));
  }
  text += text_at(kWidth - kRight, kHeight - 6, "end", chart.x_title, "title");
  text += text_at(4, 12, "start", chart.y_title, "title");
  if (chart.reference > 0) {
    text += line(kLeft, y_of(chart.reference), kWidth - kRight, y_of(chart.reference), "reference");
    text += text_at(kWidth - kRight, y_of(chart.reference) + 14, "end", chart.reference_title);
  }
  std::string path;
  double best = -INFINITY;
  for (std::size_t i = 0; i < chart.values.size(); ++i) {
    const double value = chart.values[i], x = x_of(static_cast<double>(i + 1));
    if (!std::isnan(value)) {
      text += fmt::format(
          "<circle class='dot' cx='{:.1f}' cy='{:.1f}' r='2.5'><title>{}: {}</title></circle>", x,
          y_of(value), i + 1, number(value));
      if (value > best) {
        if (std::isfinite(best)) path += fmt::format(" L{:.1f} {:.1f}", x, y_of(best));
        best = value;
        path += fmt::format(" {}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', x, y_of(best));
      }
    }
  }
  path += fmt::format(" L{:.1f} {:.1f}", x_of(last), y_of(best));
  return text + fmt::format("<path class='best' d='{}'/></svg>", path.substr(1));
}

std::string svg(const ValueChart& chart) {
  constexpr double kHeight = 180, kLeft = 44, kTop = 26, kBottom = 34;
  constexpr double kLetter = 6.5;  // width of one, about
  std::size_t longest = 5;
  for (const ValueChart::Column& column : chart.columns) {
    longest = std::max(longest, column.label.size());
  }
  const double column_width = kLetter * static_cast<double>(longest) + 14;
  const double width =
      std::max(150.0, kLeft + column_width * static_cast<double>(chart.columns.size()) + 8);
  const auto y_of = [&](double value) { return kTop + (1 - value) * (kHeight - kTop - kBottom); };
  std::string text = open_svg(width, kHeight, "sensitivity to " + chart.title);
  text += text_at(4, 14, "start", chart.title, "title");
  for (const double tick : {0.0, 0.5, 1.0}) {
    text += line(kLeft, y_of(tick), width - 4, y_of(tick), "grid");
    text += text_at(kLeft - 6, y_of(tick) + 4, "end", number(tick));
  }
  std::string path;
  for (std::size_t i = 0; i < chart.columns.size(); ++i) {
    const ValueChart::Column& column = chart.columns[i];
    const double x = kLeft + column_width * (static_cast<double>(i) + 0.5);
    text += fmt::format(
        "<g><title>{}: best {:.3f}, median {:.3f}, worst {:.3f} of the best, {} measured</title>",
        escape_html(column.label), column.best, column.median, column.worst, column.count);
    text += line(x, y_of(column.worst), x, y_of(column.best), "range");
    text += line(x - 7, y_of(column.median), x + 7, y_of(column.median), "median");
    text += fmt::format("<circle class='top' cx='{:.1f}' cy='{:.1f}' r='4'/></g>", x,
                        y_of(column.best));
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x, y_of(column.best));
    text += text_at(x, kHeight - kBottom + 18, "middle", column.label);
  }
  return text + fmt::format("<path class='best thin' d='{}'/></svg>", path);
}

std::string svg(const HeatMap& map) {
  constexpr double kCell = 52, kRow = 34, kLeft = 90, kTop = 30, kBottom = 40;
  const auto columns = static_cast<double>(map.x_labels.size());
  const auto rows = static_cast<double>(map.y_labels.size());
  const double width = kLeft + kCell * columns + 8, height = kTop + kRow * rows + kBottom;
  std::string text = open_svg(width, height, map.y_title + " by " + map.x_title);
  text += text_at(4, 16, "start", map.y_title, "title");
  text += text_at(width - 8, height - 6, "end", map.x_title, "title");
  for (std::size_t y = 0; y < map.y_labels.size(); ++y) {
    const double top = kTop + kRow * static_cast<double>(y);
    text += text_at(kLeft - 8, top + kRow / 2 + 4, "end", map.y_labels[y]);
    for (std::size_t x = 0; x < map.x_labels.size(); ++x) {
      const double left = kLeft + kCell * static_cast<double>(x);
      const std::optional<double> value = map.cells[y * map.x_labels.size() + x];
      if (!value) {
        text += fmt::format("<rect class='none' x='{:.1f}' y='{:.1f}' width='{}' height='{}'/>",
                            left + 1, top + 1, kCell - 2, kRow - 2);
        continue;
      }
      // What matters lies between 60 % and 100 % of the best.
      const double shade = std::clamp((*value - 0.6) / 0.4, 0.0, 1.0);
      text += fmt::format(
          "<rect class='cell' x='{:.1f}' y='{:.1f}' width='{}' height='{}' "
          "style='fill-opacity:{:.2f}'>"
          "<title>{} {}, {} {}: {:.3f} of the best</title></rect>",
          left + 1, top + 1, kCell - 2, kRow - 2, 0.08 + 0.92 * shade, escape_html(map.x_title),
          escape_html(map.x_labels[x]), escape_html(map.y_title), escape_html(map.y_labels[y]),
          *value);
      text += text_at(left + kCell / 2, top + kRow / 2 + 4, "middle", fmt::format("{:.2f}", *value),
                      shade > 0.55 ? "label on" : "label");
    }
  }
  for (std::size_t x = 0; x < map.x_labels.size(); ++x) {
    text += text_at(kLeft + kCell * (static_cast<double>(x) + 0.5), kTop + kRow * rows + 16,
                    "middle", map.x_labels[x]);
  }
  return text + "</svg>";
}

}  // namespace megaconv::cli
