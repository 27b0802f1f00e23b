// SPDX-License-Identifier: Apache-2.0
// The laboratory on the command line: simulate, lab, trace files, graphs.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/tools/command.hpp"

namespace megaconv::cli {
namespace {

TEST_CASE("A problem is simulated, recorded, looked at and replayed") {
  const ScratchFolder folder;
  const Outcome text = megaconv_in(folder, "simulate n4c64h14k64 -o t.json --html t.html");
  CHECK(text.status == 0);
  CHECK_THAT(text.out, ContainsSubstring("machine    h200, 132 units of 2 workers"));
  CHECK_THAT(text.out, ContainsSubstring("(c) V and M"));
  const std::string page = folder.read("t.html");
  CHECK_THAT(page, ContainsSubstring("simulated on h200"));
  CHECK_THAT(page, ContainsSubstring("The simulator exceeds no rate"));
  CHECK_THAT(page, !ContainsSubstring("the model's rate is too low"));
  CHECK(page.find("http") == page.find("http://www.w3.org/2000/svg"));  // loads nothing
  CHECK_THAT(megaconv_in(folder, "trace stats t.json").out, ContainsSubstring("interleaved order"));
  CHECK(megaconv_in(folder, "trace report t.json --html again.html").status == 0);
  CHECK_THAT(folder.read("again.html"), ContainsSubstring("the model's rate is too low"));
  CHECK(megaconv_in(folder, "trace replay t.json -o order.json").status == 0);
  CHECK(megaconv_in(folder, "map validate order.json").status == 0);
  CHECK(megaconv_in(folder, "simulate --mapping order.json").status == 0);
  CHECK(megaconv_in(folder, "simulate --replay t.json").status == 0);
  const auto json = nlohmann::json::parse(megaconv("simulate n4c64h14k64 --json").out);
  CHECK(json.at("time_us") >= json.at("bound_us"));

  const std::string right = folder.read("t.json");
  folder.write("half.json", right.substr(0, right.size() / 2));
  check_refused(folder, "trace stats half.json", 2, "half.json: trace: parse error");
  folder.write("none.json", "{\"traceEvents\": []}");
  check_refused(folder, "simulate --replay none.json", 2, "no trace of megaconv");
  auto other = nlohmann::json::parse(right);
  auto& events = other.at("traceEvents");
  events.erase(std::find_if(events.begin(), events.end(), [](const auto& event) {
    return event.at("ph") == "X" && event.at("cat") != "wait";
  }));
  folder.write("short.json", other.dump());
  check_refused(folder, "trace replay short.json -o gone.json", 2, "is missing");
  CHECK_FALSE(std::filesystem::exists(folder.path("gone.json")));
}

TEST_CASE("Machines are shown, changed and calibrated, and absurd ones refused") {
  const ScratchFolder folder;
  const auto machine =
      nlohmann::json::parse(megaconv("simulate --show-machine --set hbm_gbps=123").out);
  CHECK(machine.at("hbm_gbps") == 123);
  const std::string problem = "simulate n2c32h14k32 --machine ";
  check_refused(folder, problem + "h300", 2, "must be one of h200");
  check_refused(folder, problem + "toy --set hbm_gbps=-1", 2, "hbm_gbps: found -1");
  check_refused(folder, problem + "toy --set speed=1", 2, "must be KEY=NUMBER");
  check_refused(folder, problem + "toy --vary dig=1,x", 2, "\"dig=x\"");
  folder.write("m.json", "{}");
  check_refused(folder, problem + "m.json", 2, "m.json: machine model: key \"megaconv_machine\"");
  check_refused(folder, problem + "./absent.json", 4, "cannot read");
  CHECK_THAT(megaconv(problem + "toy --vary hop_us=0,1,2").out, ContainsSubstring("hop_us=2"));
  REQUIRE(megaconv_in(folder, problem + "cpu --set launch_us=50 -o t.json").status == 0);
  const Outcome fit =
      megaconv_in(folder, "simulate --calibrate t.json --machine cpu --machine-output mine.json");
  CHECK(fit.status == 0);
  CHECK_THAT(fit.out, ContainsSubstring("median of the errors"));
  CHECK(nlohmann::json::parse(folder.read("mine.json")).at("launch_us").get<double>() ==
        Approx(50).epsilon(0.01));
  CHECK(megaconv_in(folder, problem + "mine.json").status == 0);
}

TEST_CASE("lab compare runs policies on back ends, and refuses what is no policy") {
  const ScratchFolder folder;
  const std::string command = "lab compare n2c32h14k32 --algo winograd --turns 2 ";
  const auto records = nlohmann::json::parse(
      megaconv(command + "--policies interleaved:dig=3:m=2,paced,depth_first:window=4x4 "
                         "--backends sim,cpu --runs 1 --machine cpu --json")
          .out);
  REQUIRE(records.size() == 6);
  CHECK(records[0].at("dig") == 3);
  CHECK(records[0].at("against_first") == 1.0);
  CHECK(records[0].at("bound_us") <= records[0].at("time_us"));
  CHECK(records[5].at("backend") == "cpu");
  CHECK(records[5].at("bound_us").is_null());
  CHECK(megaconv_in(folder, command + "--policies staged --traces .").status == 0);
  CHECK(megaconv_in(folder, "trace stats n2c32h14k32.staged.sim.trace.json").status == 0);
  check_refused(folder, command + "--policies best", 2, "policy \"best\"");
  check_refused(folder, command + "--policies staged:m=x", 2, "\"m=x\"");
  check_refused(folder, command + "--policies ./none.so", 2, "none.so");
  check_refused(folder, command + "--policies none.json", 4, "cannot read none.json");
  check_refused(folder, command + "--backends gpu", 2, "--backends gpu");
  check_refused(folder, "lab compare", 2, "needs a PROBLEM");
  check_refused(folder, "lab", 2, "lab needs compare");
}

TEST_CASE("A small graph is written for Graphviz, a large one refused") {
  const ScratchFolder folder;
  const std::string dot = megaconv("map graph n1c16h16k32 --algo winograd").out;
  CHECK_THAT(dot, ContainsSubstring("digraph mapping"));
  CHECK_THAT(dot, ContainsSubstring("O[0,0]"));
  check_refused(folder, "map graph n64c64h56k64 --algo winograd", 3, "must be at most 400");
}

}  // namespace
}  // namespace megaconv::cli
