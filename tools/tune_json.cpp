// SPDX-License-Identifier: Apache-2.0
#include "tools/tune_json.hpp"

#include "megaconv/error.hpp"

namespace megaconv::cli {
namespace {

[[noreturn]] void reject(const std::string& message) {
  throw Error(Status::invalid_argument, message);
}

template <class Value>
void read(const Json& json, const char* name, Value& value) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return;
  try {
    value = found->get<Value>();
  } catch (const nlohmann::json::exception&) {
    reject('"' + std::string(name) + "\" is " + found->dump() + ", of the wrong type");
  }
}

void require_object(const Json& json) {
  if (!json.is_object()) reject("a line is " + json.dump().substr(0, 60) + ", must be an object");
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
    if (!json.contains(name)) reject("key \"" + std::string(name) + "\" is missing");
    read(json, name, key.*member);
  }
  return key;
}

Measurement measurement_from_json(const Json& json) {
  require_object(json);
  Measurement m;
  if (!json.contains("configuration")) reject("key \"configuration\" is missing");
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
    if (!(sample > 0)) reject("samples_ms has " + Json(sample).dump() + ", must be greater than 0");
  }
  if (m.verdict == Verdict::right && m.samples_ms.empty()) {
    reject("\"samples_ms\" is missing or empty, and the verdict is right");
  }
  summarize(m);
  return m;
}

Json parse_line(const std::string& line) {
  try {
    return Json::parse(line);
  } catch (const nlohmann::json::exception& error) {
    reject("not JSON: " + std::string(error.what()));
  }
}

}  // namespace megaconv::cli
