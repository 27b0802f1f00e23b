// SPDX-License-Identifier: Apache-2.0
// The tuning verbs of the real command: what is kept, what is refused, and that a candidate that
// crashes, hangs or lies does not end a sweep.
#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "megaconv/plan_database.hpp"
#include "tests/catch.hpp"
#include "tests/tools/command.hpp"
#include "tools/tune/network_bench.hpp"
#include "tools/tune/tune_chart.hpp"
#include "tools/tune/tune_export.hpp"

namespace megaconv::cli {
namespace {

using nlohmann::json;

// 1 to 2 ms a candidate.
const std::string kQuick = " --threads 1 --samples 1 --min-ms 0 --finalists 0 ";
const std::string kProblem = " n1c16h6k16 ";
// 24 points: tile 2 and 4, three distances, four orders.
const std::string kSmall =
    kProblem + kQuick +
    "--algo winograd --values group-tiles=4 --values input-channels=1 "
    "--values output-filters=1 --values gemm-filters=1 --values window=whole "
    "--values workers=1 --values tile=2,4 --values dig=1,2 --values dgo=1,2 "
    "--values m-groups=1,2 --values gemm-positions=16,36 ";

std::vector<Measurement> kept(const ScratchFolder& folder, const std::string& file = "plans.db") {
  const PlanDatabase database(folder.path(file), PlanDatabase::Access::read);
  std::vector<Measurement> all;
  for (const PlanKey& key : database.keys()) {
    for (Measurement& m : database.measurements(key)) all.push_back(std::move(m));
  }
  return all;
}

std::size_t count(const std::vector<Measurement>& all, Verdict verdict) {
  return static_cast<std::size_t>(std::count_if(
      all.begin(), all.end(), [&](const Measurement& m) { return m.verdict == verdict; }));
}

TEST_CASE("tune keeps what it measures, a plan uses it, and resuming measures nothing again",
          "[tune]") {
  const ScratchFolder folder;
  const Outcome first =
      megaconv_in(folder, "tune" + kSmall + "--database plans.db --strategy exhaustive --json");
  REQUIRE(first.status == 0);
  const json record = json::parse(first.out).at(0);
  const std::size_t measured = record.at("measured");
  CHECK(measured > 8);
  CHECK(record.at("ended_by") == "exhausted");
  const std::vector<Measurement> all = kept(folder);
  double best = std::numeric_limits<double>::infinity();
  for (const Measurement& m : all) {
    if (m.verdict == Verdict::right) best = std::min(best, m.best_ms);
  }
  CHECK(record.at("best_ms") == best);
  CHECK(count(all, Verdict::right) == measured);
  CHECK(count(all, Verdict::rejected) == record.at("rejected"));
  for (const Measurement& m : all) {
    if (m.verdict == Verdict::right) CHECK((m.bound_l2 > 0 && m.relative_l2 <= m.bound_l2));
    if (m.verdict == Verdict::rejected) CHECK(!m.reason.empty());
  }
  const Outcome again = megaconv_in(
      folder, "tune" + kSmall + "--database plans.db --strategy exhaustive --resume --json");
  CHECK(json::parse(again.out).at(0).at("measured") == 0);
  CHECK(json::parse(again.out).at(0).at("best_ms") == record.at("best_ms"));
  CHECK(kept(folder).size() == all.size());
  CHECK_THAT(megaconv_in(folder, "tune best" + kProblem + "--threads 1 --database plans.db").out,
             ContainsSubstring(record.at("configuration").get<std::string>()));
  CHECK_THAT(megaconv_in(folder, "tune show plans.db").out, ContainsSubstring("(this one)"));
}

TEST_CASE("A search keeps to the error budget, and what it finds is for that budget alone",
          "[tune]") {
  const ScratchFolder folder;
  const std::string budget = " --max-error 1e-6 --database plans.db ";
  REQUIRE(megaconv_in(folder, "tune" + kSmall + budget + "--strategy exhaustive").status == 0);
  const std::vector<Measurement> all = kept(folder);
  CHECK(count(all, Verdict::right) > 3);
  std::size_t over_budget = 0;
  for (const Measurement& m : all) {
    if (m.verdict == Verdict::right) CHECK(m.configuration.get(Parameter::tile) == 2);
    over_budget += m.reason.find("the bound of winograd F(4x4, 3x3)") != std::string::npos;
  }
  CHECK(over_budget > 3);
  const std::string run = "run" + kProblem + "--threads 1 --filters prepared ";
  CHECK_THAT(megaconv_in(folder, run + budget).out, ContainsSubstring("database plans.db"));
  CHECK_THAT(megaconv_in(folder, run + "--database plans.db").out,
             ContainsSubstring("plans.db does not know this problem"));
}

TEST_CASE("Two shards see every candidate once, and merge to what one search has", "[tune]") {
  const ScratchFolder folder;
  const std::string sweep = "tune" + kSmall + "--strategy exhaustive ";
  REQUIRE(megaconv_in(folder, sweep + "--database whole.db").status == 0);
  REQUIRE(megaconv_in(folder, "tune show absent.db").status == 4);
  const std::string both = sweep + "--shard 1/2 --database " + folder.path("part1.db") +
                           " & '" MEGACONV_COMMAND "' " + sweep + "--shard 2/2 --database " +
                           folder.path("part2.db") + "; wait";
  REQUIRE(megaconv_in(folder, both).status == 0);
  CHECK(megaconv_in(folder, "tune merge all.db part1.db part2.db").status == 0);
  CHECK_THAT(megaconv_in(folder, "tune merge all.db part1.db").out,
             ContainsSubstring("part1.db: 0 new measurements"));
  const auto configurations = [&](const char* file) {
    std::multiset<std::string> found;
    for (const Measurement& m : kept(folder, file)) {
      if (m.verdict == Verdict::right) found.insert(to_string(m.configuration));
    }
    return found;
  };
  std::multiset<std::string> merged = configurations("all.db");
  const std::multiset<std::string> whole = configurations("whole.db");
  CHECK(merged.size() == whole.size() + 1);  // both began with the heuristic's choice
  CHECK(std::set(merged.begin(), merged.end()) == std::set(whole.begin(), whole.end()));
}

// Answers as `tune measure` does: every candidate takes the same time.
constexpr const char* kEvenMeasurer = R"sh(#!/bin/bash
echo '{"backend":"cpu","device":"d","driver":"none","build":"b","problem":"n1c16h6w6k16r3s3p1u1d1g1","precision":"f32","filters":"prepared"}'
while read -r line; do
  config=$(sed 's/.*"configuration":"\([^"]*\)".*/\1/' <<<"$line")
  echo "{\"configuration\":\"$config\",\"samples_ms\":[1.5]}"
done
)sh";

TEST_CASE("Of candidates that take the same time a sweep names the one that the database does",
          "[tune]") {
  const ScratchFolder folder;
  chmod(folder.write("even", kEvenMeasurer).c_str(), 0755);
  const Outcome outcome =
      megaconv_in(folder, "tune" + kSmall +
                              "--database plans.db --strategy exhaustive --measurer ./even --json");
  REQUIRE(outcome.status == 0);
  CHECK(json::parse(outcome.out).at(0).at("configuration") ==
        to_string(rank(kept(folder)).front().configuration));
}

// Answers as `tune measure` does, but for one candidate in four.
constexpr const char* kBadMeasurer = R"sh(#!/bin/bash
echo '{"backend":"cpu","device":"d","driver":"none","build":"b","problem":"n1c16h6w6k16r3s3p1u1d1g1","precision":"f32","filters":"prepared"}'
while read -r line; do
  config=$(sed 's/.*"configuration":"\([^"]*\)".*/\1/' <<<"$line")
  case $config in
    *dig=2,dgo=2*) kill -SEGV $$ ;;
    *dig=2,dgo=1*) sleep 60 ;;
    *dig=1,dgo=2*) echo "{\"configuration\":\"$config\",\"verdict\":\"wrong\",\"reason\":\"seeded\"}" ;;
    *) echo "{\"configuration\":\"$config\",\"samples_ms\":[1.5]}" ;;
  esac
