// SPDX-License-Identifier: Apache-2.0
#include "tools/report/baseline.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "megaconv/error.hpp"
#include "tools/report/table.hpp"
#include "tools/report/terminal.hpp"
#include "tools/run/file_io.hpp"

namespace megaconv::cli {
namespace {

std::string key(const std::string& problem, const std::string& variant) {
  return problem + ' ' + variant;
}

}  // namespace

Baseline::Baseline(const std::string& file, const BenchSetting& setting) : file_(file) {
  const auto reject = [&](const std::string& what) {
    throw Error(Status::invalid_argument, file + ": " + what);
  };
  const Record records = Record::parse(read_file(file), nullptr, false);
  if (!records.is_array() || records.empty()) reject("must be what bench --json writes");
  const Record now = bench_records(
      setting,
      {LayerResult{.name = {}, .problem = {}, .variants = {VariantResult{.name = kMega}}}});
  for (const Record& record : records) {
    try {
      for (const char* fact : {"kind", "backend", "device", "isa", "filters", "caches"}) {
        if (record.at(fact) == now.front().at(fact)) continue;
        reject(fmt::format("{} {}, must be {} as here", fact, record.at(fact).dump(),
                           now.front().at(fact).dump()));
      }
      if (record.at("median_ms").is_null()) continue;
      const double median = record.at("median_ms").get<double>();
      // What took no turns has no interval, nor have records of older versions.
      const auto or_median = [&](const char* bound) {
        const auto found = record.find(bound);
        return found != record.end() && !found->is_null() ? found->get<double>() : median;
      };
      if (!(median > 0)) reject("median_ms " + record.at("median_ms").dump() + ", must be over 0");
      times_[key(record.at("problem"), record.at("variant"))] = {median, or_median("low_ms"),
                                                                 or_median("high_ms")};
    } catch (const Record::exception& error) {
      reject(std::string("must be what bench --json writes: ") + error.what());
    }
  }
}

std::vector<Baseline::Comparison> Baseline::compare(const std::vector<LayerResult>& results) const {
  std::vector<Comparison> found;
  for (const LayerResult& result : results) {
    for (const VariantResult& v : result.variants) {
      const auto before = times_.find(key(to_string(result.problem), v.name));
      if (v.peer || !v.ran() || !v.same_as.empty() || before == times_.end()) continue;
      const Times& old = before->second;
      found.push_back({result.name, v.name, old.median_ms, v.time.median_ms,
                       v.time.median_ms / old.median_ms, v.time.low_ms / old.high_ms,
                       v.time.high_ms / old.low_ms});
    }
  }
  if (found.empty()) {
    throw Error(Status::invalid_argument,
                file_ + ": has none of the problems that were measured here");
  }
  return found;
}

std::string baseline_table(const std::vector<Baseline::Comparison>& comparisons, double tolerance) {
  Table table;
  table.add_column("layer");
  table.add_column("variant");
  table.add_column("before", "time, ms");
  table.add_column("now", "time, ms");
  table.add_column("ratio", "now / before");
  table.add_column("95% interval", "now / before");
  table.add_column("");
  for (const Baseline::Comparison& c : comparisons) {
    table.add_row({c.layer, c.variant, format_ms(c.before_ms), format_ms(c.now_ms),
                   fmt::format("{:.3f}", c.ratio), fmt::format("{:.3f} .. {:.3f}", c.low, c.high),
                   c.slower(tolerance) ? "SLOWER" : ""});
  }
  return '\n' + table.str();
}

}  // namespace megaconv::cli
