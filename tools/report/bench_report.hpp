// SPDX-License-Identifier: Apache-2.0
// What `bench` found, as tables for people and as records for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tasks/reference.hpp"
#include "tools/report/records.hpp"
#include "tools/report/table.hpp"
#include "tools/run/device.hpp"
#include "tools/run/timing.hpp"

namespace megaconv::cli {

/// The variant that all others are compared with: what the plan options ask for.
inline constexpr const char* kMega = "megakernel";
inline constexpr const char* kStaged = "staged";

/// One way of computing a layer, ours or a peer's.
struct VariantResult {
  std::string name;            ///< "staged", kMega, "cudnn"
  bool peer = false;           ///< not ours
  std::string algorithm = {};  ///< ours: algorithm_text(); a peer's: what it calls its own
  std::string policy = {};     ///< ours
  std::string obstacle = {};   ///< why it did not run; then nothing below is set
  std::uint32_t workers = 0;   ///< ours
  std::uint64_t workspace_bytes = 0;
  std::optional<ErrorBound> bound{};  ///< none for a peer
  TimeSummary time{};
  std::optional<ErrorReport> error{};  ///< none without a reference
  /// The variant with the very same plan, whose times these are; empty: it has its own.
  std::string same_as = {};

  bool ran() const { return obstacle.empty(); }
  bool right() const { return !error || !bound || bound->covers(*error); }
};

struct LayerResult {
  std::string name;
  ConvProblem problem;
  std::vector<VariantResult> variants;

  /// Null when there is none of this name, or it did not run.
  const VariantResult* find(const std::string& name) const;
  const VariantResult& mega() const { return *find(kMega); }
  /// The fastest right one of ours, or of the peer's; null when none ran.
  const VariantResult* best(bool peer) const;
  bool right() const;
};

/// What is measured, and with what.
struct BenchSetting {
  RecordSite site;
  std::uint64_t seed = 1;
  bool prepared_filters = true;
  TimingOptions timing;
  std::string peer = {};  ///< with its version
};

/// `most_workers`: of any plan.
std::string bench_heading(const BenchSetting& setting, std::uint32_t most_workers);

/// Our variants, one line a layer, as they are measured; fits 120 columns.
class BenchTable {
 public:
  /// `variants`: of ours, in their order, the last is kMega. `layers`: names of all that will come.
  BenchTable(std::vector<std::string> variants, const std::vector<std::string>& layers,
             bool with_error);
  std::string head() const { return table_.head(); }
  std::string line(const LayerResult& result) const;

 private:
  std::vector<std::string> variants_;
  bool with_error_;
  Table table_;
};

/// Our best variant beside the peer's, one line a layer, and what of the peer's did not run.
std::string peer_table(const std::vector<LayerResult>& results, const std::string& peer);

/// Layers whose times say little: "3 of 16 layers have ...", or nothing.
std::string busy_warning(const std::vector<LayerResult>& results);

/// Geometric means, without variants that have mega's plan, and what is wrong.
std::string bench_summary(const std::vector<LayerResult>& results, const std::string& peer);

/// One record a layer and variant; of those that did not run, too.
std::vector<Record> bench_records(const BenchSetting& setting,
                                  const std::vector<LayerResult>& results);

}  // namespace megaconv::cli