done
)sh";

TEST_CASE("A candidate that crashes, hangs or is wrong is recorded, and the sweep goes on",
          "[tune]") {
  const ScratchFolder folder;
  chmod(folder.write("bad", kBadMeasurer).c_str(), 0755);
  const Outcome outcome = megaconv_in(folder, "tune" + kSmall +
                                                  "--database plans.db --strategy exhaustive "
                                                  "--measurer ./bad --timeout 0.3 --tile 4 --json");
  CHECK(outcome.status == 0);
  const json record = json::parse(outcome.out).at(0);
  const std::vector<Measurement> all = kept(folder);
  CHECK(count(all, Verdict::crashed) >= 1);
  CHECK(count(all, Verdict::hung) >= 1);
  CHECK(count(all, Verdict::wrong) >= 1);
  CHECK(record.at("failed") ==
        all.size() - count(all, Verdict::right) - count(all, Verdict::rejected));
  CHECK(count(all, Verdict::right) > 3);
  for (const Measurement& m : all) {
    if (m.verdict == Verdict::crashed) CHECK_THAT(m.reason, ContainsSubstring("signal 11"));
    if (m.verdict == Verdict::hung) CHECK_THAT(m.reason, ContainsSubstring("no answer in 0.3 s"));
  }
  folder.write("bad", "#!/bin/sh\necho '{\"error\": \"seeded trouble\", \"status\": 4}'\n");
  CHECK_THAT(megaconv_in(folder, "tune" + kSmall + "--database plans.db --measurer ./bad").err,
             ContainsSubstring("seeded trouble"));
  CHECK(megaconv_in(folder, "tune" + kSmall + "--database plans.db --measurer ./absent").status ==
        4);
}

