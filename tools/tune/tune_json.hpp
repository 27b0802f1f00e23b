// SPDX-License-Identifier: Apache-2.0
// Keys and measurements as JSON: what the measuring process, ask, tell, export and import speak.
#pragma once

#include "megaconv/plan_database.hpp"
#include "tools/run/json_lines.hpp"

namespace megaconv::cli {

Json to_json(const PlanKey& key);
Json to_json(const Measurement& measurement);
/// {"tile":4,"policy":"staged",...}
Json to_json(const Configuration& configuration);

/// Throw Error(invalid_argument) naming the key that is missing or wrong. A measurement needs
/// "configuration", a text or an object, and either "samples_ms" or a "verdict" that is not right.
PlanKey key_from_json(const Json& json);
Measurement measurement_from_json(const Json& json);

/// 0 when the key is missing. Throws Error(invalid_argument) for what is no number.
double number_from_json(const Json& json, const char* name);

}  // namespace megaconv::cli
