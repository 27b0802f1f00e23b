// SPDX-License-Identifier: Apache-2.0
// The plan database: what goes in comes out, and files that are not right are refused by name.
#include "megaconv/plan_database.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "megaconv/error.hpp"
#include "tests/catch.hpp"
#include "tests/runtime/plan_key.hpp"
#include "tests/tools/scratch_folder.hpp"

namespace megaconv {
namespace {

using cli::ScratchFolder;
using test::kKey;
using Access = PlanDatabase::Access;

Measurement measured(const char* configuration, std::vector<double> samples,
                     Verdict verdict = Verdict::right) {
  Measurement m;
  m.configuration = parse_configuration(configuration);
  m.verdict = verdict;
  m.reason = verdict == Verdict::right ? "" : "seeded";
  m.samples_ms = std::move(samples);
  summarize(m);
  return m;
}

std::string refusal(const std::string& file, Access access = Access::read) {
  try {
    PlanDatabase database(file, access);
    return "opened";
  } catch (const Error& error) {
    CHECK(error.status() == Status::device_error);
    return error.what();
  }
}

void run_sql(const std::string& file, const std::string& sql) {
  const std::string command = "sqlite3 '" + file + "' \"" + sql + "\"";
  REQUIRE(std::system(command.c_str()) == 0);
}

bool have_sqlite_shell() { return std::system("command -v sqlite3 >/dev/null") == 0; }

TEST_CASE("A measurement comes back as it went in", "[database]") {
  const ScratchFolder folder;
  Measurement m = measured("algo=winograd,tile=4,policy=staged", {1.5, 1.25, 2.0});
  m.clock_mhz = 3100;
  m.relative_l2 = 1e-7;
  m.workspace_bytes = std::uint64_t{5} << 32;
  m.strategy = "random";
  m.seed = 7;
  PlanDatabase(folder.path("sub/plans.db"), Access::write).add(kKey, m);

  const PlanDatabase database(folder.path("sub/plans.db"), Access::read);
  CHECK(database.keys() == std::vector{kKey});
  const std::vector<Measurement> found = database.measurements(kKey);
  REQUIRE(found.size() == 1);
  CHECK(found[0].configuration == m.configuration);
  CHECK(found[0].samples_ms == m.samples_ms);
  CHECK(found[0].best_ms == 1.25);
  CHECK(found[0].median_ms == 1.5);
  CHECK(found[0].clock_mhz == 3100);
  CHECK(found[0].relative_l2 == 1e-7);
  CHECK(found[0].workspace_bytes == std::uint64_t{5} << 32);
  CHECK(found[0].strategy == "random");
  CHECK(found[0].seed == 7);
  CHECK(found[0].id.size() == 32);
  CHECK(found[0].measured_at.size() == 20);
  PlanKey other = kKey;
  other.device = "another core";
  CHECK(database.measurements(other).empty());
  CHECK(database.num_foreign(other) == 1);
}

TEST_CASE("Ranking takes the fastest of each configuration whose last word is right",
          "[database]") {
  const std::vector<Measurement> all = {
      measured("algo=direct", {3.0}),
      measured("tile=2", {1.0}),
      measured("tile=2", {}, Verdict::wrong),
      measured("tile=2", {1.0}),  // wrong once stays out
      measured("tile=4", {}, Verdict::crashed),
      measured("tile=4", {2.0}),
      measured("tile=4", {2.5}),
      measured("tile=6", {0.5}),
      measured("tile=6", {}, Verdict::hung),
      measured("cols=7", {}, Verdict::rejected),
  };
  const std::vector<Measurement> ranked = rank(all);
  REQUIRE(ranked.size() == 2);
  CHECK(to_string(ranked[0].configuration) == "tile=4");
  CHECK(ranked[0].best_ms == 2.0);
  CHECK(to_string(ranked[1].configuration) == "algo=direct");
}

TEST_CASE("Ranking believes the measurements in turns at the end of a search", "[database]") {
  const auto final_of = [](const char* configuration, double ms) {
    Measurement m = measured(configuration, {ms});
    m.strategy = kFinalStrategy;
    return m;
  };
  const std::vector<Measurement> ranked =
      rank({measured("tile=2", {1.0}),  // lucky
            measured("tile=4", {1.5}), measured("algo=direct", {1.2}), final_of("tile=2", 2.0),
            final_of("tile=4", 1.8), final_of("tile=2", 1.9)});
  REQUIRE(ranked.size() == 3);
  CHECK(to_string(ranked[0].configuration) == "tile=4");
  CHECK(ranked[0].best_ms == 1.8);
  CHECK(to_string(ranked[1].configuration) == "tile=2");
  CHECK(ranked[1].best_ms == 1.9);
  CHECK(to_string(ranked[2].configuration) == "algo=direct");
}

TEST_CASE("Files are merged once, whatever the number of merges", "[database]") {
  const ScratchFolder folder;
  PlanDatabase a(folder.path("a.db"), Access::write), b(folder.path("b.db"), Access::write);
  a.add(kKey, measured("tile=2", {1.0}));
  PlanKey other = kKey;
  other.problem = "n2c16h8w8k16r3s3p1u1d1g1";
  b.add(other, measured("tile=4", {2.0}));
  b.add(kKey, measured("tile=4", {3.0}));
  CHECK(a.merge(folder.path("b.db")) == 2);
  CHECK(a.merge(folder.path("b.db")) == 0);
  CHECK(a.measurements(kKey).size() == 2);
  CHECK(a.measurements(other).size() == 1);
  CHECK_THROWS_AS(a.merge(folder.path("a.db")), Error);
  a.copy_to(folder.path("c.db"));
  CHECK(PlanDatabase(folder.path("c.db"), Access::read).measurements(kKey).size() == 2);
}

TEST_CASE("Several threads with a connection each lose nothing", "[database]") {
  const ScratchFolder folder;
  const std::string file = folder.path("plans.db");
  constexpr int kWriters = 3, kRows = 20;
  std::vector<std::thread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([&file] {
      PlanDatabase database(file, Access::write);
      for (int row = 0; row < kRows; ++row) database.add(kKey, measured("tile=4", {1.0 + row}));
    });
  }
  for (std::thread& writer : writers) writer.join();
  CHECK(PlanDatabase(file, Access::read).measurements(kKey).size() == kWriters * kRows);
}

TEST_CASE("A file that is no plan database is refused, and not touched", "[database]") {
  const ScratchFolder folder;
  CHECK_THAT(refusal(folder.path("absent.db")), ContainsSubstring("absent.db: it does not exist"));
  const std::string text(5000, 'x');
  const std::string file = folder.write("text.db", text);
  CHECK_THAT(refusal(file), ContainsSubstring("not a plan database"));
  CHECK_THAT(refusal(file, Access::write), ContainsSubstring("not a plan database"));
  CHECK(folder.read("text.db") == text);
  CHECK_THAT(refusal(folder.path("text.db/plans.db"), Access::write),
             ContainsSubstring("cannot be opened or created"));
}

TEST_CASE("Foreign, newer, damaged and read-only files are refused by name", "[database]") {
  if (!have_sqlite_shell()) SKIP("no sqlite3 command");
  const ScratchFolder folder;
  run_sql(folder.path("foreign.db"), "CREATE TABLE t(x);");
  CHECK_THAT(refusal(folder.path("foreign.db")), ContainsSubstring("another program"));

  const std::string file = folder.path("plans.db");
  PlanDatabase(file, Access::write).add(kKey, measured("tile=4", {1.0}));
  run_sql(file, "UPDATE measurement SET configuration = 'tile=5';");
  CHECK_THROWS_WITH(PlanDatabase(file, Access::read).measurements(kKey),
                    ContainsSubstring("is damaged"));
  run_sql(file, "PRAGMA user_version = 2;");
  CHECK_THAT(refusal(file), ContainsSubstring("format 2, must be at most 1"));
  CHECK_THAT(refusal(file, Access::write), ContainsSubstring("newer megaconv"));
}

TEST_CASE("A database in a folder that may only be read is read", "[database]") {
  const ScratchFolder folder;
  const std::string file = folder.path("sub/plans.db");
  PlanDatabase(file, Access::write).add(kKey, measured("tile=4", {1.0}));
  chmod(file.c_str(), 0444);
  chmod(folder.path("sub").c_str(), 0555);
  CHECK(PlanDatabase(file, Access::read).measurements(kKey).size() == 1);
  if (geteuid() != 0)
    CHECK_THAT(refusal(file, Access::write), ContainsSubstring("may only be read"));
  chmod(folder.path("sub").c_str(), 0755);
}

TEST_CASE("The user's file is where the environment says", "[database]") {
  setenv("MEGACONV_CACHE_DIR", "/some/where", 1);
  CHECK(user_database_file() == "/some/where/plans.db");
  unsetenv("MEGACONV_CACHE_DIR");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  CHECK(user_database_file() == "/xdg/megaconv/plans.db");
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", "/home/someone", 1);
  CHECK(user_database_file() == "/home/someone/.cache/megaconv/plans.db");
  unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace megaconv