TEST_CASE("Bad input to tune names what was given and what is allowed", "[tune]") {
  const ScratchFolder folder;
  check_refused(folder, "tune", 2, "tune needs a PROBLEM");
  check_refused(folder, "tune" + kProblem + "--evaluations 0", 2, "a budget of nothing");
  check_refused(folder, "tune" + kProblem + "--strategy best", 2, "must be one of exhaustive");
  check_refused(folder, "tune" + kProblem + "--shard 3/2", 2, "--shard 3/2, must be i/n");
  check_refused(folder, "tune" + kProblem + "--values dig", 2, "must be NAME=VALUE");
  check_refused(folder, "tune" + kProblem + "--values dig=0", 2, "dig = 0, must be");
  check_refused(folder, "tune" + kProblem + "--tile 4 --values tile=2", 2, "tile is fixed to 4");
  check_refused(folder, "tune" + kProblem + "--algo winograd --values group-tiles=999", 2,
                "the search space is empty");
  check_refused(folder, "tune" + kProblem + "--config tile=4", 2, "nothing to search");
  check_refused(folder, "tune" + kProblem + "--database .", 4, "cannot be opened");
  check_refused(folder, "tune best" + kProblem + "--database absent.db", 4, "it does not exist");
  check_refused(folder, "tune show", 4, "none of MEGACONV_CACHE_DIR",
                "env -u MEGACONV_CACHE_DIR -u XDG_CACHE_HOME -u HOME");
  folder.write("text.db", std::string(5000, 'x'));
  check_refused(folder, "tune" + kProblem + "--database text.db", 4, "not a plan database");
  folder.write("bad.jsonl", "{\"backend\": \"cpu\"}\n");
  check_refused(folder, "tune import bad.jsonl --database new.db", 2,
                "bad.jsonl:1: key \"device\"");
  folder.write("bad.jsonl", "{");
  check_refused(folder, "tune import bad.jsonl --database new.db", 2, "bad.jsonl:1: not JSON");
  check_refused(folder, "tune tell --database new.db </dev/null --count", 2, "--count");
}

