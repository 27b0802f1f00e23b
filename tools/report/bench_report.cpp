// SPDX-License-Identifier: Apache-2.0
#include "tools/report/bench_report.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "tools/report/summary.hpp"
#include "tools/report/terminal.hpp"

namespace megaconv::cli {
namespace {

double gflops(const ConvProblem& problem, const TimeSummary& time) {
  return problem.flops() / time.median_ms / 1e6;
}

std::string mebibytes(const VariantResult* variant) {
  if (variant == nullptr) return "-";
  return fmt::format("{:.1f}", static_cast<double>(variant->workspace_bytes) / (1 << 20));
}

std::string median_ms(const VariantResult* variant) {
  return variant != nullptr ? format_ms(variant->time.median_ms) : "-";
}

/// How much faster `ours` is: "1.23x".
std::string faster(const VariantResult& ours, const VariantResult* other) {
  if (other == nullptr) return "-";
  return fmt::format("{:.2f}x", other->time.median_ms / ours.time.median_ms);
}

std::string norm(const VariantResult* variant) {
  if (variant == nullptr || !variant->error) return "-";
  return fmt::format("{:.1e}", variant->error->relative_l2);
}

/// "12%" of what is allowed, or what breaks it: "WRONG".
std::string verdict(const VariantResult& variant) {
  if (!variant.right()) return "WRONG";
  return fmt::format("{:.0f}%", 100 * share_of_bound(*variant.error, *variant.bound));
}

/// Names of our variants that ran for any layer, in their order.
std::vector<std::string> own_variants(const std::vector<LayerResult>& results) {
  std::vector<std::string> names;
  for (const VariantResult& v : results.front().variants) {
    const bool ran = std::any_of(results.begin(), results.end(), [&](const LayerResult& result) {
      return result.find(v.name) != nullptr;
    });
    if (!v.peer && ran) names.push_back(v.name);
  }
  return names;
}

std::string title(const std::string& variant) { return variant == kMega ? "mega" : variant; }

/// "  1.23x as fast as NAME (2 layers, least 1.01x, most 1.50x)", or nothing without ratios.
std::string ratio_line(const std::string& name, const std::vector<double>& ratios) {
  if (ratios.empty()) return {};
  double sum = 0;
  for (const double ratio : ratios) sum += std::log(ratio);
  return fmt::format("  {:.2f}x as fast as {} ({}, least {:.2f}x, most {:.2f}x)\n",
                     std::exp(sum / static_cast<double>(ratios.size())), name,
                     count_text(ratios.size(), "layer"),
                     *std::min_element(ratios.begin(), ratios.end()),
                     *std::max_element(ratios.begin(), ratios.end()));
}

}  // namespace

const VariantResult* LayerResult::find(const std::string& wanted) const {
  const auto found = std::find_if(variants.begin(), variants.end(), [&](const VariantResult& v) {
    return v.name == wanted && v.ran();
  });
  return found == variants.end() ? nullptr : &*found;
}

const VariantResult* LayerResult::best(bool peer) const {
  const VariantResult* best = nullptr;
  for (const VariantResult& v : variants) {
    if (v.peer != peer || !v.ran() || !v.right()) continue;
    if (best == nullptr || v.time.median_ms < best->time.median_ms) best = &v;
  }
  return best;
}

bool LayerResult::right() const {
  return std::all_of(variants.begin(), variants.end(),
                     [](const VariantResult& v) { return v.right(); });
}

std::string bench_heading(const BenchSetting& setting, std::uint32_t most_workers) {
  const std::string workers = setting.site.backend == Backend::cpu
                                  ? count_text(most_workers, "thread")
                                  : "up to " + count_text(most_workers, "block");
  std::string text = fmt::format(
      "{}, {}, {}; filters {}; seed {}\n"
      "medians of at least {:g} ms a variant in {} interleaved turns, caches {}; GFLOP/s "
      "effective;\n",
      setting.site.device, workers, setting.site.isa,
      setting.prepared_filters ? "prepared ahead" : "transformed in every run", setting.seed,
      setting.timing.min_ms, setting.timing.repeats,
      setting.timing.caches == Caches::hot ? "hot" : "emptied before every run");
  if (setting.site.backend == Backend::cuda) {
    text += "a sample is one replay of a CUDA graph of a millisecond, by the runs in it;\n";
  }
  if (!setting.peer.empty()) text += "beside " + setting.peer + ";\n";
  return text + "bound: share of the error allowed, in the L2 norm or at the worst element\n\n";
}

BenchTable::BenchTable(std::vector<std::string> variants, const std::vector<std::string>& layers,
                       bool with_error)
    : variants_(std::move(variants)), with_error_(with_error) {
  std::size_t widest = 0;
  for (const std::string& layer : layers) widest = std::max(widest, layer.size());
  table_.add_column("layer", "", widest);
  for (const std::string& name : variants_) table_.add_column(title(name), "time, ms", 6);
  table_.add_column("spread", "mega");
  table_.add_column("GFLOP/s", "mega");
  for (const std::string& name : variants_) {
    if (name != kMega) table_.add_column(name, "mega faster than", 6);
  }
  if (with_error_) table_.add_column("bound", "error");
  table_.add_column("MiB", "space", 5);
  table_.add_column("algorithm", "mega", 20);
}

std::string BenchTable::line(const LayerResult& result) const {
  const VariantResult& mega = result.mega();
  const auto shown = [&](const std::string& name, auto text) {
    const VariantResult* const variant = result.find(name);
    return variant != nullptr && !variant->same_as.empty() ? std::string("=") : text(variant);
  };
  std::vector<std::string> cells = {result.name};
  for (const std::string& name : variants_) cells.push_back(shown(name, median_ms));
  cells.push_back(fmt::format("{:.0f}%", 100 * mega.time.spread()));
  cells.push_back(fmt::format("{:.0f}", gflops(result.problem, mega.time)));
  for (const std::string& name : variants_) {
    if (name == kMega) continue;
    cells.push_back(shown(name, [&](const VariantResult* other) { return faster(mega, other); }));
  }
  if (with_error_) cells.push_back(verdict(mega));
  cells.push_back(mebibytes(&mega));
  cells.push_back(mega.algorithm);
  return table_.line(cells);
}

std::string peer_table(const std::vector<LayerResult>& results, const std::string& peer) {
  Table table;
  table.add_column("layer");
  table.add_column("ms", "megaconv's best");
  table.add_column("variant", "megaconv's best");
  table.add_column("ms", peer + "'s best");
  table.add_column("algorithm", peer + "'s best");
  table.add_column("faster", "megaconv");
  table.add_column("megaconv", "rel L2");
  table.add_column(peer, "rel L2");
  std::map<std::string, int> obstacles;  // text -> layers
  for (const LayerResult& result : results) {
    for (const VariantResult& v : result.variants) {
      if (v.peer && !v.ran()) ++obstacles[v.algorithm + ": " + v.obstacle];
    }
    const VariantResult *ours = result.best(false), *theirs = result.best(true);
    table.add_row({result.name, median_ms(ours), ours != nullptr ? title(ours->name) : "-",
                   median_ms(theirs), theirs != nullptr ? theirs->algorithm : "-",
                   ours != nullptr ? faster(*ours, theirs) : "-", norm(ours), norm(theirs)});
  }
  std::string text = '\n' + table.str();
  if (!obstacles.empty()) text += "\nnot run by " + peer + ":\n";
  for (const auto& [obstacle, layers] : obstacles) {
    text += fmt::format("  {} ({})\n", obstacle, count_text(layers, "layer"));
  }
  return text;
}

std::string busy_warning(const std::vector<LayerResult>& results) {
  // A median stands between samples that differ by more than half of it.
  constexpr double kBusy = 0.5;
  std::size_t count = 0;
  double most = 0;
  for (const LayerResult& result : results) {
    double spread = 0;
    for (const VariantResult& v : result.variants) spread = std::max(spread, v.time.spread());
    if (spread > kBusy) ++count;
    most = std::max(most, spread);
  }
  if (count == 0) return {};
  return fmt::format(
      "{} of {} with a spread over {:.0f}%, up to {:.0f}%: the machine is busy, and these times "
      "say little",
      count, count_text(results.size(), "layer"), 100 * kBusy, 100 * most);
}

std::string bench_summary(const std::vector<LayerResult>& results, const std::string& peer) {
  const auto ratios = [&](auto find_ours, auto find_other) {
    std::vector<double> found;
    for (const LayerResult& result : results) {
      const VariantResult *ours = find_ours(result), *other = find_other(result);
      if (ours == nullptr || other == nullptr || !other->same_as.empty()) continue;
      found.push_back(other->time.median_ms / ours->time.median_ms);
    }
    return found;
  };
  const auto mega = [](const LayerResult& result) { return &result.mega(); };
  std::string text;
  for (const std::string& name : own_variants(results)) {
    if (name == kMega) continue;
    text += ratio_line(name, ratios(mega, [&](const LayerResult& r) { return r.find(name); }));
  }
  if (!text.empty()) {
    text = "\nmegakernel order, geometric means:\n" + text;
  }
  if (!peer.empty()) {
    const std::string line =
        ratio_line(peer + "'s fastest", ratios([](const LayerResult& r) { return r.best(false); },
                                               [](const LayerResult& r) { return r.best(true); }));
    text += line.empty() ? peer + " ran none of these layers\n" : "our best variant:\n" + line;
    std::vector<std::string> without;
    for (const LayerResult& result : results) {
      if (result.best(true) == nullptr) without.push_back(result.name);
    }
    if (!line.empty() && !without.empty()) {
      text += fmt::format("{} has no time for {} of {}: {}\n", peer, without.size(),
                          count_text(results.size(), "layer"), fmt::join(without, ", "));
    }
  }
  for (const LayerResult& result : results) {
    for (const VariantResult& v : result.variants) {
      if (v.right()) continue;
      text +=
          fmt::format("WRONG: {}, {}: {}\n", result.name, v.name, error_text(*v.error, *v.bound));
    }
  }
  return text;
}

std::vector<Record> bench_records(const BenchSetting& setting,
                                  const std::vector<LayerResult>& results) {
  std::vector<Record> records;
  const auto when = [](bool known, auto value) { return known ? Record(value) : Record(); };
  for (const LayerResult& result : results) {
    for (const VariantResult& v : result.variants) {
      Record record = record_head("bench", setting.site,
                                  v.peer ? std::nullopt : std::optional(v.workers), setting.seed);
      const bool ran = v.ran();
      const bool has_interval = ran && v.time.high_ms > 0;  // not what took no turns
      const ErrorReport error = v.error.value_or(ErrorReport{});
      record.update({{"layer", result.name},
                     {"problem", to_string(result.problem)},
                     {"variant", v.name},
                     {"library", v.peer ? setting.peer : std::string("megaconv")},
                     {"algorithm", v.algorithm},
                     {"policy", when(!v.policy.empty(), v.policy)},
                     {"filters", setting.prepared_filters ? "prepared" : "every-run"},
                     {"caches", setting.timing.caches == Caches::hot ? "hot" : "cold"},
                     {"obstacle", when(!ran, v.obstacle)},
                     {"same_as", when(!v.same_as.empty(), v.same_as)},
                     {"samples", when(ran, v.time.samples)},
                     {"median_ms", when(ran, v.time.median_ms)},
                     {"p10_ms", when(ran, v.time.p10_ms)},
                     {"p90_ms", when(ran, v.time.p90_ms)},
                     {"low_ms", when(has_interval, v.time.low_ms)},
                     {"high_ms", when(has_interval, v.time.high_ms)},
                     {"effective_gflops", when(ran, ran ? gflops(result.problem, v.time) : 0)},
                     {"workspace_bytes", when(ran, v.workspace_bytes)},
                     {"relative_l2", when(v.error.has_value(), error.relative_l2)},
                     {"worst_element", when(v.error.has_value(), error.worst_element)},
                     {"within_bound", when(v.error && v.bound, v.right())}});
      records.push_back(std::move(record));
    }
  }
  return records;
}

}  // namespace megaconv::cli
