// SPDX-License-Identifier: Apache-2.0
// Machine models: files, presets, and what is refused.
#include "megaconv/machine.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/mapping/shapes.hpp"

using namespace megaconv;
using namespace megaconv::test;

TEST_CASE("every preset survives its own file") {
  for (const std::string& name : machine_names()) {
    const MachineModel machine = machine_preset(name);
    CHECK(machine.name == name);
    CHECK(parse_machine(to_json(machine)) == machine);
  }
  CHECK_THAT(error_of([] { machine_preset("h300"); }), ContainsSubstring("must be one of h200, "));
}

TEST_CASE("a machine file may leave out what is known of networks, or has all of it") {
  auto file = nlohmann::json::parse(to_json(machine_preset("h100")));
  CHECK(parse_machine(file.dump()).network->hop_us == machine_preset("h100").network->hop_us);
  file["network"].erase("hop_us");
  CHECK_THAT(error_of([&] { parse_machine(file.dump()); }),
             ContainsSubstring("key \"network.hop_us\" is missing"));
  file["network"]["hop_us"] = -1;
  CHECK_THAT(error_of([&] { parse_machine(file.dump()); }),
             ContainsSubstring("network.hop_us: found -1.0, must be 0.0 to"));
  file["network"]["hop_us"] = 1;
  file["tilings"] = "cpu";
  CHECK_THAT(error_of([&] { parse_machine(file.dump()); }),
             ContainsSubstring("network: found with tilings cpu, must be with cuda"));
  file.erase("network");
  CHECK(!parse_machine(file.dump()).network);
}

TEST_CASE("a machine file with a missing, unknown or absurd value is refused with its name") {
  const auto error_with = [](auto edit) {
    auto file = nlohmann::json::parse(to_json(machine_preset("toy")));
    edit(file);
    return error_of([&] { parse_machine(file.dump()); });
  };
  CHECK_THAT(error_with([](auto& f) { f.erase("l2_gbps"); }),
             ContainsSubstring("key \"l2_gbps\" is missing"));
  CHECK_THAT(error_with([](auto& f) { f["kinds"]["gemm"].erase("unit_gflops"); }),
             ContainsSubstring("key \"kinds.gemm.unit_gflops\" is missing"));
  CHECK_THAT(error_with([](auto& f) { f["l3_bytes"] = 1; }),
             ContainsSubstring("unknown key \"l3_bytes\""));
  CHECK_THAT(error_with([](auto& f) { f["hbm_gbps"] = 0; }),
             ContainsSubstring("hbm_gbps: found 0.0, must be 0.001 to"));
  CHECK_THAT(error_with([](auto& f) { f["units"] = 0; }),
             ContainsSubstring("units: found 0, must be 1 to 65536"));
  CHECK_THAT(error_with([](auto& f) { f["units"] = -4; }),
             ContainsSubstring("units: found -4, must be a whole number"));
  CHECK_THAT(error_with([](auto& f) { f["hop_us"] = "fast"; }),
             ContainsSubstring("hop_us: found \"fast\", must be a number"));
  CHECK_THAT(error_with([](auto& f) { f["noise"] = 1.5; }),
             ContainsSubstring("must be 0.0 to 1.0"));
  CHECK_THAT(error_with([](auto& f) { f["tilings"] = "sim"; }),
             ContainsSubstring("must be cuda or cpu"));
  CHECK_THAT(error_with([](auto& f) { f["kinds"] = 3; }), ContainsSubstring("must be an object"));
  CHECK_THAT(error_with([](auto& f) { f["megaconv_machine"] = 9; }),
             ContainsSubstring("must be 1"));
  CHECK_THAT(error_of([] { parse_machine("{"); }), ContainsSubstring("parse error at line 1"));
  CHECK_THAT(error_with([](auto& f) { f["units"] = 65536, f["workers_per_unit"] = 1024; }),
             ContainsSubstring("units x workers_per_unit: found 67108864, must be 1 to 1048576"));
  const std::string opens(200'000, '['), closes(200'000, ']');
  CHECK_THAT(error_of([&] { parse_machine(opens + closes); }),
             ContainsSubstring("machine model: arrays and objects nested more than 32 deep"));
  CHECK_THAT(error_of([&] { parse_machine("{\"name\":" + opens + closes + "}"); }),
             ContainsSubstring("nested more than 32 deep"));
  MachineModel machine = machine_preset("toy");
  machine.launch_us = std::numeric_limits<double>::quiet_NaN();
  CHECK_THAT(error_of([&] { validate(machine); }), ContainsSubstring("launch_us"));
}
