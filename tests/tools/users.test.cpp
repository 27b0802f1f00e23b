// SPDX-License-Identifier: Apache-2.0
// What makes the command pleasant to live with: rows as they finish, baselines, completions,
// policies and databases that are named and then used.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/command.hpp"
#include "tests/tools/npy_bytes.hpp"

namespace megaconv::cli {
namespace {

constexpr const char* kQuick = " --threads 1 --min-ms 0 --repeats 6 ";

TEST_CASE("bench shows rows as they finish, and Ctrl-C keeps what is done") {
  const ScratchFolder folder;
  // The second layer is measured for ten minutes; the first is done long before.
  folder.write("layers.csv", "quick,c8h8k8\nslow,c64h112k64\n");
  const pid_t child =
      start_in(folder, {"bench", "--layers", folder.path("layers.csv"), "--threads", "1",
                        "--min-ms", "5000", "--repeats", "100", "--beside", "none", "--no-check",
                        "--json", "-o", folder.path("r.json")});
  const auto row_is_there = [&] { return folder.read("out").find("\nquick") != std::string::npos; };
  for (int i = 0; i < 1200 && !row_is_there(); ++i) usleep(50'000);
  REQUIRE(row_is_there());
  CHECK(nlohmann::json::parse(folder.read("r.json")).size() == 1);
  usleep(300'000);  // into the second layer
  check_ctrl_c(child);
  CHECK_THAT(folder.read("err"), ContainsSubstring("interrupted after 1 of 2 layers"));
  CHECK_THAT(folder.read("out"), !ContainsSubstring("\nslow"));
}

TEST_CASE("bench names the algorithm, and merges what has mega's plan") {
  const Outcome outcome = megaconv(std::string("bench c8h8k8 --algo direct") + kQuick);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("algorithm"));
  CHECK_THAT(outcome.out, ContainsSubstring("  direct\n"));
  CHECK_THAT(outcome.out, ContainsSubstring(" = "));
}

TEST_CASE("bench compares with a baseline, and its status says whether it is slower") {
  const ScratchFolder folder;
  const std::string bench = std::string("bench c8h8k8") + kQuick;
  REQUIRE(megaconv_in(folder, bench + "--json -o old.json").status == 0);
  auto records = nlohmann::json::parse(folder.read("old.json"));
  CHECK(records[0].at("low_ms") <= records[0].at("median_ms"));
  const auto scaled = [&](double factor) {
    auto changed = records;
    for (auto& record : changed) {
      for (const char* key : {"median_ms", "low_ms", "high_ms"}) {
        if (!record.at(key).is_null()) record[key] = record[key].get<double>() * factor;
      }
    }
    return changed.dump();
  };
  folder.write("slow.json", scaled(1e6));
  const Outcome better = megaconv_in(folder, bench + "--baseline slow.json");
  CHECK(better.status == 0);
  CHECK_THAT(better.out, ContainsSubstring("now / before"));
  CHECK_THAT(better.out, !ContainsSubstring("SLOWER"));
  folder.write("fast.json", scaled(1e-6));
  const Outcome worse = megaconv_in(folder, bench + "--baseline fast.json");
  CHECK(worse.status == 1);
  CHECK_THAT(worse.out, ContainsSubstring("SLOWER"));

  check_refused(folder, "bench c8h8k8 --baseline none.json", 4, "cannot read none.json");
  folder.write("text.json", "{}");
  check_refused(folder, "bench c8h8k8 --baseline text.json", 2, "what bench --json writes");
  records[0]["device"] = "another";
  folder.write("other.json", records.dump());
  check_refused(folder, "bench c8h8k8 --baseline other.json", 2, "device \"another\", must be");
  check_refused(folder, "bench c8h8k8 --tolerance -1", 2, "--tolerance: -1, must be a number");
}

TEST_CASE("A shared object is a policy everywhere, and is blamed by its name") {
  const ScratchFolder folder;
  for (const char* file : {"policy_pairs.so", "drops.so"}) {
    std::filesystem::copy_file(std::string(MEGACONV_TEST_POLICIES "/") + file, folder.path(file));
  }
  const std::string policy = " --policy ./policy_pairs.so";
  CHECK(megaconv_in(folder, "verify c8h8k8 --algo winograd" + policy).status == 0);
  CHECK_THAT(megaconv_in(folder, "map show c16h14k16 --algo winograd" + policy).out,
             ContainsSubstring("./policy_pairs.so"));
  CHECK(megaconv_in(folder, "simulate c8h14k8 --machine toy" + policy).status == 0);
  CHECK(megaconv_in(folder, "net simulate resnet18 --image 32 --machine toy" + policy).status == 0);
  const Outcome run =
      megaconv_in(folder, std::string("run c8h8k8 --algo winograd") + kQuick + policy);
  CHECK(run.status == 0);
  CHECK_THAT(run.out, ContainsSubstring("chosen by  the caller's policy"));
  check_refused(folder, "run c8h8k8 --policy ./none.so", 2, "policy ./none.so");
  check_refused(folder, "run c8h8k8 --algo winograd --policy ./drops.so", 2,
                "policy \"./drops.so\": ");
  const Outcome tune = megaconv_in(
      folder, "tune c16h14k16 --algo winograd --evaluations 3 --samples 1 --min-ms 1" + policy);
  CHECK(tune.status == 0);
  CHECK_THAT(tune.out, ContainsSubstring("policy=own"));
  CHECK_THAT(tune.out, ContainsSubstring("not kept: plans could not find ./policy_pairs.so"));
  CHECK(megaconv_in(folder, "tune c8h8k8 --backend sim --machine toy --evaluations 2" + policy)
            .status == 0);
  check_refused(folder, "tune c8h8k8 --database t.db" + policy, 2,
                "--database t.db with --policy ./policy_pairs.so");
  check_refused(folder, "tune c8h8k8 --resume" + policy, 2,
                "--resume with --policy ./policy_pairs.so");
  check_refused(folder, "run c8h8k8 --config policy=own", 2, "policy = own, must be a name");
}

TEST_CASE("A database that is named and not there is an error") {
  const ScratchFolder folder;
  check_refused(folder, "run c8h8k8 --database nope.db", 4, "cannot read nope.db");
  check_refused(folder, "bench c8h8k8 --database nope.db", 4, "cannot read nope.db");
  check_refused(folder, "map show c8h8k8 --database nope.db", 4, "cannot read nope.db");
}

TEST_CASE("map plans for a GPU that is not there") {
  const ScratchFolder folder;
  const std::string show = "map show n64c128h28k128 --backend cuda --device ";
  const Outcome h200 = megaconv_in(folder, show + "h200");
  CHECK(h200.status == 0);
  CHECK_THAT(h200.out, ContainsSubstring("implicit_gemm"));
  CHECK_THAT(megaconv(show + "v100").out, ContainsSubstring("winograd"));
  CHECK(megaconv_in(folder, "map export c64h28k64 --backend cuda --device a100 -o m.json").status ==
        0);
  CHECK(megaconv_in(folder, "map validate m.json").status == 0);
  check_refused(folder, show + "cpu", 2, "--device cpu, must be a GPU");
  check_refused(folder, show + "h300", 2, "h300");
  check_refused(folder, "map show c8h8k8 --device h200", 2, "--device needs --backend cuda");
}

TEST_CASE("run says who chose, and does not write over its input") {
  const ScratchFolder folder;
  CHECK_THAT(megaconv(std::string("run c8h8k8") + kQuick + "--plan heuristic").out,
             ContainsSubstring("chosen by  heuristic\n"));
  folder.write("x.npy", npy_ones({1, 4, 5, 6}));
  folder.write("w.npy", npy_ones({3, 4, 3, 3}));
  const std::string files = "run --input x.npy --weights w.npy --output ";
  const std::string before = folder.read("x.npy");
  check_refused(folder, files + "x.npy", 2, "--output x.npy is the input x.npy");
  check_refused(folder, files + "./w.npy", 2, "--output ./w.npy is the input w.npy");
  CHECK(folder.read("x.npy") == before);
}

TEST_CASE("lab compare makes its folder, and a page with the policies side by side") {
  const ScratchFolder folder;
  REQUIRE(megaconv_in(folder,
                      "lab compare n2c32h14k32 --algo winograd --turns 2 --machine toy "
                      "--policies interleaved,staged --traces a/tr --html page.html")
              .status == 0);
  CHECK(std::filesystem::exists(folder.path("a/tr/n2c32h14k32.staged.sim.trace.json")));
  const std::string page = folder.read("page.html");
  CHECK_THAT(page, ContainsSubstring("interleaved: "));
  CHECK_THAT(page, ContainsSubstring("staged: "));
  CHECK_THAT(page, ContainsSubstring("class=\"limit\""));
  CHECK_THAT(page, ContainsSubstring(" of them here; bound "));
  CHECK(page.find("http") == page.find("http://www.w3.org/2000/svg"));  // loads nothing
  folder.write("file", "");
  check_refused(folder, "lab compare c8h8k8 --traces file/tr", 4, "cannot write file/tr");
}

TEST_CASE("MEGACONV_VERBOSE=1 shows plans and runs, with a problem for bench") {
  const Outcome quiet = megaconv(std::string("run c8h8k8 --no-check") + kQuick);
  CHECK(quiet.err.empty());
  const Outcome outcome =
      megaconv(std::string("run c8h8k8+relu --no-check") + kQuick, "MEGACONV_VERBOSE=1");
  CHECK(outcome.status == 0);
  const std::string problem = "n1c8h8w8k8r3s3p1u1d1g1+relu: ";
  CHECK_THAT(outcome.err, ContainsSubstring("megaconv: plan " + problem + "cpu, 1 workers, "));
  CHECK_THAT(outcome.err, ContainsSubstring("megaconv: run " + problem));
  check_refused(ScratchFolder(), "run c8h8k8", 2, "MEGACONV_VERBOSE=yes, must be 0 or 1",
                "MEGACONV_VERBOSE=yes");
}

TEST_CASE("Completions and the manual know every verb and option") {
  const ScratchFolder folder;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome script = megaconv(std::string("completion ") + shell);
    CAPTURE(shell);
    CHECK(script.status == 0);
    CHECK_THAT(script.out, ContainsSubstring("workspace-limit"));
    CHECK_THAT(script.out, ContainsSubstring("megaconv tune report"));
    folder.write(std::string("c.") + shell, script.out);
    const std::string check = std::string("command -v ") + shell + " >/dev/null || exit 0; " +
                              shell + " -n '" + folder.path(std::string("c.") + shell) + "'";
    CHECK(std::system(check.c_str()) == 0);
  }
  folder.write("try.sh", "source '" + folder.path("c.bash") +
                             "'\n"
                             "try() { COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _megaconv; "
                             "echo \"${COMPREPLY[*]}\"; }\n"
                             "try megaconv be\ntry megaconv tune re\ntry megaconv map show --work\n"
                             "try megaconv lab compare --ht\n");
  REQUIRE(std::system(
              ("bash '" + folder.path("try.sh") + "' >'" + folder.path("tried") + "'").c_str()) ==
          0);
  CHECK(folder.read("tried") == "bench\nreport\n--workspace-limit\n--html\n");
  const std::string manual = megaconv("manual").out;
  CHECK_THAT(manual, ContainsSubstring(".TH MEGACONV 1"));
  CHECK_THAT(manual, ContainsSubstring(".SS megaconv lab compare"));
  CHECK_THAT(manual, ContainsSubstring("\\-\\-workspace\\-limit"));
  check_refused(folder, "completion tcsh", 2, "must be bash, zsh or fish");
  check_refused(folder, "completion", 2, "required");
}

}  // namespace
}  // namespace megaconv::cli
