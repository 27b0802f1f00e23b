// SPDX-License-Identifier: Apache-2.0
// Times that can be compared: variants take turns, and what is reported is the median with its
// spread.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tools/run/device.hpp"

namespace CLI {
class App;
}

namespace megaconv::cli {

struct TimeSummary {
  double median_ms = 0, p10_ms = 0, p90_ms = 0;
  std::size_t samples = 0;
  /// 95 % interval of the median, from the medians of the turns; all of them for less than 6 turns.
  double low_ms = 0, high_ms = 0;
  /// (p90 - p10) / median
  double spread() const { return median_ms > 0 ? (p90_ms - p10_ms) / median_ms : 0; }
};

/// Median and deciles, interpolated between neighbours. `times_ms` must not be empty.
TimeSummary summarize(std::vector<double> times_ms);

/// The 95 % interval of the median of what `values` are samples of: two of them, by their ranks.
/// Conover, Practical Nonparametric Statistics, 3rd edition, section 3.2. Less than 6 values have
/// none: their least and their greatest. `values` must not be empty.
std::pair<double, double> median_interval(std::vector<double> values);

/// Samples for `turn_ms`, at least one, each the milliseconds of one run.
using Turn = std::function<std::vector<double>(double turn_ms)>;

/// Turns of what gives one sample a call. The first call of a turn does not count: it has the
/// caches and clocks as this variant leaves them.
Turn turns_of(std::function<double()> sample_ms);

struct TimedVariant {
  std::string name;
  Turn turn;
};

/// Waits until this process has used no CPU time for a moment. Threads of the variant before may
/// still spin for work and would take CPU time from the next: OpenMP's do for 5 to 15 ms, whatever
/// the count of spins takes on this CPU.
void settle();

/// Milliseconds that `run` takes by the clock on the wall.
double wall_ms(const std::function<void()>& run);

struct TimingOptions {
  double min_ms = 200;  ///< of every variant, over all its turns
  int repeats = 10;     ///< turns
  Caches caches = Caches::hot;
};

/// Adds --min-ms, --repeats and --cold. `options` must outlive the parsing.
void add_timing_options(CLI::App& app, TimingOptions& options);

/// A B C A B C ...: a turn of min_ms / repeats for every variant, after settle(). One summary a
/// variant.
std::vector<TimeSummary> measure_interleaved(std::span<const TimedVariant> variants,
                                             const TimingOptions& options,
                                             const std::function<void(const std::string&)>& report);

}  // namespace megaconv::cli
