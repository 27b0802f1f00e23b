// SPDX-License-Identifier: Apache-2.0
// Reading a trace file. Its events are placed by the position that each names; together they must
// be the records of the mapping in the same file.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "mapping/json_text.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "tools/report/trace_json.hpp"
#include "tools/report/trace_tracks.hpp"
#include "tools/run/file_io.hpp"

namespace megaconv::cli {
namespace {

using nlohmann::json;

constexpr const char* kWhat = "trace";

// Cores, SMs or units: a machine model has no more (runtime/sim/machine_model.cpp).
constexpr std::uint32_t kMostWorkers = 65536;

[[noreturn]] void reject(const std::string& message) {
  throw Error(Status::invalid_argument, std::string(kWhat) + ": " + message);
}

std::uint32_t read32(const json& object, const char* key, std::uint32_t most) {
  const json& value = object.at(key);
  if (const auto number = whole_number(value, most)) return static_cast<std::uint32_t>(*number);
  reject(std::string(key) + ": found " + excerpt(value.dump(), 40) +
         ", must be a whole number, at most " + std::to_string(most));
}

std::uint64_t ns_of(double us) {
  if (!std::isfinite(us) || us < 0 || us > 1e12) reject("a time of " + json(us).dump() + " us");
  return static_cast<std::uint64_t>(std::llround(us * 1000));
}

Trace read_events(const json& events, std::size_t num_tasks, std::uint32_t num_workers) {
  Trace trace;
  trace.num_workers = num_workers;
  trace.records.resize(num_tasks);
  std::vector<std::uint8_t> seen(num_tasks);
  for (const json& event : events) {
    if (event.at("ph") != "X" || event.at("cat") == "wait" || event.at("cat") == "phase") {
      continue;
    }
    const std::uint32_t position = read32(event.at("args"), "position", 0xffffffffu);
    if (position >= num_tasks) {
      reject("position " + std::to_string(position) + ", its mapping has " +
             std::to_string(num_tasks));
    }
    if (seen[position]++) reject("position " + std::to_string(position) + " stands twice");
    const std::uint64_t ready_ns = ns_of(event.at("ts").get<double>());
    const std::uint64_t wait_ns = ns_of(event.at("args").at("wait_us").get<double>());
    trace.records[position] = {.position = position,
                               .worker = Tracks::worker(read32(event, "tid", 0xffffffffu)),
                               .fetch_ns = ready_ns - std::min(ready_ns, wait_ns),
                               .ready_ns = ready_ns,
                               .end_ns = ready_ns + ns_of(event.at("dur").get<double>())};
  }
  for (std::size_t position = 0; position < num_tasks; ++position) {
    if (!seen[position]) reject("position " + std::to_string(position) + " is missing");
  }
  return trace;
}

}  // namespace

RecordedRun parse_trace(std::string_view text) {
  const auto file = parse_json<json>(text, kLargeJson, kWhat);
  try {
    if (!file.is_object() || !file.contains("otherData") ||
        !file.at("otherData").contains("megaconv_trace")) {
      reject("this is no trace of megaconv: it has no mapping under \"otherData\"");
    }
    const json& about = file.at("otherData");
    if (about.at("megaconv_trace") != kTraceFileVersion) {
      reject("megaconv_trace: found " + excerpt(about.at("megaconv_trace").dump(), 40) +
             ", must be " + std::to_string(kTraceFileVersion));
    }
    RecordedRun run;
    run.lowering = import_mapping(about.at("mapping").dump());
    run.worker_name = about.at("worker_name").get<std::string>();
    if (run.worker_name != "worker" && run.worker_name != "SM") {
      reject("worker_name: found \"" + excerpt(run.worker_name, 40) + "\", must be worker or SM");
    }
    run.time_us = about.at("time_us").get<double>();
    run.trace = read_events(file.at("traceEvents"), run.lowering.mapping.order.size(),
                            read32(about, "workers", kMostWorkers));
    check_trace(run.lowering, run.trace);
    return run;
  } catch (const json::exception& error) {
    reject_json(kWhat, error.what());
  }
}

RecordedRun read_trace(const std::string& path) {
  const std::string text = read_file(path);
  try {
    return parse_trace(text);
  } catch (const Error& error) {
    throw Error(error.status(), path + ": " + error.what());
  }
}

}  // namespace megaconv::cli