TEST_CASE("ask, measure and tell let another program search", "[tune]") {
  const ScratchFolder folder;
  const std::string same = kProblem + "--threads 1 --database plans.db ";
  const Outcome asked = megaconv_in(folder, "tune ask" + same + "--count 3");
  REQUIRE(asked.status == 0);
  folder.write("asked", asked.out);
  const Outcome measured =
      megaconv_in(folder, "tune measure" + kProblem + "--threads 1 --samples 2 --min-ms 0 <asked");
  REQUIRE(measured.status == 0);
  std::istringstream answers(measured.out);
  std::string line, told;
  std::getline(answers, line);
  CHECK(json::parse(line).at("backend") == "cpu");
  int right = 0;
  while (std::getline(answers, line)) {
    json answer = json::parse(line);
    right += answer.at("verdict") == "right" ? 1 : 0;
    answer["problem"] = "n1c16h6k16";
    told += answer.dump() + '\n';
  }
  CHECK(right == 3);
  folder.write("told", told);
  REQUIRE(megaconv_in(folder, "tune tell --threads 1 --database plans.db <told").status == 0);
  CHECK(count(kept(folder), Verdict::right) == 3);
  const std::string next = megaconv_in(folder, "tune ask" + same + "--count 3").out;
  CHECK(next != asked.out);  // what is known is not asked again
  CHECK(json::parse(megaconv_in(folder, "tune space" + kProblem).out).at("points") > 1000);
}

TEST_CASE("Exports hold every measurement in the fields that other tools read", "[tune]") {
  const ScratchFolder folder;
  REQUIRE(
      megaconv_in(folder, "tune" + kSmall + "--database plans.db --strategy exhaustive").status ==
      0);
  const std::size_t rows = kept(folder).size();
  const auto exported = [&](const std::string& options) {
    return megaconv_in(folder, "tune export --database plans.db " + options).out;
  };
  const json cache = json::parse(exported("--format kerneltuner"));
  CHECK(cache.at("cache").size() == rows);
  CHECK(cache.at("tune_params_keys").size() == cache.at("tune_params").size());
  for (const auto& [key, entry] : cache.at("cache").items()) {
    for (const char* name : {"time", "compile_time", "verification_time", "benchmark_time",
                             "strategy_time", "framework_time", "timestamp"}) {
      CHECK(entry.contains(name));
    }
    CHECK((entry.at("time").is_number() || entry.at("time") == "InvalidConfig"));
  }
  const json t4 = json::parse(exported("--format t4"));
  CHECK(t4.at("results").size() == rows);
  for (const json& result : t4.at("results")) {
    CHECK(result.at("correctness") == (result.at("invalidity") == "correct" ? 1 : 0));
    CHECK(result.at("times").contains("compilation_time"));
  }
  CHECK_THAT(exported("--format csv"), ContainsSubstring("group-tiles"));
  folder.write("all.jsonl", exported(""));
  REQUIRE(megaconv_in(folder, "tune import all.jsonl --database copy.db").status == 0);
  CHECK(kept(folder, "copy.db").size() == rows);
  CHECK(megaconv_in(folder, "tune diff plans.db copy.db").status == 0);
  REQUIRE(megaconv_in(folder, "tune export --database plans.db --best --format sqlite -o ship.db")
              .status == 0);
  CHECK(kept(folder, "ship.db").size() == 1);
  CHECK_THAT(megaconv_in(folder, "run" + kProblem +
                                     "--threads 1 --filters prepared --database ship.db --min-ms 0")
                 .out,
             ContainsSubstring("ok"));
}

TEST_CASE("The report is one file that loads nothing, with all its pictures", "[tune]") {
  const ScratchFolder folder;
  REQUIRE(
      megaconv_in(folder, "tune" + kSmall + "--database plans.db --strategy exhaustive").status ==
      0);
  REQUIRE(megaconv_in(folder,
                      "tune report" + kProblem +
                          "--algo winograd --threads 1 --database plans.db -o r.html --csv r.csv")
              .status == 0);
  const std::string html = folder.read("r.html");
  for (const char* part : {"Best so far", "Sensitivity to each parameter", "DIG and M groups",
                           "GFLOP/s", "(heuristic)", "Candidates without a time"}) {
    CHECK_THAT(html, ContainsSubstring(part));
  }
  for (const char* loaded : {"http:", "https:", "src=", "@import", "<script"}) {
    CAPTURE(loaded);
    CHECK(html.find(loaded) == std::string::npos);
  }
  CHECK_THAT(html, ContainsSubstring("<th>#</th><th>ms</th>"));  // on any screen
  CHECK_THAT(folder.read("r.csv"), ContainsSubstring("verdict"));
}

