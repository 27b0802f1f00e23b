// SPDX-License-Identifier: Apache-2.0
// Kernel Tuner's schemas: kernel_tuner/schema/cache/1.1.0 and kernel_tuner/schema/T4/1.0.0 of
// github.com/KernelTuner/kernel_tuner. Its writer says "compilation" where its T4 schema says
// "compilation_time"; both are written. Nothing is compiled for a candidate: these times are 0.
#include "tools/tune/tune_export.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <set>

#include "megaconv/error.hpp"
#include "tools/report/records.hpp"
#include "tools/tune/tune_json.hpp"

namespace megaconv::cli {
namespace {

/// "2026-11-21T09:30:00Z" as Kernel Tuner writes it.
std::string python_time(const std::string& utc) {
  return utc.size() == 20 ? utc.substr(0, 10) + ' ' + utc.substr(11, 8) + "+00:00" : utc;
}

Json value_json(const Configuration& configuration, Parameter parameter) {
  const std::optional<std::int64_t> value = configuration.get(parameter);
  if (!value) return "-";
  const std::string text = value_text(parameter, *value);
  return text == std::to_string(*value) ? Json(*value) : Json(text);
}

std::string plain(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// The parameters that any of the measurements has.
std::vector<Parameter> used_parameters(const std::vector<Measurement>& measurements) {
  std::vector<Parameter> used;
  for (std::size_t i = 0; i < kNumParameters; ++i) {
    const auto parameter = static_cast<Parameter>(i);
    if (std::any_of(measurements.begin(), measurements.end(), [&](const Measurement& m) {
          return m.configuration.get(parameter).has_value();
        })) {
      used.push_back(parameter);
    }
  }
  return used;
}

/// The last word about each configuration, in the order in which they were first met.
std::vector<Measurement> last_words(const std::vector<Measurement>& measurements) {
  std::vector<std::string> order;
  std::map<std::string, Measurement> last;
  for (const Measurement& m : measurements) {
    const std::string text = to_string(m.configuration);
    const auto [place, fresh] = last.insert_or_assign(text, m);
    if (fresh) order.push_back(text);
  }
  std::vector<Measurement> words;
  for (const std::string& text : order) words.push_back(last[text]);
  return words;
}

Json kernel_tuner_time(const Measurement& m) {
  switch (m.verdict) {
    case Verdict::right:
      return m.best_ms;
    case Verdict::refused:
    case Verdict::rejected:
      return "InvalidConfig";
    default:
      return "RuntimeFailedConfig";
  }
}

const char* t4_invalidity(Verdict verdict) {
  switch (verdict) {
    case Verdict::right:
      return "correct";
    case Verdict::wrong:
      return "correctness";
    case Verdict::hung:
      return "timeout";
    case Verdict::crashed:
      return "runtime";
    default:
      return "constraints";
  }
}

double giga_flops(const PlanKey& key, const Measurement& m) {
  if (is_of_network(key)) return 0;  // which does not say it
  return m.best_ms > 0 ? parse_problem(key.problem).flops() / m.best_ms * 1e-6 : 0;
}

}  // namespace

std::string to_json_lines(const std::vector<KeyedMeasurements>& all) {
  std::string text;
  for (const KeyedMeasurements& item : all) {
    for (const Measurement& m : item.measurements) {
      Json line = to_json(item.key);
      line.update(to_json(m));
      text += line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
    }
  }
  return text;
}

std::string to_csv_table(const std::vector<KeyedMeasurements>& all) {
  std::vector<Record> records;
  for (const KeyedMeasurements& item : all) {
    for (const Measurement& m : item.measurements) {
      Record record = to_json(item.key);
      for (std::size_t i = 0; i < kNumParameters; ++i) {
        const auto parameter = static_cast<Parameter>(i);
        const bool has = m.configuration.get(parameter).has_value();
        record[to_string(parameter)] = has ? value_json(m.configuration, parameter) : Json();
      }
      Record rest = to_json(m);
      rest.erase("configuration");
      rest["samples_ms"] = m.samples_ms.size();
      record.update(rest);
      records.push_back(std::move(record));
    }
  }
  return to_csv(records);
}

std::string to_kernel_tuner_cache(const std::vector<KeyedMeasurements>& all) {
  if (all.size() != 1) {
    throw Error(Status::invalid_argument,
                fmt::format("Kernel Tuner's cache file holds one problem on one device, must be 1, "
                            "not {}: name a PROBLEM",
                            all.size()));
  }
  const auto& [key, measurements] = all.front();
  const std::vector<Parameter> parameters = used_parameters(measurements);
  const std::vector<Measurement> words = last_words(measurements);
  Json names = Json::array(), values = Json::object(), cache = Json::object();
  for (const Parameter parameter : parameters) {
    std::set<Json> found;
    for (const Measurement& m : words) found.insert(value_json(m.configuration, parameter));
    names.push_back(to_string(parameter));
    values[to_string(parameter)] = found;
  }
  for (const Measurement& m : words) {
    std::string name;
    Json entry = Json::object();
    for (const Parameter parameter : parameters) {
      const Json value = value_json(m.configuration, parameter);
      name += (name.empty() ? "" : ",") + plain(value);
      entry[to_string(parameter)] = value;
    }
    entry["time"] = kernel_tuner_time(m);
    if (m.verdict == Verdict::right) {
      entry["times"] = m.samples_ms;
      entry["GFLOP/s"] = giga_flops(key, m);
    }
    for (const char* time : {"compile_time", "verification_time", "benchmark_time", "strategy_time",
                             "framework_time"}) {
      entry[time] = 0;
    }
    double total = 0;
    for (const double ms : m.samples_ms) total += ms;
    entry["benchmark_time"] = total;
    entry["timestamp"] = python_time(m.measured_at);
    cache[name] = std::move(entry);
  }
  const Json file = {{"schema_version", "1.1.0"}, {"device_name", key.device},
                     {"kernel_name", "megaconv"}, {"problem_size", key.problem},
                     {"tune_params_keys", names}, {"tune_params", values},
                     {"objective", "time"},       {"cache", cache}};
  return file.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string to_t4(const std::vector<KeyedMeasurements>& all) {
  Json results = Json::array();
  for (const auto& [key, measurements] : all) {
    for (const Measurement& m : measurements) {
      const bool right = m.verdict == Verdict::right;
      Json configuration = to_json(m.configuration);
      configuration["problem"] = key.problem;
      Json found = Json::array();
      const auto put = [&](const char* name, double value, const char* unit) {
        found.push_back({{"name", name}, {"value", value}, {"unit", unit}});
      };
      if (right) {
        put("time", m.best_ms, "ms");
        put("GFLOP/s", giga_flops(key, m), "GFLOP/s");
        put("relative_l2", m.relative_l2, "");
        put("workspace", static_cast<double>(m.workspace_bytes), "bytes");
      }
      results.push_back({{"timestamp", python_time(m.measured_at)},
                         {"configuration", configuration},
                         {"objectives", {"time"}},
                         {"times",
                          {{"compilation_time", 0},
                           {"compilation", 0},
                           {"runtimes", m.samples_ms},
                           {"framework", 0},
                           {"search_algorithm", 0},
                           {"validation", 0}}},
                         {"invalidity", t4_invalidity(m.verdict)},
                         {"correctness", right ? 1 : 0},
                         {"measurements", found}});
    }
  }
  const Json file = {{"schema_version", "1.0.0"}, {"results", results}};
  return file.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace megaconv::cli
