// SPDX-License-Identifier: Apache-2.0
#include "tools/timing.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/quantile.hpp"
#include "tools/number.hpp"

namespace megaconv::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Threads of the variant before may still spin for work (OpenMP's do for some milliseconds) and
// would take CPU time from the next.
constexpr std::chrono::milliseconds kSettle{5};

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

}  // namespace

double wall_ms(const std::function<void()>& run) {
  const Clock::time_point begin = Clock::now();
  run();
  return ms_since(begin);
}

TimeSummary summarize(std::vector<double> times_ms) {
  std::sort(times_ms.begin(), times_ms.end());
  return {quantile(times_ms, 0.5), quantile(times_ms, 0.1), quantile(times_ms, 0.9),
          times_ms.size()};
}

void add_timing_options(CLI::App& app, TimingOptions& options) {
  app.add_option("--min-ms", options.min_ms, "Least time measured, in all turns together")
      ->type_name("MS")
      ->capture_default_str()
      ->check(number_from(0.0, 1e7))
      ->group("Timing");
  app.add_option("--repeats", options.repeats, "Turns that it is spread over")
      ->type_name("N")
      ->capture_default_str()
      ->check(number_from(1, 1000000))
      ->group("Timing");
  app.add_flag_callback(
         "--cold", [&options] { options.caches = Caches::cold; },
         "Empty the caches before every run")
      ->group("Timing");
}

std::vector<TimeSummary> measure_interleaved(
    std::span<const TimedVariant> variants, const TimingOptions& options,
    const std::function<void(const std::string&)>& report) {
  std::vector<std::vector<double>> times(variants.size());
  const double turn_ms = options.min_ms / options.repeats;
  for (int turn = 0; turn < options.repeats; ++turn) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      report(variants[i].name + ", turn " + std::to_string(turn + 1) + " of " +
             std::to_string(options.repeats));
      std::this_thread::sleep_for(kSettle);
      variants[i].sample_ms();
      const Clock::time_point turn_begin = Clock::now();
      do {
        times[i].push_back(variants[i].sample_ms());
      } while (ms_since(turn_begin) < turn_ms);
    }
  }
  std::vector<TimeSummary> summaries;
  for (std::vector<double>& samples : times) summaries.push_back(summarize(std::move(samples)));
  return summaries;
}

}  // namespace megaconv::cli