TEST_CASE("Charts of nothing, of one value and of equal values are drawn", "[tune]") {
  CHECK(svg(ProgressChart{.x_title = "x", .y_title = "y", .values = {}, .reference_title = ""})
            .empty());
  for (const std::vector<double>& values : {std::vector{1.0}, std::vector{2.0, 2.0}}) {
    const std::string text =
        svg(ProgressChart{.x_title = "x", .y_title = "y", .values = values, .reference_title = ""});
    CHECK_THAT(text, ContainsSubstring("</svg>"));
    CHECK_THAT(text, ContainsSubstring(">0</text>"));  // axes begin at 0
    CHECK(text.find("nan") == std::string::npos);
    CHECK(text.find("inf") == std::string::npos);
  }
}

TEST_CASE("A candidate of a network with other outputs is wrong, and one without a plan refused",
          "[tune]") {
  const auto network_of = [](std::uint64_t seed) {
    return make_network("resnet18", {.image = 32, .classes = 10, .seed = seed});
  };
  Network network = network_of(1);
  NetworkBench bench(network, {.num_threads = 2}, 1);
  const auto measured = [&](const char* configuration) {
    return bench.measure(parse_configuration(configuration), {.samples = 2, .min_ms = 0}, 0);
  };
  CHECK(measured("policy=staged,workers=2").verdict == Verdict::right);
  CHECK(measured("algo=winograd").verdict == Verdict::refused);
  network = network_of(2);
  const Measurement wrong = measured("policy=staged,workers=2");
  CHECK(wrong.verdict == Verdict::wrong);
  CHECK(wrong.samples_ms.empty());
  CHECK_THAT(wrong.reason, ContainsSubstring("outputs differ by "));
}

TEST_CASE("net tune keeps what it measures of a network, and its plans use it", "[tune]") {
  const ScratchFolder folder;
  const std::string network = " resnet18 --image 64 --classes 10 --threads 2 --database net.db ";
  const std::string quick = "--samples 1 --min-ms 0 --finalists 0 ";
  const Outcome tuned = megaconv_in(folder, "net tune" + network + quick + "--json");
  REQUIRE(tuned.status == 0);
  const json record = json::parse(tuned.out).at(0);
  CHECK(record.at("measured") == 16);
  CHECK(record.at("failed") == 0);
  CHECK(record.at("best_ms") <= record.at("heuristic_ms"));
  const std::vector<Measurement> all = kept(folder, "net.db");
  REQUIRE(all.size() == 16);
  CHECK(count(all, Verdict::right) == 16);
  CHECK(std::any_of(all.begin(), all.end(), [](const Measurement& m) {
    return m.relative_l2 > 0 && m.relative_l2 < m.bound_l2;  // direct convolution
  }));
  CHECK(to_string(rank(all).front().configuration) == record.at("configuration"));
  CHECK_THAT(megaconv_in(folder, "net show" + network).out, ContainsSubstring("database net.db, "));
  CHECK_THAT(megaconv_in(folder, "net show" + network + "--plan heuristic").out,
             ContainsSubstring("heuristic\n"));
  const Outcome again = megaconv_in(folder, "net tune" + network + quick + "--resume --json");
  CHECK(json::parse(again.out).at(0).at("known") == 16);

  CHECK_THAT(megaconv_in(folder, "tune show net.db").out, ContainsSubstring("network "));
  REQUIRE(megaconv_in(folder, "tune export --database net.db -o net.jsonl").status == 0);
  CHECK(megaconv_in(folder, "tune import net.jsonl --database other.db").status == 0);
  CHECK(kept(folder, "other.db").size() == 16);
}

}  // namespace
}  // namespace megaconv::cli
