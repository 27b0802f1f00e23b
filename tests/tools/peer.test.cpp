// SPDX-License-Identifier: Apache-2.0
// bench beside a library that crashes and hangs.
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/tools/command.hpp"
#include "tests/tools/faulty_peer.hpp"
#include "tests/tools/scratch_folder.hpp"

namespace megaconv::cli {
namespace {

using Json = nlohmann::json;

const std::string kQuick = " --peer faulty --beside none --threads 1 --min-ms 0 --repeats 3 ";

std::string layer(Fault fault) { return "n1c8h8k" + std::to_string(fault); }

/// The peer's records of a layer, "bad 0" say and its obstacle, "" for one that ran.
std::vector<std::string> peer_rows(const Json& records, const std::string& name) {
  std::vector<std::string> rows;
  for (const Json& record : records) {
    if (record.at("layer") != name || record.at("variant") != "faulty") continue;
    CHECK(record.at("library") == "faulty 1.0");
    const Json& obstacle = record.at("obstacle");
    std::string row = record.at("algorithm");
    row += ": " + (obstacle.is_null() ? "" : obstacle.get<std::string>());
    rows.push_back(row);
    if (!obstacle.is_null()) continue;
    const bool slow = record.at("algorithm") == "slow";  // keeps what the screening found
    CHECK((record.at("median_ms").get<double>() == 5) == slow);
    CHECK(record.at("low_ms").is_null() == slow);
    CHECK(record.at("samples") == 3);
    CHECK(record.at("relative_l2").get<double>() < 1e-6);  // its y came over
  }
  return rows;
}

TEST_CASE("bench goes on when a peer crashes or hangs, without the algorithm that did it") {
  using Rows = std::vector<std::string>;
  const std::vector<std::pair<Fault, Rows>> expected = {
      {kCrashes, {"bad 0: faulty's process ended: signal 9 (Killed)", "good: ", "slow: "}},
      {kHangs, {"bad 0: faulty's process hung: no answer in 3 s", "good: ", "slow: "}},
      {kCrashesInTurn, {"bad 0: faulty's process ended: signal 9 (Killed)", "good: ", "slow: "}},
      {kFailsAtLast, {"bad 0: faulty's process ended: misaligned address", "good: ", "slow: "}},
      {kCrashesAtOnce, {"all: faulty's process ended: signal 9 (Killed)"}},
      {kNoFault, {"bad 0: ", "good: ", "slow: "}}};
  std::string layers;
  for (const auto& [fault, rows] : expected) layers += ' ' + layer(fault);
  const ScratchFolder folder;
  const Outcome outcome =
      megaconv_in(folder, "bench" + layers + kQuick + "--json -o r.json", "", MEGACONV_FAULTY_PEER);
  CHECK(outcome.status == 0);
  CHECK_THAT(
      outcome.out,
      ContainsSubstring("faulty has no time for 1 of 6 layers: " + layer(kCrashesAtOnce) + '\n'));
  CHECK_THAT(outcome.out,
             ContainsSubstring("  bad 0: faulty's process ended: signal 9 (Killed) (2 layers)\n"));
  const Json records = Json::parse(folder.read("r.json"));
  for (const auto& [fault, rows] : expected) {
    CAPTURE(layer(fault));
    CHECK(peer_rows(records, layer(fault)) == rows);
  }
  std::size_t ours = 0;
  for (const Json& record : records) {
    ours += record.at("variant") == "megakernel" && record.at("median_ms").is_number();
  }
  CHECK(ours == expected.size());
}

TEST_CASE("bench gives a layer's peer up after eight processes") {
  const ScratchFolder folder;
  const Outcome outcome = megaconv_in(
      folder, "bench " + layer(kAllCrash) + ' ' + layer(kNoFault) + kQuick + "--no-check --json",
      "", MEGACONV_FAULTY_PEER);
  CHECK(outcome.status == 0);
  std::vector<std::string> algorithms;
  for (const Json& record : Json::parse(outcome.out)) {
    if (record.at("variant") == "faulty") algorithms.push_back(record.at("algorithm"));
  }
  CHECK(algorithms == std::vector<std::string>{"bad 0", "bad 1", "bad 2", "bad 3", "bad 4", "bad 5",
                                               "bad 6", "bad 7", "all", "bad 0", "good", "slow"});
}

TEST_CASE("Ctrl-C ends bench while its peer hangs, and the peer's process") {
  const ScratchFolder folder;
  const pid_t bench = start_in(folder,
                               {"bench", layer(kHangs), "--peer", "faulty", "--beside", "none",
                                "--threads", "1", "--min-ms", "0"},
                               MEGACONV_FAULTY_PEER);
  std::string text;
  for (int i = 0; i < 1200 && text.empty(); ++i, usleep(50'000)) text = folder.read("hanging");
  REQUIRE(!text.empty());
  const pid_t peer = std::stoi(text);
  CHECK(kill(peer, 0) == 0);
  check_ctrl_c(bench);
  CHECK_THAT(folder.read("err"), ContainsSubstring("interrupted after 0 of 1 layers"));
  CHECK(kill(peer, 0) == -1);
}

TEST_CASE("A peer that cannot compute a problem is refused before anything is measured") {
  const ScratchFolder folder;
  const Outcome outcome =
      megaconv_in(folder, "bench c8h8k8 c8h8k8+relu" + kQuick, "", MEGACONV_FAULTY_PEER);
  CHECK(outcome.status == 3);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err, ContainsSubstring("--peer faulty with an epilogue, must be none"));
}

}  // namespace
}  // namespace megaconv::cli
