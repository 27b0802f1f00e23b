// SPDX-License-Identifier: Apache-2.0
// Results for programs: JSON or CSV, to stdout or to a file.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/run/device.hpp"

namespace CLI {
class App;
}

namespace megaconv::cli {

/// One result: keys in the order in which they shall be written, plain values.
using Record = nlohmann::ordered_json;

/// The version of all records; grows when a key changes its meaning or goes.
inline constexpr int kSchemaVersion = 2;

struct OutputArguments {
  bool json = false, csv = false;
  std::string file;
  /// stdout is taken by a machine format, and not free for people.
  bool machine_stdout() const { return (json || csv) && file.empty(); }
};

/// Adds --json, --csv and -o.
void add_output_options(CLI::App& app, OutputArguments& arguments);

/// Throws when the results could not be written: -o without a format, a path that is not writable.
void check_output(const OutputArguments& arguments);

/// Writes the records where and how `arguments` say; does nothing without --json and --csv.
void write_records(const std::vector<Record>& records, const OutputArguments& arguments);

/// What a result was measured on.
struct RecordSite {
  Backend backend;
  std::string device, isa;
};
RecordSite site_of(const Device& device);

/// {"schema_version":..., "kind":kind, "version":..., "git":..., "backend":..., "device":...,
///  "isa":..., "workers":..., "seed":...}: what every record starts with. workers: CPU threads or
/// CUDA thread blocks; null for what has none.
Record record_head(const char* kind, const RecordSite& site, std::optional<std::uint32_t> workers,
                   std::uint64_t seed);

/// A JSON array with one record a line.
std::string to_json(const std::vector<Record>& records);
/// A header line with the first record's keys, then one line a record (RFC 4180; null is empty).
std::string to_csv(const std::vector<Record>& records);

}  // namespace megaconv::cli
