// SPDX-License-Identifier: Apache-2.0
// What `bench` found, as a table for people and as records for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tasks/reference.hpp"
#include "tools/records.hpp"
#include "tools/timing.hpp"

namespace megaconv::cli {

inline constexpr const char* kDirect = "direct";
inline constexpr const char* kStaged = "staged";
inline constexpr const char* kMega = "megakernel";

struct VariantResult {
  std::string name;       ///< kDirect, kStaged, kMega, or a peer's
  std::string algorithm;  ///< a peer's: what it calls its implementation
  std::string policy;     ///< empty for a peer
  std::uint64_t workspace_bytes = 0;
  std::optional<ErrorBound> bound{};  ///< none for a peer
  TimeSummary time{};
  std::optional<ErrorReport> error{};  ///< none without a reference

  bool right() const { return !error || !bound || bound->covers(*error); }
};

struct LayerResult {
  std::string name;
  ConvProblem problem;
  std::vector<VariantResult> variants;

  const VariantResult& variant(const std::string& name) const;
  /// The fastest of the peer's variants; null when it has none for this layer.
  const VariantResult* best_of(const std::string& peer) const;
  bool right() const;
};

/// What is measured, and with what.
std::string bench_heading(std::uint32_t threads, std::uint64_t seed, bool prepared_filters,
                          const TimingOptions& timing);

/// One line a layer; fits 120 columns.
std::string bench_table(const std::vector<LayerResult>& results, const std::string& peer);

/// Geometric means of how much faster the megakernel order is, and the worst error.
std::string bench_summary(const std::vector<LayerResult>& results, const std::string& peer);

/// One record a layer and variant.
std::vector<Record> bench_records(const std::vector<LayerResult>& results, std::uint32_t threads,
                                  std::uint64_t seed, bool prepared_filters);

}  // namespace megaconv::cli
