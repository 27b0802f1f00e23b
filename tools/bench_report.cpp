// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_report.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "tasks/cpu/kernels.hpp"
#include "tools/machine_info.hpp"
#include "tools/summary.hpp"
#include "tools/table.hpp"
#include "tools/terminal.hpp"

namespace megaconv::cli {
namespace {

double gflops(const ConvProblem& problem, const TimeSummary& time) {
  return problem.flops() / time.median_ms / 1e6;
}

std::string mebibytes(std::uint64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / (1 << 20));
}

/// "12%" of what is allowed, or what breaks it: "WRONG".
std::string verdict(const VariantResult& variant) {
  if (!variant.right()) return "WRONG";
  return fmt::format("{:.0f}%", 100 * share_of_bound(*variant.error, *variant.bound));
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

}  // namespace

const VariantResult& LayerResult::variant(const std::string& wanted) const {
  return *std::find_if(variants.begin(), variants.end(),
                       [&](const VariantResult& v) { return v.name == wanted; });
}

const VariantResult* LayerResult::best_of(const std::string& peer) const {
  const VariantResult* best = nullptr;
  for (const VariantResult& v : variants) {
    if (peer.empty() || !v.name.starts_with(peer)) continue;
    if (best == nullptr || v.time.median_ms < best->time.median_ms) best = &v;
  }
  return best;
}

bool LayerResult::right() const {
  return std::all_of(variants.begin(), variants.end(),
                     [](const VariantResult& v) { return v.right(); });
}

std::string bench_heading(std::uint32_t threads, std::uint64_t seed, bool prepared_filters,
                          const TimingOptions& timing) {
  return fmt::format(
      "{}, {}, {}; filters {}; seed {}\n"
      "medians of at least {:g} ms a variant in {} interleaved turns; GFLOP/s effective;\n"
      "bound: share of the error allowed, in the L2 norm or at the worst element\n\n",
      cpu_name(), count_text(threads, "thread"), cpu::kernels_for().isa,
      prepared_filters ? "prepared ahead" : "transformed in every run", seed, timing.min_ms,
      timing.repeats);
}

std::string bench_table(const std::vector<LayerResult>& results, const std::string& peer) {
  const bool with_peer = !peer.empty(),
             with_error = results.front().variants.front().error.has_value();
  Table table;
  table.add_column("layer");
  for (const char* title : {"direct", "staged", "mega"}) table.add_column(title, "time, ms");
  if (with_peer) table.add_column(peer, "time, ms");
  table.add_column("spread", "mega");
  table.add_column("GFLOP/s", "mega");
  for (const char* title : {"direct", "staged"}) table.add_column(title, "mega faster than");
  if (with_peer) table.add_column(peer, "mega faster than");
  if (with_error) {
    table.add_column("rel L2", "error");
    table.add_column("bound", "error");
  }
  table.add_column("mega", "space, MiB");
  table.add_column("whole", "space, MiB");

  for (const LayerResult& result : results) {
    const VariantResult &direct = result.variant(kDirect), &staged = result.variant(kStaged),
                        &mega = result.variant(kMega);
    const VariantResult* best_peer = result.best_of(peer);
    const auto faster = [&](const TimeSummary& other) {
      return fmt::format("{:.2f}x", other.median_ms / mega.time.median_ms);
    };
    std::vector<std::string> cells = {result.name};
    for (const VariantResult* v : {&direct, &staged, &mega}) {
      cells.push_back(format_ms(v->time.median_ms));
    }
    if (with_peer) cells.push_back(best_peer ? format_ms(best_peer->time.median_ms) : "-");
    cells.push_back(fmt::format("{:.0f}%", 100 * mega.time.spread()));
    cells.push_back(fmt::format("{:.0f}", gflops(result.problem, mega.time)));
    cells.push_back(faster(direct.time));
    cells.push_back(faster(staged.time));
    if (with_peer) cells.push_back(best_peer ? faster(best_peer->time) : "-");
    if (with_error) {
      cells.push_back(fmt::format("{:.1e}", mega.error->relative_l2));
      cells.push_back(verdict(mega));
    }
    cells.push_back(mebibytes(mega.workspace_bytes));
    cells.push_back(mebibytes(staged.workspace_bytes));
    table.add_row(std::move(cells));
  }
  return table.str();
}

std::string bench_summary(const std::vector<LayerResult>& results, const std::string& peer) {
  std::string text = fmt::format("\nmegakernel order, geometric mean of {}:\n",
                                 count_text(results.size(), "layer"));
  const auto add_line = [&](const std::string& name, auto find) {
    std::vector<double> ratios;
    for (const LayerResult& result : results) {
      const VariantResult* other = find(result);
      if (other != nullptr) {
        ratios.push_back(other->time.median_ms / result.variant(kMega).time.median_ms);
      }
    }
    if (ratios.empty()) return;
    text +=
        fmt::format("  {:.2f}x as fast as {} (least {:.2f}x, most {:.2f}x)\n",
                    geometric_mean(ratios), name, *std::min_element(ratios.begin(), ratios.end()),
                    *std::max_element(ratios.begin(), ratios.end()));
  };
  add_line("direct tasks", [](const LayerResult& r) { return &r.variant(kDirect); });
  add_line("staged order", [](const LayerResult& r) { return &r.variant(kStaged); });
  if (!peer.empty()) {
    add_line("the better of " + peer + "'s direct and winograd",
             [&](const LayerResult& r) { return r.best_of(peer); });
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

std::vector<Record> bench_records(const std::vector<LayerResult>& results, std::uint32_t threads,
                                  std::uint64_t seed, bool prepared_filters) {
  std::vector<Record> records;
  for (const LayerResult& result : results) {
    for (const VariantResult& v : result.variants) {
      Record record = record_head("bench", threads, seed);
      record.update({{"layer", result.name},
                     {"problem", to_string(result.problem)},
                     {"variant", v.name},
                     {"algorithm", v.algorithm},
                     {"policy", v.policy.empty() ? Record() : Record(v.policy)},
                     {"filters", prepared_filters ? "prepared" : "every-run"},
                     {"runs", v.time.runs},
                     {"median_ms", v.time.median_ms},
                     {"p10_ms", v.time.p10_ms},
                     {"p90_ms", v.time.p90_ms},
                     {"effective_gflops", gflops(result.problem, v.time)},
                     {"workspace_bytes", v.bound ? Record(v.workspace_bytes) : Record()},
                     {"relative_l2", v.error ? Record(v.error->relative_l2) : Record()},
                     {"worst_element", v.error ? Record(v.error->worst_element) : Record()},
                     {"within_bound", v.error && v.bound ? Record(v.right()) : Record()}});
      records.push_back(std::move(record));
    }
  }
  return records;
}

}  // namespace megaconv::cli
