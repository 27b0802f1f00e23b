// SPDX-License-Identifier: Apache-2.0
#include "tools/run/timing.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <thread>
#include <tuple>

#include "runtime/quantile.hpp"
#include "tools/verbs/number.hpp"

namespace megaconv::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Between two readings of the CPU time of this process, and the most that others may take
// meanwhile.
constexpr std::chrono::milliseconds kLook{2};
constexpr double kIdleMs = 0.2;
constexpr int kMostLooks = 100;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double cpu_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

void settle() {
  for (int look = 0; look < kMostLooks; ++look) {
    const double before = cpu_ms();
    std::this_thread::sleep_for(kLook);
    if (cpu_ms() - before < kIdleMs) return;
  }
}

Turn turns_of(std::function<double()> sample_ms) {
  return [sample_ms = std::move(sample_ms)](double turn_ms) {
    std::vector<double> samples;
    sample_ms();
    const Clock::time_point begin = Clock::now();
    do {
      samples.push_back(sample_ms());
    } while (ms_since(begin) < turn_ms);
    return samples;
  };
}

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

std::pair<double, double> median_interval(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  // Of n samples, k or less lie below the median with the probability sum C(n, i) / 2^n, i <= k.
  // The most samples that may be cut off at either end keep twice that at 5 %.
  const std::size_t n = values.size();
  const auto count = static_cast<double>(n);
  std::size_t cut = 0;
  if (n > 1000) {  // where 2^-n is no number any more, the normal distribution is as good
    cut = static_cast<std::size_t>(count / 2 - 0.98 * std::sqrt(count)) - 1;
  } else {
    double term = std::pow(0.5, count), below = term;
    for (; 2 * below <= 0.05; below += term) {
      ++cut;
      term *= static_cast<double>(n - cut + 1) / static_cast<double>(cut);
    }
    if (cut > 0) --cut;
  }
  return {values[cut], values[n - 1 - cut]};
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
  std::vector<std::vector<double>> times(variants.size()), turns(variants.size());
  const double turn_ms = options.min_ms / options.repeats;
  for (int turn = 0; turn < options.repeats; ++turn) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      report(variants[i].name + ", turn " + std::to_string(turn + 1) + " of " +
             std::to_string(options.repeats));
      settle();
      std::vector<double> samples = variants[i].turn(turn_ms);
      times[i].insert(times[i].end(), samples.begin(), samples.end());
      turns[i].push_back(summarize(std::move(samples)).median_ms);
    }
  }
  std::vector<TimeSummary> summaries;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    TimeSummary& summary = summaries.emplace_back(summarize(std::move(times[i])));
    std::tie(summary.low_ms, summary.high_ms) = median_interval(std::move(turns[i]));
  }
  return summaries;
}

}  // namespace megaconv::cli
