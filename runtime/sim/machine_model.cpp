// SPDX-License-Identifier: Apache-2.0
// Machine models as JSON, and what must hold of them.
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "mapping/json_text.hpp"
#include "mapping/text.hpp"
#include "megaconv/error.hpp"
#include "megaconv/simulation.hpp"

namespace megaconv {
namespace {

using nlohmann::ordered_json;

constexpr int kMachineFileVersion = 1;

constexpr const char* kWhat = "machine model";

[[noreturn]] void reject(const std::string& message) {
  throw Error(Status::invalid_argument, std::string(kWhat) + ": " + message);
}

std::string text_of(double value) { return ordered_json(value).dump(); }

// One number of the model, with what is allowed of it. The table is the format: reading, writing
// and checking walk it.
template <class Part>
struct Field {
  const char* name;
  double Part::*value;
  double least, most;
};
constexpr Field<MachineModel> kFields[] = {
    {"worker_gbps", &MachineModel::worker_gbps, 1e-3, 1e7},
    {"l2_gbps", &MachineModel::l2_gbps, 1e-3, 1e7},
    {"hbm_gbps", &MachineModel::hbm_gbps, 1e-3, 1e7},
    {"ticket_us", &MachineModel::ticket_us, 0, 1e6},
    {"hop_us", &MachineModel::hop_us, 0, 1e6},
    {"block_us", &MachineModel::block_us, 0, 1e6},
    {"launch_us", &MachineModel::launch_us, 0, 1e6},
    {"noise", &MachineModel::noise, 0, 1},
};
constexpr Field<KindModel> kKindFields[] = {
    {"overhead_us", &KindModel::overhead_us, 0, 1e6},
    {"worker_gflops", &KindModel::worker_gflops, 1e-3, 1e7},
    {"unit_gflops", &KindModel::unit_gflops, 1e-3, 1e7},
};
constexpr Field<NetworkModel> kNetworkFields[] = {
    {"launch_us", &NetworkModel::launch_us, 0, 1e6},
    {"hop_us", &NetworkModel::hop_us, 0, 1e6},
};
struct CountField {
  const char* name;
  std::uint32_t MachineModel::*value;
  std::uint64_t most;
};
constexpr CountField kCountFields[] = {
    {"units", &MachineModel::units, 65536},
    {"workers_per_unit", &MachineModel::workers_per_unit, 1024},
};
struct BytesField {
  const char* name;
  std::uint64_t MachineModel::*value;
};
constexpr BytesField kByteFields[] = {
    {"l2_bytes", &MachineModel::l2_bytes},
    {"worker_cache_bytes", &MachineModel::worker_cache_bytes},
};
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;
constexpr std::uint64_t kMostWorkers = std::uint64_t{1}
                                       << 20;  // the simulator keeps each one's state

void check_number(const std::string& name, double value, double least, double most) {
  if (std::isfinite(value) && value >= least && value <= most) return;
  reject(name + ": found " + text_of(value) + ", must be " + text_of(least) + " to " +
         text_of(most));
}

void check_count(const std::string& name, std::uint64_t value, std::uint64_t most) {
  if (value >= 1 && value <= most) return;
  reject(name + ": found " + std::to_string(value) + ", must be 1 to " + std::to_string(most));
}

// An object whose keys must all be taken.
class Reader {
 public:
  Reader(const ordered_json& object, std::string prefix)
      : object_(object), prefix_(std::move(prefix)) {
    if (!object.is_object()) {
      reject((prefix_.empty() ? "" : prefix_.substr(0, prefix_.size() - 1) + ": ") + "found " +
             excerpt(object.dump(), 40) + ", must be an object");
    }
  }
  const ordered_json& take(const char* key) {
    taken_.insert(key);
    const auto found = object_.find(key);
    if (found == object_.end()) reject("key \"" + prefix_ + key + "\" is missing");
    return *found;
  }
  bool has(const char* key) const { return object_.contains(key); }
  double number(const char* key) {
    const ordered_json& value = take(key);
    if (!value.is_number()) refuse(key, value, "a number");
    return value.get<double>();
  }
  std::uint64_t whole(const char* key) {
    const ordered_json& value = take(key);
    if (!value.is_number_unsigned()) refuse(key, value, "a whole number, not negative");
    return value.get<std::uint64_t>();
  }
  bool boolean(const char* key) {
    const ordered_json& value = take(key);
    if (!value.is_boolean()) refuse(key, value, "true or false");
    return value.get<bool>();
  }
  std::string text(const char* key) {
    const ordered_json& value = take(key);
    if (!value.is_string()) refuse(key, value, "a text");
    return value.get<std::string>();
  }
  void expect_no_more() const {
    for (const auto& [key, value] : object_.items()) {
      if (!taken_.contains(key)) reject("unknown key \"" + prefix_ + excerpt(key, 40) + "\"");
    }
  }

