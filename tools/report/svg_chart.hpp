// SPDX-License-Identifier: Apache-2.0
// Charts over time as SVG text, for pages that load nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace megaconv::cli {

struct Series {
  std::string name, color;
  std::vector<double> values;  ///< one a bin of time, all series the same number
};

struct Chart {
  std::string unit{};    ///< of the values: "tasks", "MiB"
  double span_us = 0;    ///< time from the first bin's begin to the last one's end
  double least_top = 0;  ///< the vertical axis goes at least this far
  bool stacked = false;  ///< areas on top of each other, else lines
  std::vector<Series> series{};
  double limit = 0;  ///< a dashed line across; 0: none
  std::string limit_name{};
};

/// An <svg> with axes, and a legend behind it.
std::string to_svg(const Chart& chart);

/// One bar of a task on a track.
struct Bar {
  std::uint32_t track = 0;
  double begin_us = 0, end_us = 0;
  std::string color, title;
};
/// `limit_us`: a dashed line at a time; 0: none.
std::string to_svg(const std::vector<Bar>& bars, std::uint32_t num_tracks, double span_us,
                   double limit_us = 0);

/// 1, 2 or 5 times a power of ten, so that there are 4 to 10 steps up to `most`.
double nice_step(double most);

/// <, > and & replaced.
std::string escape_html(const std::string& text);

}  // namespace megaconv::cli
