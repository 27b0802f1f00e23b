// SPDX-License-Identifier: Apache-2.0
// Wrong command lines, by the hundred: status 2, one line that names the value and what is allowed.
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/tools/command.hpp"
#include "tests/tools/scratch_folder.hpp"

namespace megaconv::cli {
namespace {

struct NumberOption {
  const char* verb;
  const char* option;
};

// Whole numbers; the longest below does not fit 64 bits.
constexpr NumberOption kWhole[] = {
    {"run c8h8k8", "--threads"},
    {"run c8h8k8", "--blocks"},
    {"run c8h8k8", "--dig"},
    {"run c8h8k8", "--dgo"},
    {"run c8h8k8", "--m-groups"},
    {"run c8h8k8", "--group-tiles"},
    {"run c8h8k8", "--measure-ms"},
    {"run c8h8k8", "--workspace-limit"},
    {"run c8h8k8", "--wait-budget-ms"},
    {"run c8h8k8", "--seed"},
    {"run c8h8k8", "--repeats"},
    {"run c8h8k8", "--batch"},
    {"run --input x.npy --weights w.npy", "--groups"},
    {"bench c8h8k8", "--threads"},
    {"bench c8h8k8", "--repeats"},
    {"verify", "--count"},
    {"verify", "--seed"},
    {"verify", "--max-batch"},
    {"verify", "--max-channels"},
    {"verify", "--max-extent"},
    {"verify", "--max-filter"},
    {"verify", "--max-threads"},
    {"map show c8h8k8", "--dig"},
    {"simulate c8h8k8", "--turns"},
    {"lab compare c8h8k8", "--turns"},
    {"lab compare c8h8k8", "--runs"},
    {"tune c8h8k8", "--evaluations"},
    {"tune c8h8k8", "--finalists"},
    {"tune c8h8k8", "--samples"},
    {"tune ask c8h8k8", "--count"},
    {"tune best c8h8k8", "--count"},
    {"tune report c8h8k8", "--rows"},
};
constexpr const char* kNotWhole[] = {"-1", "-3", "x", "1.5", "0x10", "+3", "99999999999999999999"};

constexpr NumberOption kReal[] = {
    {"run c8h8k8", "--min-ms"},
    {"tune c8h8k8", "--min-ms"},
    {"tune c8h8k8", "--seconds"},
    {"tune c8h8k8", "--timeout"},
};
constexpr const char* kNotReal[] = {"-1", "x", "nan", "inf", "1e300", "1.5.2", "+3"};

TEST_CASE("Every option for a number refuses what is none, or out of its range") {
  const ScratchFolder folder;
  int lines = 0;
  const auto check = [&](const NumberOption& number, const char* value) {
    const std::string line = std::string(number.verb) + ' ' + number.option + '=' + value;
    check_refused(folder, line, 2, std::string(number.option) + ": " + value + ", must be ");
    ++lines;
  };
  for (const NumberOption& number : kWhole) {
    for (const char* value : kNotWhole) check(number, value);
  }
  for (const NumberOption& number : kReal) {
    for (const char* value : kNotReal) check(number, value);
  }
  CHECK(lines >= 200);
}

TEST_CASE("Numbers out of an option's own range are refused") {
  const ScratchFolder folder;
  check_refused(folder, "verify --count 0", 2,
                "--count: 0, must be a number from 1 to 18446744073709551615");
  check_refused(folder, "verify --count -3", 2, "--count: -3, must be");
  check_refused(folder, "run c8h8k8 --threads 4294967296", 2, "from 0 to 4294967295");
  check_refused(folder, "run c8h8k8 --repeats 0", 2, "from 1 to 1000000");
  check_refused(folder, "run c8h8k8 --batch 0", 2, "--batch: 0, must be");
  check_refused(folder, "lab compare c8h8k8 --runs 100001", 2, "from 1 to 100000");
  check_refused(folder, "tune c8h8k8 --timeout 0", 2, "from 0.001 to");
  check_refused(folder, "tune report c8h8k8 --rows 0", 2, "--rows: 0, must be");
  check_refused(folder, "tune best c8h8k8 --count 0", 2, "--count: 0, must be");
  check_refused(folder, "run c8h8k8 --workspace-limit 1MB", 2,
                "--workspace-limit: 1MB, must be bytes: 1000000, 512KiB, 1MiB or 2GiB");
  check_refused(folder, "run c8h8k8 --workspace-limit 99999999999GiB", 2, "must be bytes");
  check_refused(folder, "run c8h8k8 --workspace-limit MiB", 2, "must be bytes");
}

TEST_CASE("A limit in bytes may have a unit") {
  CHECK(megaconv("run c8h8k8 --no-check --repeats 1 --min-ms 0 --workspace-limit 1MiB").status ==
        0);
  const Outcome outcome = megaconv("run c8h8k8 --workspace-limit 1KiB --filters every-run");
  CHECK(outcome.status == 4);
  CHECK_THAT(outcome.err, ContainsSubstring("1024"));
}

struct Misspelling {
  const char* line;
  const char* message;
};
constexpr Misspelling kMisspellings[] = {
    {"banch", "banch, must be info, run, bench"},
    {"banch", "or manual, did you mean bench?"},
    {"bemch c8h8k8", "did you mean bench?"},
    {"verfy", "did you mean verify?"},
    {"simulat c8h8k8", "did you mean simulate?"},
    {"help", "must be info, run"},
    {"help", "did you mean --help?"},
    {"version", "did you mean --version?"},
    {"map shwo c8h8k8", "shwo, must be show, export, graph, validate or diff, did you mean show?"},
    {"lab comapre c8h8k8", "did you mean compare?"},
    {"--verson", "megaconv has no option --verson, did you mean --version?"},
    {"run n1c64h56k64 --therads 2", "run has no option --therads, did you mean --threads?"},
    {"run n1c64h56k64 --therads=2", "run has no option --therads, did you mean --threads?"},
    {"run c8h8k8 --algorithm direct", "run has no option --algorithm (see --help)"},
    {"run c8h8k8 --aglo direct", "did you mean --algo?"},
    {"bench c8h8k8 --thread 2", "did you mean --threads?"},
    {"verify --cuont 3", "did you mean --count?"},
    {"map show c8h8k8 --polcy staged", "map show has no option --polcy, did you mean --policy?"},
    {"lab compare c8h8k8 --polices staged", "did you mean --policies?"},
    {"tune c8h8k8 --evaluation 3", "did you mean --evaluations?"},
    {"tune best c8h8k8 --cout 3", "tune best has no option --cout, did you mean --count?"},
    {"simulate c8h8k8 --machin v100", "did you mean --machine?"},
    {"trace c8h8k8 --outptu t.json", "did you mean --output?"},
};

TEST_CASE("Misspelt verbs and options are named, with what may have been meant") {
  const ScratchFolder folder;
  for (const Misspelling& wrong : kMisspellings)
    check_refused(folder, wrong.line, 2, wrong.message);
}

TEST_CASE("The option -V is --version") { CHECK(megaconv("-V").out == megaconv("--version").out); }

}  // namespace
}  // namespace megaconv::cli
