// SPDX-License-Identifier: Apache-2.0
// What `bench` found before, from its own JSON, beside what it finds now: for continuous tests.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/report/bench_report.hpp"

namespace megaconv::cli {

/// Times of an older run, of the back end and device that are measured now.
class Baseline {
 public:
  /// Reads records of bench. Throws Error(invalid_argument), naming the file, for what is none of
  /// them, and for another back end, device, instruction set, filter mode or state of the caches;
  /// Error(device_error) for a file that cannot be read.
  Baseline(const std::string& file, const BenchSetting& setting);

  struct Comparison {
    std::string layer, variant;
    double before_ms = 0, now_ms = 0;
    /// now / before, with an interval that holds it wherever both medians lie in theirs.
    double ratio = 0, low = 0, high = 0;
    /// The whole interval lies above 1 + tolerance.
    bool slower(double tolerance) const { return low > 1 + tolerance; }
  };
  /// Our variants that both have. Throws Error(invalid_argument) when these are none.
  std::vector<Comparison> compare(const std::vector<LayerResult>& results) const;

 private:
  struct Times {
    double median_ms, low_ms, high_ms;
  };
  std::string file_;
  std::map<std::string, Times> times_;  // by problem and variant
};

/// One line a comparison; `tolerance`: a share, 0.05.
std::string baseline_table(const std::vector<Baseline::Comparison>& comparisons, double tolerance);

}  // namespace megaconv::cli
