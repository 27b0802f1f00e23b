// SPDX-License-Identifier: Apache-2.0
#include "tools/tune/tune_json.hpp"

#include <limits>
#include <type_traits>

#include "mapping/json_text.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"

namespace megaconv::cli {
namespace {

[[noreturn]] void reject_row(const std::string& message) {
  throw Error(Status::invalid_argument, message);
}

[[noreturn]] void refuse(const char* name, const Json& found, const char* allowed) {
  reject_row('"' + std::string(name) + "\" is " + excerpt(found.dump(), 40) + ", must be " +
             allowed);
}

/// Of a key that may be missing or null; then `value` stays.
template <class Value>
void read(const Json& json, const char* name, Value& value) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return;
  try {
    value = found->get<Value>();
  } catch (const nlohmann::json::exception&) {
    const bool text = std::is_same_v<Value, std::string>;
    const bool number = std::is_same_v<Value, double>;
    refuse(name, *found, text ? "a text" : number ? "a number" : "an array of numbers");
  }
}

void read(const Json& json, const char* name, std::uint64_t& value) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return;
  const auto number = whole_number(*found, std::numeric_limits<std::uint64_t>::max());
  if (!number) refuse(name, *found, "a whole number, not negative");
  value = *number;
}

void read_configuration(const Json& json, Configuration& configuration) {
  if (json.is_string()) {
    configuration = parse_configuration(json.get<std::string>());
    return;
  }
  require_object(json);
  for (const auto& [name, value] : json.items()) {
    const Parameter parameter = parse_parameter(name);
    configuration.set(parameter, parse_value(parameter, value.is_string() ? value.get<std::string>()
                                                                          : value.dump()));
  }
}

}  // namespace

Json to_json(const PlanKey& key) {
  return {{"backend", key.backend}, {"device", key.device},   {"driver", key.driver},
          {"build", key.build},     {"problem", key.problem}, {"precision", key.precision},
          {"filters", key.filters}};
}

Json to_json(const Configuration& configuration) {
  Json json = Json::object();
  for (std::size_t i = 0; i < kNumParameters; ++i) {
    const auto parameter = static_cast<Parameter>(i);
    const auto value = configuration.get(parameter);
    if (!value) continue;
    const std::string text = value_text(parameter, *value);
    json[to_string(parameter)] = text == std::to_string(*value) ? Json(*value) : Json(text);
  }
  return json;
}

Json to_json(const Measurement& m) {
  return {{"id", m.id},
          {"configuration", to_string(m.configuration)},
          {"verdict", to_string(m.verdict)},
          {"reason", m.reason},
          {"best_ms", m.best_ms},
          {"median_ms", m.median_ms},
          {"noise", m.noise},
          {"samples_ms", m.samples_ms},
          {"clock_mhz", m.clock_mhz},
          {"relative_l2", m.relative_l2},
          {"bound_l2", m.bound_l2},
          {"worst_element", m.worst_element},
          {"bound_element", m.bound_element},
          {"workspace_bytes", m.workspace_bytes},
          {"strategy", m.strategy},
          {"seed", m.seed},
          {"measured_at", m.measured_at}};
}

PlanKey key_from_json(const Json& json) {
  require_object(json);
  PlanKey key;
  for (const auto& [name, member] :
       {std::pair{"backend", &PlanKey::backend}, std::pair{"device", &PlanKey::device},
        std::pair{"driver", &PlanKey::driver}, std::pair{"build", &PlanKey::build},
        std::pair{"problem", &PlanKey::problem}, std::pair{"precision", &PlanKey::precision},
        std::pair{"filters", &PlanKey::filters}}) {
    if (!json.contains(name)) reject_row("key \"" + std::string(name) + "\" is missing");
    read(json, name, key.*member);
  }
  return key;
}

Measurement measurement_from_json(const Json& json) {
  require_object(json);
  Measurement m;
  if (!json.contains("configuration")) reject_row("key \"configuration\" is missing");
  read_configuration(json["configuration"], m.configuration);
  std::string verdict = "right";
  read(json, "verdict", verdict);
  m.verdict = parse_verdict(verdict);
  read(json, "id", m.id);
  read(json, "reason", m.reason);
  read(json, "samples_ms", m.samples_ms);
  read(json, "clock_mhz", m.clock_mhz);
  read(json, "relative_l2", m.relative_l2);
  read(json, "bound_l2", m.bound_l2);
  read(json, "worst_element", m.worst_element);
  read(json, "bound_element", m.bound_element);
  read(json, "workspace_bytes", m.workspace_bytes);
  read(json, "strategy", m.strategy);
  read(json, "seed", m.seed);
  read(json, "measured_at", m.measured_at);
  for (const double sample : m.samples_ms) {
    constexpr double kMostMs = 1e12;  // so that sums and quotients of samples are finite
    if (sample > 0 && sample <= kMostMs) continue;
    reject_row("samples_ms has " + Json(sample).dump() +
               ", must be greater than 0 and at most 1e12");
  }
  if (m.verdict == Verdict::right && m.samples_ms.empty()) {
    reject_row("\"samples_ms\" is missing or empty, and the verdict is right");
  }
  summarize(m);
  return m;
}

double number_from_json(const Json& json, const char* name) {
  double number = 0;
  read(json, name, number);
  return number;
}

}  // namespace megaconv::cli
