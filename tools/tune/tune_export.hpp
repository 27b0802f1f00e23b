// SPDX-License-Identifier: Apache-2.0
// Measurements in the formats of other tools.
#pragma once

#include <string>
#include <vector>

#include "megaconv/plan_database.hpp"

namespace megaconv::cli {

/// All that is known for one key.
struct KeyedMeasurements {
  PlanKey key;
  std::vector<Measurement> measurements;
};

/// One JSON object a line, key and measurement together: what `tune import` reads.
std::string to_json_lines(const std::vector<KeyedMeasurements>& all);
/// A header, then one line a measurement; a column for every parameter.
std::string to_csv_table(const std::vector<KeyedMeasurements>& all);
/// Kernel Tuner's cache file, schema 1.1.0. It holds one problem on one device: throws
/// Error(invalid_argument) for any other number of keys. A parameter that a configuration does not
/// have is "-".
std::string to_kernel_tuner_cache(const std::vector<KeyedMeasurements>& all);
/// T4 results, schema 1.0.0, of all keys.
std::string to_t4(const std::vector<KeyedMeasurements>& all);

}  // namespace megaconv::cli