 private:
  [[noreturn]] void refuse(const char* key, const ordered_json& value, const char* allowed) const {
    reject(prefix_ + key + ": found " + excerpt(value.dump(), 40) + ", must be " + allowed);
  }
  const ordered_json& object_;
  std::string prefix_;
  std::set<std::string> taken_;
};

}  // namespace

void validate(const MachineModel& machine) {
  if (machine.name.empty() || excerpt(machine.name) != machine.name) {
    reject("name: found \"" + excerpt(machine.name) + "\", must be 1 to 80 printable characters");
  }
  if (machine.tilings == Backend::sim) reject("tilings: must be cuda or cpu");
  if (machine.network && machine.tilings != Backend::cuda) {
    reject("network: found with tilings cpu, must be with cuda");
  }
  for (const CountField& field : kCountFields) {
    check_count(field.name, machine.*field.value, field.most);
  }
  check_count("units x workers_per_unit", std::uint64_t{machine.units} * machine.workers_per_unit,
              kMostWorkers);
  for (const BytesField& field : kByteFields) {
    check_count(field.name, machine.*field.value, kMostBytes);
  }
  for (const auto& field : kFields) {
    check_number(field.name, machine.*field.value, field.least, field.most);
  }
  if (machine.network) {
    for (const auto& field : kNetworkFields) {
      check_number(std::string("network.") + field.name, *machine.network.*field.value, field.least,
                   field.most);
    }
  }
  for (std::uint32_t k = 0; k < kNumTaskKinds; ++k) {
    for (const auto& field : kKindFields) {
      check_number(std::string("kinds.") + to_string(static_cast<TaskKind>(k)) + '.' + field.name,
                   machine.kinds[k].*field.value, field.least, field.most);
    }
  }
}

MachineModel parse_machine(std::string_view json) {
  const auto file = parse_json<ordered_json>(json, kSmallJson, kWhat);
  Reader top(file, "");
  if (const auto version = top.whole("megaconv_machine"); version != kMachineFileVersion) {
    reject("megaconv_machine: found " + std::to_string(version) + ", must be " +
           std::to_string(kMachineFileVersion));
  }
  MachineModel machine;
  machine.name = top.text("name");
  const std::string tilings = top.text("tilings");
  if (tilings != "cuda" && tilings != "cpu") {
    reject("tilings: found \"" + excerpt(tilings) + "\", must be cuda or cpu");
  }
  machine.tilings = tilings == "cuda" ? Backend::cuda : Backend::cpu;
  machine.split_f16 = top.boolean("split_f16");
  for (const CountField& field : kCountFields) {
    const std::uint64_t value = top.whole(field.name);
    check_count(field.name, value, field.most);
    machine.*field.value = static_cast<std::uint32_t>(value);
  }
  for (const BytesField& field : kByteFields) machine.*field.value = top.whole(field.name);
  for (const auto& field : kFields) machine.*field.value = top.number(field.name);
  Reader kinds(top.take("kinds"), "kinds.");
  for (std::uint32_t k = 0; k < kNumTaskKinds; ++k) {
    const char* const name = to_string(static_cast<TaskKind>(k));
    // Models from before there were these: they wait for memory, as transforms do.
    if (k >= id_of(TaskKind::pooling) && !kinds.has(name)) {
      machine.kinds[k] = machine[TaskKind::output_transform];
      continue;
    }
    Reader kind(kinds.take(name), std::string("kinds.") + name + '.');
    for (const auto& field : kKindFields) {
      machine.kinds[k].*field.value = kind.number(field.name);
    }
    kind.expect_no_more();
  }
  kinds.expect_no_more();
  if (top.has("network")) {
    Reader network(top.take("network"), "network.");
    machine.network.emplace();
    for (const auto& field : kNetworkFields) {
      *machine.network.*field.value = network.number(field.name);
    }
    network.expect_no_more();
  }
  top.expect_no_more();
  validate(machine);
  return machine;
}

std::string to_json(const MachineModel& machine) {
  ordered_json file;
  file["megaconv_machine"] = kMachineFileVersion;
  file["name"] = machine.name;
  file["tilings"] = machine.tilings == Backend::cpu ? "cpu" : "cuda";
  file["split_f16"] = machine.split_f16;
  for (const CountField& field : kCountFields) file[field.name] = machine.*field.value;
  for (const BytesField& field : kByteFields) file[field.name] = machine.*field.value;
  for (const auto& field : kFields) file[field.name] = machine.*field.value;
  for (std::uint32_t k = 0; k < kNumTaskKinds; ++k) {
    ordered_json& kind = file["kinds"][to_string(static_cast<TaskKind>(k))];
    for (const auto& field : kKindFields) kind[field.name] = machine.kinds[k].*field.value;
  }
  if (machine.network) {
    ordered_json& network = file["network"];
    for (const auto& field : kNetworkFields) {
      network[field.name] = *machine.network.*field.value;
    }
  }
  return file.dump(2) + '\n';
}

Target target_of(const MachineModel& machine) {
  return {.backend = machine.tilings,
          .workers = machine.workers(),
          .cache_bytes_per_worker = machine.worker_cache_bytes,
          .split_f16 = machine.split_f16};
}

Target network_target_of(const MachineModel& machine) {
  Target target = target_of(machine);
  if (!machine.network) return target;
  // As cuda_target() says it of Hopper.
  target.multiprocessors = machine.units;
  target.shared_bytes = 228 << 10;
  target.cluster_blocks = 4;
  return target;
}

}  // namespace megaconv
